"""Mask keys and passwords in values that are shown."""

from __future__ import annotations

import re
from typing import Any

LONGEST = 60
# A long run of mixed letters and digits: names rarely look like this, keys always do.
_TOKEN = re.compile(r"(?=[A-Za-z+_\-.=]*\d)(?=[\d+_\-.=]*[A-Za-z])[A-Za-z0-9+_\-=]{24,}")
_PASSWORD = re.compile(r"(?<=://)[^/@\s]*@")

_TYPE_NAMES = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
}


def mask_secrets(text: str) -> str:
    """Mask API keys, passwords in URLs, and the values of environment variables with secret names.

    >>> mask_secrets("http://me:hunter2@host/v1")
    'http://…@host/v1'
    """
    from outrider.providers.credentials.secrets import MASK, configured, masked

    return _PASSWORD.sub(f"{MASK}@", masked(text, *configured()))


def mask_environment_secrets(text: str) -> str:
    """Mask only the values of environment variables with secret names."""
    from outrider.providers.credentials.secrets import MASK, configured

    for secret in sorted(configured(), key=len, reverse=True):
        text = text.replace(secret, MASK) if len(secret) >= 4 else text
    return text


def mask_tokens(text: str) -> str:
    """Mask secrets, and everything else that looks like one."""
    return _TOKEN.sub("…", mask_secrets(text))


def quoted(text: str) -> str:
    """Return a text for an error message: in quotes if it is short and harmless, else only its length."""
    if len(text) > LONGEST or mask_tokens(text) != text or not text.isprintable():
        return f"a text of {len(text)} characters"
    return f'"{text}"'


def describe_type(value: Any) -> str:
    """Name the type of a value from a file. The value itself is not shown."""
    for each in type(value).__mro__:
        if each in _TYPE_NAMES:
            return _TYPE_NAMES[each]
    return "nothing" if value is None else "a date or a time"
