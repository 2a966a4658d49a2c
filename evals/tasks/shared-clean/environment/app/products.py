"""Products and their search words."""

import re


def clean(text):
    return re.sub(r"\s+", " ", text.strip()).strip(".,;").lower()


def search_words(title):
    """Return the words by which a product is found."""
    return sorted(set(clean(title).split(" ")))
