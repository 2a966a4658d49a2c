"""Tags of products."""


def clean(text):
    return " ".join(text.lower().split()).strip(".,;")


def tag_list(line):
    """Return the tags of a line, separated by bars, without empty ones."""
    return [tag for tag in map(clean, line.split("|")) if tag]
