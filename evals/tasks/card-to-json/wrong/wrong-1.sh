# The first number on the card is that of the office.
cat >contact.json <<'END'
{"name": "Dr. Marta Quill", "email": "marta.quill@holloway-brandt.example", "mobile": "+44 113 496 0018"}
END
