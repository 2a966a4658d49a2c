"""The front matter of commands and profiles: the fields between `---` lines at the top of a Markdown file."""

from __future__ import annotations

import re

from outrider.yaml_mapping import Value, parse_mapping, split_names

_FENCE = re.compile(r"---[ \t]*(?:\n(.*?))?^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


def split(text: str) -> tuple[dict[str, Value], str]:
    """Return the fields and the text below them. Raises ValueError that names the line that cannot be parsed.

    >>> split("---\\nname: reader\\ntools: [Read, Grep]\\n---\\nYou read.")
    ({'name': 'reader', 'tools': ['Read', 'Grep']}, 'You read.')
    """
    text = text.replace("\r\n", "\n")
    found = _FENCE.match(text)
    if not found:
        return {}, text
    header, body = found[1] or "", text[found.end() :].strip()
    # The line of the fence is the first: an error names the line of the file.
    fields = parse_mapping(f"\n{header}", lenient=True) if header.strip() else {}
    # A block of text ends with a line break, which no field here needs.
    return {name: value.rstrip("\n") if isinstance(value, str) else value for name, value in fields.items()}, body


def as_list(value: Value) -> list[str]:
    """Return a list, given a list or names separated by commas. Raises ValueError if there is anything but names.

    >>> as_list("Read, Grep")
    ['Read', 'Grep']
    """
    if isinstance(value, str):
        return split_names(value)
    if isinstance(value, dict) or not all(isinstance(each, str) for each in value):
        raise ValueError("a list of names has one name a line, as in `- Read`")
    return [str(each) for each in value]
