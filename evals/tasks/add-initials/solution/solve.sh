#!/bin/bash
cat >>names.py <<'END'


def initials(name):
    """Return the first letter of every word as capitals."""
    return "".join(word[0] for word in name.split()).upper()
END
