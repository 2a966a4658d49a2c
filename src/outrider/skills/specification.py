"""The rules of the Agent Skills specification for the fields of a SKILL.md."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping

from outrider.yaml_mapping import Value, parse_mapping

FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
LONGEST_NAME, LONGEST_DESCRIPTION, LONGEST_COMPATIBILITY = 64, 1024, 500


def split_header(text: str) -> tuple[str, str]:
    """Return the YAML between the two `---` and the text below. Raises ValueError if there is none.

    The reference of the specification ends the fields at the next `---`, wherever it is in a line.
    """
    if not text.startswith("---"):
        raise ValueError("the file must begin with its fields, between two lines of ---")
    parts = text.split("---", 2)
    if len(parts) < 3:
        raise ValueError("the fields do not end: a line of --- is missing")
    return parts[1], parts[2].strip()


def read_fields(text: str) -> dict[str, Value]:
    """Return the fields of a SKILL.md. Raises ValueError."""
    return parse_mapping(split_header(text)[0])


def violations(fields: Mapping[str, Value], folder: str) -> Iterator[str]:
    """Yield what the specification does not allow, as sentences without a full stop. `folder` is its name."""
    if unknown := sorted(fields.keys() - set(FIELDS)):
        yield f"the field {unknown[0][:60]!r} is not in the specification"
    if "name" not in fields:
        yield "the field name is missing"
    else:
        yield from name_violations(fields["name"], folder)
    description = fields.get("description")
    if not isinstance(description, str) or not description.strip():
        yield "the field description is missing or empty"
    elif len(description) > LONGEST_DESCRIPTION:
        yield f"the description is longer than {LONGEST_DESCRIPTION} characters"
    compatibility = fields.get("compatibility", "")
    if not isinstance(compatibility, str):
        yield "the field compatibility must be a text"
    elif len(compatibility) > LONGEST_COMPATIBILITY:
        yield f"the field compatibility is longer than {LONGEST_COMPATIBILITY} characters"


def name_violations(name: Value, folder: str) -> Iterator[str]:
    """Yield what is wrong with a name."""
    if not isinstance(name, str) or not name.strip():
        yield "the name must be a text"
        return
    name = normalized(name)
    if len(name) > LONGEST_NAME:
        yield f"the name is longer than {LONGEST_NAME} characters"
    if name != name.lower():
        yield "the name must be in lower case"
    if name.startswith("-") or name.endswith("-") or "--" in name:
        yield "the name must not begin or end with a hyphen, or have two in a row"
    if not all(each.isalnum() or each == "-" for each in name):
        yield "the name must have only letters, digits and hyphens"
    if normalized(folder) != name:
        yield "the name must be that of its folder"


def normalized(name: str) -> str:
    """Return a name in one Unicode form, without spaces around it."""
    return unicodedata.normalize("NFKC", name.strip())
