"""Titles as parts of addresses."""

import re


def slugify(title):
    """Return a title as a part of an address.

    1. Capitals become small letters.
    2. Each run of spaces becomes one hyphen.
    3. Characters other than letters a to z, digits, spaces and hyphens are dropped.
    4. There is no hyphen at the start or the end.
    """
    kept = re.sub(r"[^a-z0-9 -]", "", title.lower())
    return re.sub(r" +", "-", kept).strip("-")
