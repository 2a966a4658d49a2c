"""A tool call as an editor shows it: its title, its kind, where it works, and what it shows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import UNSET

from outrider.acp.updates.state import CallState, Diff, File, Item, Location, Status, Terminal, Text
from outrider.coding.toolbox.titles import title
from outrider.conversation.messages import AttachmentBlock, TextBlock, ToolResultBlock
from outrider.runtime.calls import CANCELLED

_KINDS = {
    "Read": "read",
    "Write": "edit",
    "Edit": "edit",
    "Glob": "search",
    "Grep": "search",
    "Bash": "execute",
    "WebFetch": "fetch",
    "Todo": "think",
    "Task": "think",
}
_FILES = ("Read", "Write", "Edit")
_PRINTED = ("Read", "Grep", "Glob", "Bash")
"""Tools whose results are no Markdown."""
_UNSEEN = re.compile("[\0-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
LONGEST_TITLE = 400
_SMALL = 2_000
"""Characters of what a tool has for people beside its result that are passed on as they are."""
_IN_DIFF = {"Write": ("content",), "Edit": ("old_string", "new_string")}
"""Arguments that stand in the diff of a call as well."""
LONG_ARGUMENT, _BEGINNING = 1_024, 200
"""Characters over which such an argument is shortened, and those that are left of it."""


def kind_of(name: str) -> str:
    """What a tool does, in the words of the protocol."""
    return _KINDS.get(name, "other")


def new_call(call_id: str, name: str, input: Mapping[str, Any], folder: Path) -> CallState:
    """A call that is about to be carried out."""
    content = tuple(proposed(name, input, folder))
    return CallState(
        call_id,
        on_one_line(title(name, input, folder)),
        name,
        kind_of(name),
        content=content,
        locations=locations_of(name, input, folder),
        raw_input=_beside_diff(name, input) if content else dict(input),
    )


def _beside_diff(name: str, input: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call that shows a diff: long texts that stand in it are shortened, and sent once."""
    return {
        key: _shortened(value) if key in _IN_DIFF.get(name, ()) and isinstance(value, str) else value
        for key, value in input.items()
    }


def _shortened(text: str) -> str:
    if len(text) <= LONG_ARGUMENT:
        return text
    return f"{text[:_BEGINNING]}… [{len(text):,} characters; the diff has them all]"


def arriving(name: str, input: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What can be said of a call whose arguments still arrive."""
    telling = on_one_line(title(name, input, folder)) if input else name
    return {"title": telling, "locations": locations_of(name, input, folder)}


def on_one_line(text: str, longest: int = LONGEST_TITLE) -> str:
    """One line without anything that would change how the rest of the screen is read."""
    return " ".join(_UNSEEN.sub(" ", text[: 4 * longest]).split())[:longest]


def locations_of(name: str, input: Mapping[str, Any], folder: Path) -> tuple[Location, ...]:
    """The file that a call works on, so that an editor can follow."""
    path = input.get("file_path") if name in _FILES else None
    if not isinstance(path, str) or not path or path.startswith("attachment:"):
        return ()
    line = input.get("offset")
    line = line if type(line) is int and 0 < line < 2**32 else None
    return (Location(_whole(path, folder), line),)


def proposed(name: str, input: Mapping[str, Any], folder: Path) -> Iterable[Item]:
    """What a call would change, to be looked at before and after it is made."""
    path = input.get("file_path")
    if not isinstance(path, str):
        return
    whole = _whole(path, folder)
    if name == "Edit" and isinstance(old := input.get("old_string"), str):
        yield Diff(whole, str(input.get("new_string", "")), old)
    elif name == "Write" and isinstance(content := input.get("content"), str):
        yield Diff(whole, content)


def _whole(path: str, folder: Path) -> str:
    """An absolute path; `~somebody` as it is if nobody is called so."""
    return str(folder / os.path.expanduser(path))


def outcome(state: CallState, result: ToolResultBlock, details: Any) -> dict[str, Any]:
    """What a call came to: the fields of its final state."""
    kept = [item for item in state.content if isinstance(item, Diff | Terminal)]
    ended = exit_code_of(details) is not None
    stands_there = any(ended if isinstance(item, Terminal) else not result.is_error for item in kept)
    said = [] if stands_there else list(_items(result, is_printed=state.name in _PRINTED))
    return {"content": (*kept, *said), "raw_output": _raw(details)}


def status_of(result: ToolResultBlock) -> Status:
    """How a call ended."""
    if not result.is_error:
        return "completed"
    return "cancelled" if result.text.startswith(CANCELLED) else "failed"


def exit_code_of(details: Any) -> int | None:
    """How a command ended, if it was one."""
    code = details.get("exit_code") if isinstance(details, dict) else None
    return code if isinstance(code, int) else None


def _items(result: ToolResultBlock, *, is_printed: bool) -> Iterable[Item]:
    for block in result.content:
        if isinstance(block, TextBlock) and block.text:
            yield Text(fenced(block.text) if is_printed else block.text)
        elif isinstance(block, AttachmentBlock):
            yield File(block)


def _raw(details: Any) -> Any:
    """What a tool has for people, where it is short; a diff stands in the content already."""
    if not isinstance(details, dict):
        return UNSET
    plain = {key: value for key, value in details.items() if key not in ("diff", "todos")}
    return plain if plain and len(repr(plain)) <= _SMALL else UNSET


def fenced(text: str) -> str:
    """Text as it is, for editors that take all text for Markdown.

    >>> fenced("a `b`")
    '```\\na `b`\\n```'
    """
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.removesuffix(chr(10))}\n{fence}"
