"""What may be shown of a setting: nothing that could be a key or a password."""

from __future__ import annotations

import re
from typing import Any

LONGEST = 60
# Letters and digits mixed, long and without a break: a name is rarely like that, a key always is.
_TOKEN = re.compile(r"(?=[A-Za-z+_\-.=]*\d)(?=[\d+_\-.=]*[A-Za-z])[A-Za-z0-9+_\-=]{24,}")
_PASSWORD = re.compile(r"(?<=://)[^/@\s]*@")

_KINDS = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
}


def without_secrets(text: str) -> str:
    """The text without keys, passwords in URLs, and the values of the environment that are secret by their names.

    >>> without_secrets("http://me:hunter2@host/v1")
    'http://…@host/v1'
    """
    from outrider.providers.secrets import MASK, configured, masked

    return _PASSWORD.sub(f"{MASK}@", masked(text, *configured()))


def without_own_keys(text: str) -> str:
    """The text without the values of the environment that are secret by their names, and otherwise whole."""
    from outrider.providers.secrets import MASK, configured

    for secret in sorted(configured(), key=len, reverse=True):
        text = text.replace(secret, MASK) if len(secret) >= 4 else text
    return text


def without_tokens(text: str) -> str:
    """The text without secrets, and also without whatever else might be one."""
    return _TOKEN.sub("…", without_secrets(text))


def quoted(text: str) -> str:
    """A text as it can stand in an error: in quotes if it is short and harmless, else only how long it is."""
    if len(text) > LONGEST or without_tokens(text) != text or not text.isprintable():
        return f"a text of {len(text)} characters"
    return f'"{text}"'


def kind_of(value: Any) -> str:
    """What a value from a file is, in words; the value itself is not shown."""
    for kind in type(value).__mro__:
        if kind in _KINDS:
            return _KINDS[kind]
    return "nothing" if value is None else "a date or a time"
