"""Rendering of user messages, shared by the adapters: where files go, and in which form.

A file of a tool result goes into the result itself, or moves to a user message after all results, or becomes text, or
becomes a note that says what is missing. No file is dropped silently. Rendering never changes the history.

The way of a file: `AttachmentBlock` -> `Renderer.user` -> `File` in a `UserMessage` -> the adapter's `user_items` ->
`encode_items` -> `Rendered` -> `Transcript`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec

from outrider.conversation.attachments import is_text_type, sniff
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
    files_in,
)
from outrider.conversation.store import AttachmentStore
from outrider.errors import AttachmentError
from outrider.providers import documents
from outrider.providers.body import Base64String
from outrider.providers.capabilities import Capabilities, Placement
from outrider.providers.captions import LONGEST_NAME, Caption, one_line
from outrider.providers.excerpts import excerpt, room_for_file
from outrider.providers.transcript import LeftOut
from outrider.text import human_size, shorten

Family: TypeAlias = Literal["image", "pdf", "text", "audio", "video", "document", "other"]

Title: TypeAlias = Literal["name", "caption"]
"""What an API has a field for beside a file: its name, or its name and description."""

NO_OUTPUT = "(no output)"
FAILED = "[This call failed]"
MOVED = "[Files of the tool results above, added by the runtime]"
NOT_TAKEN = "this model does not take such files"
IF_IT_DOES = "if it does, say so in the file that OUTRIDER_CAPABILITIES names"
LONGEST_REASON = 400
"""Characters of the reason in a note. Errors repeat the name of the file."""
REMINDER = "[A reminder from the runtime, not from the user]"


class File(msgspec.Struct, frozen=True):
    """A file in the form in which a model takes it."""

    family: Family
    mime_type: str
    caption: Caption
    data: bytes = b""
    """The bytes, encoded in base64."""
    text: str = ""
    """The text, if the file is a text."""
    url: str = ""
    """The URL, if the API fetches the file itself. There is no data then."""

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.caption.name

    @property
    def filename(self) -> str:
        """The name with the suffix of its type. A file without a name is called by its type and hash."""
        name = self.name.replace("/", "-")
        suffix = ".pdf" if self.family == "pdf" else kinds.suffix_of(self.mime_type)
        return name if name.lower().endswith(suffix) else f"{name}{suffix}"

    @property
    def base64(self) -> Base64String:
        """The data as a JSON string of bare base64."""
        return Base64String(self.data)

    @property
    def data_url(self) -> Base64String:
        """The data as a JSON string with a data URL."""
        return Base64String(self.data, b"data:%b;base64," % self.mime_type.encode())


Part: TypeAlias = str | File

NO_FILES: Mapping[str, File] = MappingProxyType({})


class Result(msgspec.Struct, frozen=True):
    """A tool result as an adapter renders it."""

    call_id: str
    call: ToolUseBlock | None
    """The call that it answers. None if the history has lost it."""
    is_error: bool
    parts: tuple[Part, ...]
    """Never empty."""

    @property
    def tool(self) -> str:
        """The name of the tool."""
        return self.call.name if self.call else "tool"

    @property
    def text(self) -> str:
        """The text of the result."""
        return join_text(self.parts)

    @property
    def flagged_text(self) -> str:
        """The text, for an API that has no error flag."""
        return f"{FAILED}\n{self.text}" if self.is_error else self.text

    @property
    def flagged_parts(self) -> tuple[Part, ...]:
        """The text and files, for an API that has no error flag."""
        return (FAILED, *self.parts) if self.is_error else self.parts

    @property
    def files(self) -> tuple[File, ...]:
        """The files that go into the result itself."""
        return tuple(part for part in self.parts if isinstance(part, File))


class UserMessage(msgspec.Struct, frozen=True):
    """A user message that an adapter can turn into its API's items."""

    results: tuple[Result, ...]
    moved: tuple[Part, ...]
    """Files that the results could not hold. They follow the results."""
    content: tuple[Part, ...]
    """What the user wrote and attached."""
    images: int = 0
    """The number of images."""
    text_bytes: int = 0
    """Bytes of text that come from files."""
    notices: tuple[str, ...] = ()
    """What the user should know, such as a file that the model cannot see."""


class _RenderedFile(msgspec.Struct, frozen=True):
    """One attachment as the model sees it."""

    parts: tuple[Part, ...]
    text_bytes: int = 0
    notices: tuple[str, ...] = ()


