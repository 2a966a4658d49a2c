"""What the adapters share on the way from a history to a request: where files go, and in which form.

A file of a tool result goes natively into the result, or moves to a user message after all results, or becomes text, or
becomes a note that says what is missing. Nothing is silently dropped, and nothing here changes the history.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from outrider.conversation.attachments import is_text_type, sha256, sniff
from outrider.conversation.documents import charsets, kinds
from outrider.conversation.documents.document import text_of
from outrider.conversation.encodings import decoded
from outrider.conversation.messages import (
    AttachmentBlock,
    Message,
    ProviderState,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.store import AttachmentStore
from outrider.errors import AttachmentError
from outrider.providers import documents
from outrider.providers.body import Embedded
from outrider.providers.capabilities import Capabilities, Placement
from outrider.providers.captions import LONGEST_NAME, Caption, one_line
from outrider.providers.excerpts import excerpt, room_for_file
from outrider.providers.transcript import LeftOut
from outrider.text import human_size, shorten

Family: TypeAlias = Literal["image", "pdf", "text", "audio", "document", "other"]

Title: TypeAlias = Literal["name", "caption"]
"""What an API has a place for beside a file: its name, or its name and description."""

NO_OUTPUT = "(no output)"
FAILED = "[This call failed]"
MOVED = "[Files of the tool results above, added by the runtime]"
NOT_TAKEN = "this model does not take such files"
IF_IT_DOES = "if it does, say so in the file that OUTRIDER_CAPABILITIES names"
LONGEST_REASON = 400
"""Characters of what is said against a file: errors repeat its name."""
REMINDER = "[A reminder from the runtime, not from the user]"

_SAFE_ID = re.compile(r"[a-zA-Z0-9_-]+")
_COMBINATORS = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const"})
_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")


class File(msgspec.Struct, frozen=True):
    """A file in the form in which a model takes it."""

    family: Family
    mime_type: str
    caption: Caption
    data: bytes = b""
    """The bytes, encoded in base64."""
    text: str = ""
    """The words, if it is a text."""

    @property
    def name(self) -> str:
        """What the file is called."""
        return self.caption.name

    @property
    def filename(self) -> str:
        """A name that says what kind of file it is; a file without one is called by its type and hash."""
        name = self.name.replace("/", "-")
        ending = ".pdf" if self.family == "pdf" else kinds.suffix_of(self.mime_type)
        return name if name.lower().endswith(ending) else f"{name}{ending}"

    @property
    def json(self) -> Embedded:
        """The data as a JSON string, for a place where the API wants bare base64."""
        return Embedded(self.data)

    @property
    def data_url(self) -> Embedded:
        """The data as a JSON string with a data URL."""
        return Embedded(self.data, b"data:%b;base64," % self.mime_type.encode())


Part: TypeAlias = str | File


class Result(msgspec.Struct, frozen=True):
    """A tool result as an adapter renders it."""

    call_id: str
    tool: str
    is_error: bool
    parts: tuple[Part, ...]
    """Never empty."""

    @property
    def text(self) -> str:
        """The words of the result."""
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def flagged_text(self) -> str:
        """The words, for an API that has no error flag of its own."""
        return f"{FAILED}\n{self.text}" if self.is_error else self.text

    @property
    def flagged_parts(self) -> tuple[Part, ...]:
        """The words and files, for such an API."""
        return (FAILED, *self.parts) if self.is_error else self.parts

    @property
    def files(self) -> tuple[File, ...]:
        """The files that go into the result itself."""
        return tuple(part for part in self.parts if isinstance(part, File))


class UserMessage(msgspec.Struct, frozen=True):
    """A user message taken apart: results first, then files that had to move, then what the person said."""

    results: tuple[Result, ...]
    moved: tuple[Part, ...]
    said: tuple[Part, ...]


class Renderer:
    """Takes user messages apart for one request."""

    def __init__(
        self,
        capabilities: Capabilities,
        store: AttachmentStore,
        left_out: Sequence[LeftOut] = (),
        titles: Mapping[Family, Title] | None = None,
    ) -> None:
        self._can = capabilities
        self._store = store
        self._left_out = left_out
        self._titles = titles or {}
        self._leaving_out: list[LeftOut] = []
        """What is left out of the message that is being rendered."""
        self.leaves_out = bool(left_out)
        """Whether earlier messages are no longer sent as they once were."""
        self.images = 0
        """Pictures that were rendered."""
        self.words = 0
        """Bytes of text from files in the conversation so far. Only what comes before a file may limit it: what was
        sent stays as it was, and the provider's cache holds."""
        self.notices: list[str] = []
        """What people should know: files that could not be shown."""

    def user(self, message: Message, previous: Message | None) -> UserMessage:
        """The message's results, moved files and words. `previous` has the calls that the results answer."""
        calls = {call.id: call for call in previous.tool_calls} if previous else {}
        self._leaving_out = [each for each in self._left_out if each.message is message]
        moved: list[Part] = []
        results: list[Result] = []
        said: list[Part] = []
        for block in message.content:
            match block:
                case ToolResultBlock():
                    results.append(self._result(block, calls.get(block.tool_use_id), moved))
                case TextBlock(text=text):
                    said.append(self._limited(text))
                case AttachmentBlock():
                    said += self._labelled(self._shown(block))
        return UserMessage(tuple(results), (MOVED, *moved) if moved else (), tuple(said))

    def _result(self, block: ToolResultBlock, call: ToolUseBlock | None, moved: list[Part]) -> Result:
        tool = call.name if call else "tool"
        parts: list[Part] = []
        for item in block.content:
            if isinstance(item, TextBlock):
                parts.append(self._limited(item.text))
                continue
            found = self._shown(item)
            parts += self._labelled(part for part in found if not self._moves(part))
            if shown := [part for part in found if isinstance(part, File) and self._moves(part)]:
                parts.append(f"[{Caption.of(item).name} is shown after the tool results]")
                for file in shown:
                    moved += [f"{file.caption}, from {tool} (call {block.tool_use_id}):", file]
        return Result(block.tool_use_id, tool, block.is_error, tuple(parts) or (NO_OUTPUT,))

    def _labelled(self, parts: Iterable[Part]) -> Iterator[Part]:
        """The parts, and before each file what it is, as far as the API has no place of its own for that."""
        for part in parts:
            if isinstance(part, File):
                match self._titles.get(part.family):
                    case None:
                        yield f"{part.caption}:"
                    case "name" if part.caption.description:
                        yield f"{part.caption.description}:"
            yield part

    def _shown(self, block: AttachmentBlock) -> list[Part]:
        """A file as the model can see it, in whichever place; otherwise in words."""
        for left_out in self._leaving_out:
            if left_out.concerns(left_out.message, block):
                return [f"[{_described(block)} stood here; it is left out, for {left_out.reason}]"]
        placement = self._placement(family_of(block.mime_type))
        shown = self._files(block) if placement in ("native", "moved") else list(self._in_words(block))
        self.images += sum(isinstance(part, File) and part.family == "image" for part in shown)
        return shown

    def _moves(self, part: Part) -> bool:
        """Whether a part cannot stand in a result. Pages of a scanned PDF are pictures, and go where pictures go."""
        return isinstance(part, File) and self._placement(part.family) == "moved"

    def _placement(self, family: Family) -> Placement:
        if family == "other":
            return "no"
        placements: dict[str, Placement] = {
            "image": self._can.image,
            "pdf": self._can.pdf,
            "text": self._can.text_file,
            "audio": self._can.audio,
            "document": self._can.document,
        }
        return placements[family]

    def _files(self, block: AttachmentBlock) -> list[Part]:
        """The file as the model can take it; in words where it cannot after all."""
        caption, family = Caption.of(block), family_of(block.mime_type)
        try:
            if family == "document" and block.mime_type not in self._can.document_types:
                return [*self._in_words(block)]
            data = self._store.read(block)
            if family == "text":
                text = self._excerpt(block, self._text_of(block, data))
                # An empty document is refused by APIs.
                return [File("text", block.mime_type, caption, text=text) if text.strip() else f"{caption}: (empty)"]
            if family == "image":
                mime_type, data = documents.fitting_image(block.mime_type, data, self._can)
                return [File("image", mime_type, caption, documents.base64_of(data))]
            if family == "document":
                _check_document(block, data)
            elif family == "pdf":
                data = documents.fitting_pdf(data, self._can)
            else:
                documents.check_size(data, self._can.pdf_bytes)
            return [File(family, block.mime_type, caption, documents.base64_of(data))]
        except AttachmentError as error:
            return [*self._in_words(block, str(error))]

    def _in_words(self, block: AttachmentBlock, reason: str = NOT_TAKEN) -> Iterator[Part]:
        """The file as text, or a note that it could not be shown."""
        caption, family = Caption.of(block), family_of(block.mime_type)
        if family not in ("text", "pdf", "document"):
            yield self._note(block, reason)
            return
        try:
            data = self._store.read(block)
            if family == "text":
                yield f"{caption}:\n{self._excerpt(block, self._text_of(block, data))}"
            elif family == "document":
                yield self._extracted(block, _document_text(block, data, self._can.text_characters))
            elif text := documents.pdf_text(data):
                yield self._extracted(block, text)
            elif self._can.image in ("native", "moved"):
                yield from self._pages(caption, data)
            else:
                yield self._note(block, reason)
        except AttachmentError as error:
            yield self._note(block, str(error))

    def _extracted(self, block: AttachmentBlock, text: str) -> str:
        """The text that was taken out of a document, as far as there is room for it."""
        caption = Caption.of(block)
        return f"Text of {caption}:\n{self._excerpt(block, text, by_line=False)}" if text else f"{caption}: (no text)"

    def _text_of(self, block: AttachmentBlock, data: bytes) -> str:
        """The text of a file. A web page is sent as its source, which may be what matters, unless that is too long."""
        if block.mime_type not in ("text/html", "application/xhtml+xml"):
            return decoded(data)
        source = charsets.decoded(data, is_html=True).replace("\0", "")
        if len(source) <= min(self._can.text_characters, room_for_file(self._can.context_tokens, self.words)):
            return source
        from outrider.conversation.documents.pages import read_page  # few pages are so long

        return read_page(source).text

    def _note(self, block: AttachmentBlock, reason: str) -> str:
        said = f"{_described(block)} cannot be shown: {one_line(reason, LONGEST_REASON)}"
        self.notices.append(f"{said}; {IF_IT_DOES}" if reason == NOT_TAKEN else said)
        description = Caption.of(block).description
        return f"[{said}; it is described as: {description}]" if description else f"[{said}]"

    def _pages(self, caption: Caption, data: bytes) -> Iterator[Part]:
        pictures, total = documents.pdf_pictures(data, self._can.pixels)
        yield f"Pages of {caption}:" if len(pictures) == total else f"First pages of {caption}, of {total}:"
        for number, picture in enumerate(pictures, 1):
            mime_type, fitting = documents.fitting_image("image/png", picture, self._can)
            page = Caption(f"{caption.name}, page {number}")
            yield File("image", mime_type, page, documents.base64_of(fitting))

    def _excerpt(self, block: AttachmentBlock, text: str, *, by_line: bool = True) -> str:
        """As much of a file's text as its share of the model's window holds, and where the rest is."""
        room = min(room_for_file(self._can.context_tokens, self.words), self._can.text_characters)
        shown = excerpt(text, room, f"The whole is stored as attachment:{block.sha256}", by_line=by_line)
        if shown is not text:
            self.notices.append(f"{_described(block)} is shown in part: the model's window has no room for all of it")
        self.words += len(shown) if shown.isascii() else len(shown.encode())
        return shown

    def _limited(self, text: str) -> str:
        limit = self._can.text_characters
        return shorten(text, limit, "[{left_out} of {total} characters left out: this API takes no more]")


