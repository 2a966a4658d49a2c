# Not JSON: single quotes.
cat >contact.json <<'END'
{'name': 'Dr. Marta Quill', 'email': 'marta.quill@holloway-brandt.example', 'mobile': '+44 7700 900461'}
END
