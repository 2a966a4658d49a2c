# Overwrites the other functions.
cat >names.py <<'END'
def initials(name):
    return "".join(word[0] for word in name.split()).upper()
END
