"""Notes of the staff."""


def clean(text):
    return " ".join(text.split()).strip(".,;")


def note_title(text):
    """Return the first sentence of a note as its title."""
    return clean(text.split("!")[0])[:40]
