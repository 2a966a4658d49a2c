"""A foreign session while it is read: messages that still grow, and the branches that its user left."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import AttachmentBlock, Block, Message, Role, TextBlock, ToolResultBlock, files_in
from outrider.conversation.store import MemoryStore
from outrider.conversation.usage import Usage
from outrider.conversation.user_messages import is_from_user
from outrider.errors import AttachmentError, LogError
from outrider.log.copying import ImportedEntry
from outrider.log.entries import AttachmentStored, Entry, MessageEntry, RewindEntry, SessionSettings
from outrider.log.rows import encode
from outrider.text import shorten

LONGEST_UNKNOWN = 4_000
"""Characters of an unknown form that are kept."""
LARGEST_NUMBER = 10**12
END_OF_TIME = 4_102_444_800.0
"""The end of the year 2099: a later time is wrong."""
TITLE_CHARACTERS = 80
_TOO_DEEP = "[A message is left out: its data is nested too deeply.]"


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def mapping_of(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def number_of(value: object) -> int:
    """Return a count; 0 if it is none. It goes into sums, so it has a bound."""
    return value if type(value) is int and 0 <= value <= LARGEST_NUMBER else 0


def time_of(value: object) -> float | None:
    """Return the seconds of a time in ISO 8601, or None if it is no time that a session can have."""
    try:
        found = datetime.fromisoformat(text_of(value)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return found if 0 <= found <= END_OF_TIME else None


class Blocks:
    """Makes blocks of the parts of a foreign session. It keeps the files, and counts the forms that are unknown."""

    def __init__(self) -> None:
        self.files: dict[str, Attachment] = {}
        """By their SHA-256."""
        self.unknown: Counter[str] = Counter()
        self._store = MemoryStore()

    def unknown_form(self, kind: str, value: object) -> TextBlock:
        """Return a form that is not known as text, and count it."""
        self.unknown[kind[:40]] += 1
        text = msgspec.json.encode(value).decode()
        return TextBlock(f"[{kind[:40]}] {shorten(text, LONGEST_UNKNOWN, '[{left_out} characters left out]')}")

    def file(self, data: object, mime_type: object, name: str = "") -> AttachmentBlock | TextBlock:
        """Return a file from its base64, or text if it is none."""
        try:
            attachment = Attachment(base64.b64decode(text_of(data), validate=True), text_of(mime_type), name)
            reference = self._store.put(attachment)
        except (ValueError, AttachmentError):
            return self.unknown_form("unreadable file", text_of(mime_type))
        self.files.setdefault(reference.sha256, attachment)
        return reference

    def data_url(self, url: object) -> AttachmentBlock | TextBlock:
        """Return the file in a `data:` URL. An address on the web is kept as text: an import fetches nothing."""
        head, _, data = text_of(url).partition(",")
        if not head.startswith("data:") or not head.endswith(";base64"):
            return TextBlock(f"[image: {text_of(url)[:LONGEST_UNKNOWN]}]")
        return self.file(data, head.removeprefix("data:").removesuffix(";base64").partition(";")[0])


def result_block(call_id: str, parts: Iterable[object], *, is_error: bool = False) -> ToolResultBlock:
    """Return the result of a call. Only texts and files of the parts belong there."""
    content = tuple(part for part in parts if isinstance(part, TextBlock | AttachmentBlock))
    return ToolResultBlock(call_id, content, is_error=is_error)


class ForeignSession(NamedTuple):
    """A session of another agent, ready for the log."""

    agent: str
    name: str
    """Its id there."""
    parent: str
    """For a sub-agent's session, the id of the session that started it."""
    entries: list[ImportedEntry]
    files: Sequence[Attachment]
    unknown: Counter[str]
    """How often each unknown form occurred."""

    @property
    def id(self) -> str:
        """The id in the log: the same for every import of the session."""
        return session_id(self.agent, self.name)


def session_id(agent: str, name: str) -> str:
    """Return the id that a session of another agent has in the log."""
    return hashlib.sha256(f"{agent}\0{name}".encode("utf-8", "replace")).hexdigest()[:32]