def _described(block: AttachmentBlock) -> str:
    """A file that is not there, for a note."""
    return f"{Caption.of(block).name} ({one_line(block.mime_type, LONGEST_NAME)}, {human_size(block.size)})"


def family_of(mime_type: str) -> Family:
    """What kind of file a MIME type is, as far as model APIs tell them apart."""
    if mime_type in kinds.READABLE or mime_type in kinds.OLD:
        return "document"
    if is_text_type(mime_type):
        return "text"
    if mime_type.startswith("image/"):
        return "image"
    if mime_type == "application/pdf":
        return "pdf"
    return "audio" if mime_type.startswith("audio/") else "other"


def _check_document(block: AttachmentBlock, data: bytes) -> None:
    """Raise AttachmentError for a document that cannot be opened: an API would refuse the whole request over it."""
    if block.mime_type not in kinds.OLD:
        text_of(data, block.mime_type, 1)
    elif sniff(data) != kinds.OLE:
        raise AttachmentError("it is not a document that can be read")


def _document_text(block: AttachmentBlock, data: bytes, limit: int) -> str:
    """The text of an office document, a book or a notebook. Raises AttachmentError."""
    if block.mime_type in kinds.OLD:
        raise AttachmentError("it is an old Office document, which is not read; convert it to a PDF")
    return text_of(data, block.mime_type, limit)


