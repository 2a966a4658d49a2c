"""The past of a session, in its log or in memory, and the Recall tool with which the model searches and reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.conversation.encodings import decoded, encoding_of
from outrider.conversation.messages import (
    AttachmentBlock,
    Message,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    files_in,
)
from outrider.conversation.passages import Found, Passage, SearchQuery, best, fold, only_call, passages_of, whole_text
from outrider.conversation.store import AttachmentStore, read_stored
from outrider.errors import AttachmentError, LogError
from outrider.prompts import prompt
from outrider.runtime.toolset import RECALL
from outrider.text import clean, counted
from outrider.tools.context import ToolContext
from outrider.tools.near_names import nearest_name
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, make_tool

if TYPE_CHECKING:
    from outrider.log.log import Log

Indexing: TypeAlias = Callable[[int, int], None]
"""Called between the steps of a long search: entries done, and entries in all."""


class Past(Protocol):
    """What was said, called and returned in one session. Its methods may block and raise LogError."""

    def search(self, query: str, limit: int, without: str, progress: Indexing) -> Sequence[Found]:
        """Return the passages that match, newest first, but not the calls and results of the tool `without`."""
        ...

    def read(self, reference: str, progress: Indexing) -> Sequence[Message]:
        """Return message N by `#N`, or a call and its result by the call's id. Empty if there is none."""
        ...

    def references(self) -> Sequence[str]:
        """Return references that exist: that of the newest message, then others."""
        ...


class LoggedPast:
    """The past of a session in a log."""

    def __init__(self, log: Log, session: str) -> None:
        self._log = log
        self._session = session

    def search(self, query: str, limit: int, without: str, progress: Indexing) -> Sequence[Found]:
        """Search in the log."""
        return self._log.search(query, self._session, limit=limit, without=without, progress=progress)

    def read(self, reference: str, progress: Indexing) -> Sequence[Message]:
        """Read from the log."""
        return self._log.recall(self._session, reference, progress=progress)

    def references(self) -> Sequence[str]:
        """Return the newest references in the log."""
        return self._log.references(self._session)


class RememberedPast:
    """The past of a session in memory."""

    def __init__(self, session: str, messages: Callable[[], Sequence[Message]], store: AttachmentStore) -> None:
        self._session = session
        self._messages = messages
        self._store = store

    def search(self, query: str, limit: int, without: str, progress: Indexing) -> Sequence[Found]:
        """Compare every passage."""
        wanted = SearchQuery(query)
        passages = [each for each in passages_of(self._messages()) if not each.tool or each.tool != without]
        folded = [fold(self._text(each)) for each in passages]
        matches = [{number for number, text in enumerate(folded) if word in text} for word in wanted.words]

        def is_whole(number: int) -> bool:
            return wanted.has_whole(folded[number])

        found = [passages[number] for number in best(matches, len(passages), limit, is_whole)]
        return [
            Found(self._session, each.reference, each.message, each.kind, each.tool, 0.0, wanted.snippet(text))
            for each, text in zip(found, map(self._text, found), strict=True)
        ]

    def _text(self, passage: Passage) -> str:
        return whole_text(self._store.read, passage.whole) or passage.text

    def read(self, reference: str, progress: Indexing) -> Sequence[Message]:
        """Find the message or the call."""
        messages = self._messages()
        if reference.startswith("#"):
            number = int(reference[1:]) if reference[1:].isdecimal() and len(reference) < 12 else 0
            return messages[number - 1 : number] if number else ()
        return only_call(messages, reference)

    def references(self) -> Sequence[str]:
        passages = list(passages_of(self._messages()))
        return list(dict.fromkeys([*(f"#{each.message}" for each in passages[-1:]), *(p.reference for p in passages)]))


MAX_HITS = 10
HIT_CHARACTERS = 420
"""About how long one hit is in the result."""
MAX_FILES = 8
"""Files that one call returns."""
DEFAULT_CHARACTERS = 50_000
_NOTE = 160
"""Characters for the line about other pages."""
_HASH = re.compile(r"attachment:([0-9a-f]{64})")
_SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": 'Words to find, in any order; "a phrase" in quotes.'},
        "reference": {"type": "string"},
        "page": {"type": "integer", "minimum": 1},
    },
    "additionalProperties": False,
}


class _StoppedError(Exception):
    """The call was cancelled while the search index was being updated."""


def recall_tool(past: Past, store: AttachmentStore) -> Tool:
    """Return the tool for a session with this past and these files."""
    return make_tool(
        partial(_recall, past, store),
        name=RECALL,
        description=prompt("recall_tool"),
        effect="read",
        schema=_SCHEMA,
        built_in=True,
        prepare=_without_blanks,
    )


def _recall(
    past: Past, store: AttachmentStore, context: ToolContext, query: str = "", reference: str = "", page: int = 1
) -> ToolResult:
    room = max(200, (context.result_characters or DEFAULT_CHARACTERS) - _NOTE)
    try:
        if reference:
            return _read(past, store, context, reference.strip(), page, room)
        if query:
            return _search(past, context, query, page, room)
    except (LogError, AttachmentError) as error:
        return ToolResult(f"The past cannot be read: {error}", is_error=True)
    return ToolResult("Give a query to search for, or a reference to read.", is_error=True)


def _without_blanks(arguments: dict[str, Any]) -> dict[str, Any]:
    """Leave out arguments that are null or blank, as models fill them in."""
    return {name: value for name, value in arguments.items() if value is not None and value not in ("", 0)}