class Renderer:
    """Renders user messages for one model. It has no state: the same message always gives the same value."""

    def __init__(
        self,
        capabilities: Capabilities,
        store: AttachmentStore,
        left_out: Sequence[LeftOut] = (),
        titles: Mapping[Family, Title] | None = None,
        replays: Callable[[AttachmentBlock], bool] = lambda _: False,
    ) -> None:
        self._capabilities = capabilities
        self._store = store
        self._left_out = left_out
        self._titles = titles or {}
        self._replays = replays
        """Whether a picture that the model made goes back to it in its own message. Else it moves to the next one."""

    def user(self, message: Message, previous: Message | None, text_bytes: int = 0) -> UserMessage:
        """Render a user message.

        `previous` has the calls that the results answer. `text_bytes` is the size of the text from files in earlier
        messages: only what comes before a file may limit it, so that the bytes sent earlier stay the same and the
        provider's cache holds.
        """
        calls = {call.id: call for call in previous.tool_calls} if previous else {}
        rendered = self._files(message, text_bytes)
        files = iter(rendered)
        results: list[Result] = []
        moved: list[Part] = []
        made = self._made(previous, text_bytes)
        content: list[Part] = list(chain.from_iterable(file.parts for file in made))
        rendered = made + rendered
        for block in message.content:
            match block:
                case ToolResultBlock():
                    result, after = self._result(block, calls.get(block.tool_use_id), files)
                    results.append(result)
                    moved += after
                case TextBlock(text=text):
                    content.append(self._limit(text))
                case AttachmentBlock():
                    content += self._label(next(files).parts)
        if not rendered:
            return UserMessage(tuple(results), (), tuple(content))
        return UserMessage(
            tuple(results),
            (MOVED, *moved) if moved else (),
            tuple(content),
            sum(isinstance(part, File) and part.family == "image" for file in rendered for part in file.parts),
            sum(file.text_bytes for file in rendered),
            tuple(notice for file in rendered for notice in file.notices),
        )

    def pictures(self, message: Message) -> dict[str, File]:
        """Return the pictures of a model's message that go back to it in that message, by their hash."""
        found: dict[str, File] = {}
        for block in _pictures_of(message):
            if self._replays(block) and not self._reason_left_out(message, block):
                for part in self._file(block, 0).parts:
                    if isinstance(part, File):
                        found[block.sha256] = part
        return found

    def _made(self, previous: Message | None, text_bytes: int) -> list[_RenderedFile]:
        """Render the pictures of the model's message that do not go back in it."""
        if previous is None:
            return []
        rendered: list[_RenderedFile] = []
        for block in _pictures_of(previous):
            if not self._replays(block):
                reason = self._reason_left_out(previous, block)
                file = _left_out_note(block, reason) if reason else self._file(block, self._room(text_bytes))
                label = f"{Caption.of(block)}, from the assistant's message before this one:"
                rendered.append(msgspec.structs.replace(file, parts=(label, *file.parts)))
        return rendered

    def _reason_left_out(self, message: Message, block: AttachmentBlock) -> str:
        return next((each.reason for each in self._left_out if each.covers(message, block)), "")

    # Where the parts of a file go

    def _result(
        self, block: ToolResultBlock, call: ToolUseBlock | None, files: Iterator[_RenderedFile]
    ) -> tuple[Result, list[Part]]:
        """Return the result, and the parts of its files that go after all results."""
        parts: list[Part] = []
        moved: list[Part] = []
        tool = call.name if call else "tool"
        for item in block.content:
            if isinstance(item, TextBlock):
                parts.append(self._limit(item.text))
                continue
            found = next(files).parts
            parts += self._label(part for part in found if not self._moves(part))
            if after := [part for part in found if isinstance(part, File) and self._moves(part)]:
                parts.append(f"[{Caption.of(item).name} is shown after the tool results]")
                for file in after:
                    moved += [f"{file.caption}, from {tool} (call {block.tool_use_id}):", file]
        return Result(block.tool_use_id, call, block.is_error, tuple(parts) or (NO_OUTPUT,)), moved

    def _label(self, parts: Iterable[Part]) -> Iterator[Part]:
        """Yield the parts, and before each file the title that the API has no field for."""
        for part in parts:
            if isinstance(part, File):
                match self._titles.get(part.family):
                    case None:
                        yield f"{part.caption}:"
                    case "name" if part.caption.description:
                        yield f"{part.caption.description}:"
            yield part

    def _moves(self, part: Part) -> bool:
        """Return whether a result cannot hold this part. Pages of a scanned PDF are images and go where images go."""
        return isinstance(part, File) and self._placement(part.family) == "moved"

    def _placement(self, family: Family) -> Placement:
        if family == "other":
            return "no"
        placements: dict[str, Placement] = {
            "image": self._capabilities.image,
            "pdf": self._capabilities.pdf,
            "text": self._capabilities.text_file,
            "audio": self._capabilities.audio,
            "video": self._capabilities.video,
            "document": self._capabilities.document,
        }
        return placements[family]

    def _limit(self, text: str) -> str:
        limit = self._capabilities.text_characters
        return shorten(text, limit, "[{left_out} of {total} characters left out: this API takes no more]")

    # In which form the model sees a file

    def _files(self, message: Message, text_bytes: int) -> list[_RenderedFile]:
        """Render the files of a message in order. Each one limits the text of those after it."""
        rendered: list[_RenderedFile] = []
        for block in files_in(message):
            room = self._room(text_bytes)
            reason = self._reason_left_out(message, block)
            file = _left_out_note(block, reason) if reason else self._file(block, room)
            text_bytes += file.text_bytes
            rendered.append(file)
        return rendered

    def _room(self, text_bytes: int) -> int:
        """Return the bytes of text that the next file may have."""
        share = room_for_file(self._capabilities.context_tokens, text_bytes)
        return min(share, self._capabilities.text_characters)

    def _file(self, block: AttachmentBlock, room: int) -> _RenderedFile:
        """Render a file natively if the model takes it, else as text, else as a note. `room`: bytes for its text."""
        if not self._is_native(block):
            return self._as_text(block, room, NOT_TAKEN)
        try:
            return self._native(block, room)
        except AttachmentError as error:
            return self._as_text(block, room, str(error))

    def _is_native(self, block: AttachmentBlock) -> bool:
        family = family_of(block.mime_type)
        if self._placement(family) not in ("native", "moved"):
            return False
        if family == "audio" and self._capabilities.audio_types:
            return block.mime_type in self._capabilities.audio_types
        return family != "document" or block.mime_type in self._capabilities.document_types

    def _native(self, block: AttachmentBlock, room: int) -> _RenderedFile:
        """Render a file as the model takes it. Raise AttachmentError if that is not possible."""
        caption, family = Caption.of(block), family_of(block.mime_type)
        if block.url and self._fetches(block, family):
            return _RenderedFile((File(family, block.mime_type, caption, url=block.url),))
        data = self._store.read(block)
        if family == "text":

            def text_part(text: str) -> Part:
                # APIs refuse an empty document.
                return File("text", block.mime_type, caption, text=text) if text.strip() else f"{caption}: (empty)"

            return _text_file(block, self._text_of(block, data, room), room, text_part)
        if family == "image":
            mime_type, data = documents.fitting_image(block.mime_type, data, self._capabilities)
            return _RenderedFile((File("image", mime_type, caption, documents.base64_of(data)),))
        if family == "document":
            _check_document(block, data)
        elif family == "pdf":
            data = documents.fitting_pdf(data, self._capabilities)
        documents.check_size(data, self._capabilities.pdf_bytes)
        return _RenderedFile((File(family, block.mime_type, caption, documents.base64_of(data)),))

    def _fetches(self, block: AttachmentBlock, family: Family) -> bool:
        """Return whether the API fetches a file by its URL. It must fit as it is: nothing can scale it down then."""
        can = self._capabilities
        limit = can.image_bytes if family == "image" else can.pdf_bytes
        return block.mime_type in can.url_types and block.url.startswith("https://") and block.size * 4 <= limit * 3

    def _as_text(self, block: AttachmentBlock, room: int, reason: str) -> _RenderedFile:
        """Render a file as text, or as images of its pages, or as a note with the reason."""
        caption, family = Caption.of(block), family_of(block.mime_type)
        if family not in ("text", "pdf", "document"):
            return _note(block, reason)
        try:
            data = self._store.read(block)
            if family == "text":
                content = self._text_of(block, data, room)
                return _text_file(
                    block, content, room, lambda text: f"{caption}:\n{text}" if text else f"{caption}: (empty)"
                )
            if family == "document":
                limit = self._capabilities.text_characters
                return _extracted_text(block, _document_text(block, data, limit), room)
            if text := documents.pdf_text(data):
                return _extracted_text(block, text, room)
            if self._capabilities.image in ("native", "moved"):
                return _RenderedFile(tuple(self._pages(caption, data)))
        except AttachmentError as error:
            return _note(block, str(error))
        return _note(block, reason)

    def _text_of(self, block: AttachmentBlock, data: bytes, room: int) -> str:
        """Return the text of a file. A web page is sent as its source, which may matter, unless that is too long."""
        if block.mime_type not in ("text/html", "application/xhtml+xml"):
            return decoded(data)
        source = charsets.decoded(data, is_html=True).replace("\0", "")
        if len(source) <= min(self._capabilities.text_characters, room):
            return source
        from outrider.conversation.documents.pages import read_page  # slow to import, and few pages are so long

        return read_page(source).text

    def _pages(self, caption: Caption, data: bytes) -> Iterator[Part]:
        pictures, total = documents.pdf_pictures(data, self._capabilities.pixels)
        yield f"Pages of {caption}:" if len(pictures) == total else f"First pages of {caption}, of {total}:"
        for number, picture in enumerate(pictures, 1):
            mime_type, fitting = documents.fitting_image("image/png", picture, self._capabilities)
            page = Caption(f"{caption.name}, page {number}")
            yield File("image", mime_type, page, documents.base64_of(fitting))