def safe_id(call_id: str, longest: int = 64) -> str:
    """A call's id as every API takes it. The same id always gives the same, and different ones give different ones."""
    if len(call_id) <= longest and _SAFE_ID.fullmatch(call_id):
        return call_id
    digest = sha256(call_id.encode("utf-8", "replace"))[:12]
    return f"{_UNSAFE.sub('_', call_id)[: longest - 13]}_{digest}"


def safe_name(name: str) -> str:
    """A called tool's name as every API takes it: models make names up, and a refused one would block all the rest."""
    return _UNSAFE.sub("_", name)[:64] or "unknown"


def object_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A tool's schema without rules at its root that are no object's: APIs refuse them there. We still check them."""
    refused = schema.keys() & _COMBINATORS
    return {name: value for name, value in schema.items() if name not in refused} if refused else schema


def is_own(state: ProviderState | None, provider: str, model: str, route: str = "") -> bool:
    """Whether opaque state may be replayed: only to the provider, model and route that made it."""
    return state is not None and (state.provider, state.model, state.route) == (provider, model, route)


def reminder_text(reminder: str) -> str:
    """Words for one request alone, marked as not the user's."""
    return f"{REMINDER}\n{reminder}"


def words_of(parts: Sequence[Part]) -> str:
    """The words of parts that have no files, or whose files an adapter has taken out."""
    return "\n".join(part for part in parts if isinstance(part, str))