# Searching


def _search(past: Past, context: ToolContext, query: str, page: int, room: int) -> ToolResult:
    size = max(1, min(MAX_HITS, room // HIT_CHARACTERS))
    hits = past.search(query, page * size + 1, RECALL, partial(_report, context))
    shown = hits[(page - 1) * size : page * size]
    if not shown:
        found = "Nothing else matches" if hits else "Nothing matches"
        return ToolResult(f"{found}. Try fewer or other words: any part of a word matches.")
    lines = [_hit_line(hit)[:HIT_CHARACTERS] for hit in shown]
    more = f"\nMore match: page={page + 1} shows them." if len(hits) > page * size else ""
    return ToolResult("The best and newest first; reference=… reads one whole.\n" + "\n".join(lines) + more)


def _hit_line(hit: Found) -> str:
    what = {"call": f"call of {hit.tool}", "result": f"result of {hit.tool or 'a call'}"}.get(hit.kind, hit.kind)
    where = "" if hit.reference.startswith("#") else f", #{hit.message}"
    return f"- {hit.reference} ({what}{where}): {hit.snippet}"


def _report(context: ToolContext, done: int, total: int) -> None:
    if context.cancelled:
        raise _StoppedError
    context.progress(f"Indexing: {done:,} of {counted(total, 'entry', 'entries')}")


# Reading


def _read(past: Past, store: AttachmentStore, context: ToolContext, reference: str, page: int, room: int) -> ToolResult:
    if found := _HASH.fullmatch(reference):
        return _stored_file(context, found[1], reference, page, room)
    report = partial(_report, context)
    messages = past.read(reference, report) or (past.read(f"#{reference}", report) if reference.isdecimal() else ())
    if not messages:
        return ToolResult(_unknown(reference, past.references()), is_error=True)
    text = clean("\n\n".join(part for message in messages for part in _parts(message, store)))
    files = [file for message in messages for file in files_in(message)] if page == 1 else []
    return _paged(text, reference, page, room, [_attachment(file, store) for file in files[:MAX_FILES]])


def _stored_file(context: ToolContext, name: str, reference: str, page: int, room: int) -> ToolResult:
    data = context.stored(name)
    file = Attachment(data)
    if encoding_of(data) is None or file.type_of(data[:4096]).startswith("image/"):
        return ToolResult(attachments=(file,))
    return _paged(clean(decoded(data)), reference, page, room, ())


def _paged(text: str, reference: str, page: int, room: int, files: Sequence[Attachment | str]) -> ToolResult:
    """Return one page of a text, with the files."""
    problems = "".join(f"\n[{each}]" for each in files if isinstance(each, str))
    attachments = [each for each in files if isinstance(each, Attachment)]
    pages = max(1, -(-len(text) // room))
    if page > pages:
        return ToolResult(f"{reference} has {counted(pages, 'page')}; there is no page {page}.", is_error=True)
    part = text[(page - 1) * room : page * room]
    if pages > 1:
        following = f"; page={page + 1} continues" if page < pages else ""
        part += f"\n[Page {page} of {pages}, {len(text):,} characters in all{following}.]"
    return ToolResult(part + problems, attachments)


def _parts(message: Message, store: AttachmentStore) -> Iterator[str]:
    """Yield each block as text, with a line on what it is."""
    for block in message.content:
        match block:
            case TextBlock(text=text):
                yield f"[{message.role}]\n{text}"
            case ThinkingBlock(thinking=text) if text.strip():
                yield f"[reasoning]\n{text}"
            case ToolUseBlock(id=name, name=tool):
                yield f"[call {name}]\n{tool} {_arguments(block)}"
            case ServerToolUseBlock(name=tool):
                yield f"[call]\n{tool} {_arguments(block)}"
            case ToolResultBlock(tool_use_id=name):
                failed = ", an error" if block.is_error else ""
                yield f"[result of {name}{failed}]\n{whole_text(store.read, block.whole) or block.text}"
                yield from map(_file_line, block.attachments)
            case ServerToolResultBlock(text=text):
                yield f"[result]\n{text}"
            case AttachmentBlock():
                yield _file_line(block)


def _arguments(block: ToolUseBlock | ServerToolUseBlock) -> str:
    raw = getattr(block, "invalid_input", None)
    return raw if raw is not None else msgspec.json.encode(block.input, enc_hook=repr).decode()


def _file_line(file: AttachmentBlock) -> str:
    return f"[file {file.label}, {file.mime_type}, attachment:{file.sha256}]"


def _attachment(file: AttachmentBlock, store: AttachmentStore) -> Attachment | str:
    try:
        return Attachment(read_stored(store, file), file.mime_type, file.name, file.description)
    except AttachmentError as error:
        return str(error)


def _unknown(reference: str, known: Sequence[str]) -> str:
    shown = f"{reference[:80]}…" if len(reference) > 80 else reference
    newest = next((each for each in known if each.startswith("#")), "#0")
    if reference.startswith("#") or reference.isdecimal():
        near = f"This session has the messages #1 to {newest}."
    elif nearest := nearest_name(reference, [each for each in known if not each.startswith("#")]):
        near = f"Did you mean {nearest}?"
    else:
        near = f"A reference is the id of a call, or #1 to {newest} for a message; a query finds others."
    return f"There is no {shown!r} in this session. {near}"