def _text_file(
    block: AttachmentBlock, text: str, room: int, to_part: Callable[[str], Part], *, by_line: bool = True
) -> _RenderedFile:
    """Render as much of a file's text as there is room for, with a note that says where the whole is."""
    shown = excerpt(text, room, f"The whole is stored as attachment:{block.sha256}", by_line=by_line)
    size = len(shown) if shown.isascii() else len(shown.encode())
    if shown is text:
        return _RenderedFile((to_part(shown),), size)
    notice = f"{_describe(block)} is shown in part: the model's window has no room for all of it"
    return _RenderedFile((to_part(shown),), size, (notice,))


def _extracted_text(block: AttachmentBlock, text: str, room: int) -> _RenderedFile:
    """Render the text that was extracted from a document."""
    caption = Caption.of(block)
    if not text:
        return _RenderedFile((f"{caption}: (no text)",))
    return _text_file(block, text, room, lambda shown: f"Text of {caption}:\n{shown}", by_line=False)


def _note(block: AttachmentBlock, reason: str) -> _RenderedFile:
    """Say to the model and to the user that a file cannot be shown."""
    text = f"{_describe(block)} cannot be shown: {one_line(reason, LONGEST_REASON)}"
    notice = f"{text}; {IF_IT_DOES}" if reason == NOT_TAKEN else text
    description = Caption.of(block).description
    note = f"[{text}; it is described as: {description}]" if description else f"[{text}]"
    return _RenderedFile((note,), notices=(notice,))