class Node:
    """A message, and the one that it follows."""

    def __init__(self, role: Role, time: float, parent: Node | None) -> None:
        self.role: Role = role
        self.time, self.parent = time, parent
        self.blocks: list[Block] = []
        self.model, self.usage = "", None if role == "user" else Usage()
        self.notes: list[Entry] = []
        """Entries that follow it, such as the links to its sub-agents."""

    @property
    def message(self) -> Message:
        return Message(self.role, tuple(self.blocks))

    @property
    def has_only_results(self) -> bool:
        return all(isinstance(block, ToolResultBlock) for block in self.blocks)

    def line(self) -> list[Node]:
        """Return the messages from the first to this one."""
        found: list[Node] = []
        node: Node | None = self
        while node:
            found.append(node)
            node = node.parent
        return found[::-1]


class Transcript:
    """What a foreign session says, in the order of its file."""

    def __init__(self, agent: str) -> None:
        self.agent, self.title, self.model, self.folder = agent, "", "", ""
        self.blocks = Blocks()
        self.time = 0.0
        """That of the newest line that has one."""
        self._said: list[tuple[float, Node | Entry]] = []
        self._path: list[Node | None] = []
        """The messages that are sent. None: results that stay although their message was left out by a rewind."""

    @property
    def tip(self) -> Node | None:
        """The newest message."""
        return next((node for node in reversed(self._path) if node), None)

    @property
    def recent(self) -> list[Node]:
        """The newest reply and its results, which may still grow."""
        return [node for node in self._path[-2:] if node]

    def say(self, role: Role, blocks: Sequence[Block]) -> Node:
        """Add a message after the newest."""
        node = Node(role, self.time, self.tip)
        node.blocks += blocks
        self._add(node)
        if not self.title and role == "user" and is_from_user(node.message):
            words = " ".join(node.message.text.split())
            if words and not words.startswith(("<", "# AGENTS.md", "Caveat:")):
                self.title = words if len(words) <= TITLE_CHARACTERS else f"{words[: TITLE_CHARACTERS - 1]}…"
        return node

    def note(self, entry: Entry) -> None:
        """Add an entry that is no message."""
        self._said.append((self.time, entry))

    def go_to(self, node: Node) -> None:
        """Go on after another message: leave out what came after it, as its user did."""
        wanted, kept = node.line(), 0
        for each in self._path:
            if each is not None:
                if not wanted or wanted[0] is not each:
                    break
                del wanted[0]
            kept += 1
        self.rewind(len(self._path) - kept)
        for each in wanted:  # back on a branch that was left
            self._add(each)

    def rewind(self, dropped: int) -> None:
        """Leave out the newest messages. The log keeps them."""
        if not dropped:
            return
        kept = max(0, len(self._path) - dropped)
        first = self._path[kept] if self._path else None
        number = sum(1 for node in self._path[:kept] if node and is_from_user(node.message))
        self.note(RewindEntry(number + 1, len(self._path) - kept))
        # The results in the first message that is left out stay, as in every rewind.
        self._path[kept:] = [None] if first and first.message.tool_results else []

    def rewind_turns(self, turns: int) -> None:
        """Leave out the newest messages of the user, and what followed them."""
        said = [i for i, node in enumerate(self._path) if node and is_from_user(node.message)]
        if turns and said:
            self.rewind(len(self._path) - said[max(0, len(said) - turns)])

    def finished(self, name: str, parent: str = "") -> ForeignSession | None:
        """Return the session; None if nothing was said."""
        if not self._said:
            return None
        settings = SessionSettings(title=self.title or None, model=self.model or None, cwd=self.folder or None)
        dated = [(self._said[0][0], settings), *self._entries()]
        stored = [(seq, time, *self._encoded(entry)) for seq, (time, entry) in enumerate(dated, 2)]
        return ForeignSession(self.agent, name, parent, stored, [*self.blocks.files.values()], self.blocks.unknown)

    def _add(self, node: Node) -> None:
        self._said.append((node.time, node))
        self._path.append(node)

    def _entries(self) -> Iterator[tuple[float, Entry]]:
        stored: set[str] = set()
        for time, said in self._said:
            if not isinstance(said, Node):
                yield time, said
                continue
            message = said.message
            for file in files_in(message):
                if file.sha256 not in stored:
                    yield time, AttachmentStored(file)
                stored.add(file.sha256)
            yield time, MessageEntry(message, said.usage, model=said.model)
            yield from ((time, note) for note in said.notes)

    def _encoded(self, entry: Entry) -> tuple[str, bytes]:
        try:
            return encode(entry)
        except LogError:
            self.blocks.unknown["nested too deeply"] += 1
            role: Role = entry.message.role if isinstance(entry, MessageEntry) else "user"
            return encode(MessageEntry(Message.user(_TOO_DEEP) if role == "user" else Message.assistant(_TOO_DEEP)))