def _left_out_note(block: AttachmentBlock, reason: str) -> _RenderedFile:
    return _RenderedFile((f"[{_describe(block)} was here; it is left out: {reason}]",))


def _describe(block: AttachmentBlock) -> str:
    """Describe a file that is not shown, for a note."""
    return f"{Caption.of(block).name} ({one_line(block.mime_type, LONGEST_NAME)}, {human_size(block.size)})"


def _pictures_of(message: Message) -> list[AttachmentBlock]:
    """Return the pictures that a model made in a message."""
    return [block for block in message.content if isinstance(block, AttachmentBlock)] if message.role != "user" else []


def family_of(mime_type: str) -> Family:
    """Return the family of a MIME type, as model APIs distinguish them."""
    if mime_type in kinds.READABLE or mime_type in kinds.OLD:
        return "document"
    if is_text_type(mime_type):
        return "text"
    if mime_type.startswith("image/"):
        return "image"
    if mime_type == "application/pdf":
        return "pdf"
    if mime_type.startswith("audio/"):
        return "audio"
    return "video" if mime_type.startswith("video/") else "other"


def _check_document(block: AttachmentBlock, data: bytes) -> None:
    """Raise AttachmentError for a document that cannot be opened: an API would refuse the whole request."""
    if block.mime_type not in kinds.OLD:
        text_of(data, block.mime_type, 1)
    elif sniff(data) != kinds.OLE:
        raise AttachmentError("it is not a document that can be read")


def _document_text(block: AttachmentBlock, data: bytes, limit: int) -> str:
    """Return the text of an office document, a book or a notebook. Raise AttachmentError."""
    if block.mime_type in kinds.OLD:
        raise AttachmentError("it is an old Office document, which is not supported; convert it to a PDF")
    return text_of(data, block.mime_type, limit)


def is_own(state: ProviderState | None, provider: str, model: str, route: str = "") -> bool:
    """Return whether opaque state may be replayed: only to the provider, model and route that made it."""
    return state is not None and (state.provider, state.model, state.route) == (provider, model, route)


def reminder_text(reminder: str) -> str:
    """Mark a reminder as not the user's."""
    return f"{REMINDER}\n{reminder}"


def join_text(parts: Sequence[Part]) -> str:
    """Join the text of the parts, without their files."""
    return "\n".join(part for part in parts if isinstance(part, str))
