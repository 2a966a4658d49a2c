"""Rendering of user messages, shared by the adapters: where files go. `file_forms.py` has their form.

A file of a tool result goes into the result itself, or moves to a user message after all results, or becomes text, or
becomes a note that says what is missing. No file is dropped silently. Rendering never changes the history.

The way of a file: `AttachmentBlock` -> `Renderer.user` -> `File` in a `UserMessage` -> the adapter's `user_items` ->
`encode_items` -> `Rendered` -> `Transcript`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from outrider.conversation.messages import AttachmentBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock, files_in
from outrider.conversation.store import AttachmentStore
from outrider.providers.catalogue.capabilities import Capabilities, Kind
from outrider.providers.catalogue.windows import room_for_file
from outrider.providers.rendering.file_forms import FileForms, RenderedFile
from outrider.providers.rendering.message_parts import Caption, Family, File, Part, Result, Title, UserMessage
from outrider.providers.rendering.shown_files import LeftOut, ShownFile
from outrider.text import shorten

NO_OUTPUT = "(no output)"
MOVED = "[Files of the tool results above, added by the runtime]"
_KINDS: Mapping[Family, Kind] = {"image": "image", "audio": "audio", "video": "video"}


class Renderer:
    """Renders user messages for one model. It has no state: the same message always gives the same value."""

    def __init__(
        self,
        capabilities: Capabilities,
        store: AttachmentStore,
        left_out: LeftOut | None = None,
        titles: Mapping[Family, Title] | None = None,
        replays: Callable[[AttachmentBlock], bool] = lambda _: False,
        errors_hold_files: bool = True,
    ) -> None:
        self._capabilities = capabilities
        self._forms = FileForms(capabilities, store)
        self._left_out = left_out or LeftOut()
        self._titles = titles or {}
        self._replays = replays
        """Whether a picture that the model made goes back to it in its own message. Else it moves to the next one."""
        self._errors_hold_files = errors_hold_files
        """Whether the result of a failed call may have files. Else they move behind the results."""

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
        content: list[Part] = [part for file in made.values() for part in file.parts]
        for block in message.content:
            if type(block) is ToolResultBlock:
                result, after = self._result(block, calls.get(block.tool_use_id), files)
                results.append(result)
                moved += after
            elif type(block) is TextBlock:
                content.append(self._limit(block.text))
            elif type(block) is AttachmentBlock:
                content += self._label(next(files).parts)
        if not rendered and not made:
            return UserMessage(tuple(results), (), tuple(content))
        shown = [*_shown_files(previous, made), *_shown_files(message, dict(enumerate(rendered)))]
        rendered = [*made.values(), *rendered]
        return UserMessage(
            tuple(results),
            (MOVED, *moved) if moved else (),
            tuple(content),
            tuple(shown),
            sum(file.text_bytes for file in rendered),
            tuple(notice for file in rendered for notice in file.notices),
        )

    def pictures(self, message: Message) -> tuple[dict[str, File], tuple[ShownFile, ...]]:
        """Return the pictures of a model's message that go back to it in that message, by their hash."""
        found: dict[str, File] = {}
        shown: list[ShownFile] = []
        for position, block in enumerate(_pictures_of(message)):
            if self._replays(block) and not self._left_out.find(message, position):
                for part in self._forms.form_of(block, 0).parts:
                    if isinstance(part, File):
                        found[block.sha256] = part
                        shown.append(_shown_file(message, position, [part]))
        return found, tuple(shown)

    def _made(self, previous: Message | None, text_bytes: int) -> dict[int, RenderedFile]:
        """Render the pictures of the model's message that do not go back in it, by their position."""
        if previous is None:
            return {}
        rendered: dict[int, RenderedFile] = {}
        for position, block in enumerate(_pictures_of(previous)):
            if not self._replays(block):
                file = self._file(previous, position, block, self._room(text_bytes))
                label = f"{Caption.of(block)}, from the assistant's message before this one:"
                rendered[position] = msgspec.structs.replace(file, parts=(label, *file.parts))
        return rendered

    def _file(self, message: Message, position: int, block: AttachmentBlock, room: int) -> RenderedFile:
        omission = self._left_out.find(message, position)
        return self._forms.instead_of(block, room, omission) if omission else self._forms.form_of(block, room)

    def _result(
        self, block: ToolResultBlock, call: ToolUseBlock | None, files: Iterator[RenderedFile]
    ) -> tuple[Result, list[Part]]:
        """Return the result, and the parts of its files that go after all results."""
        parts: list[Part] = []
        moved: list[Part] = []
        tool = call.name if call else "tool"
        for item in block.content:
            if type(item) is TextBlock:
                parts.append(self._limit(item.text))
                continue
            found = next(files).parts
            in_text = block.is_error and not self._errors_hold_files
            parts += self._label(part for part in found if not self._moves(part, in_text))
            if after := [part for part in found if isinstance(part, File) and self._moves(part, in_text)]:
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

    def _moves(self, part: Part, in_text: bool) -> bool:
        """Return whether a result cannot hold this part. Pages of a scanned PDF are images and go where images go."""
        return isinstance(part, File) and (in_text or self._forms.placement(part.family) == "moved")

    def _limit(self, text: str) -> str:
        limit = self._capabilities.text_characters
        return shorten(text, limit, "[{left_out} of {total} characters left out: this API takes no more]")

    def _files(self, message: Message, text_bytes: int) -> list[RenderedFile]:
        """Render the files of a message in order. Each one limits the text of those after it."""
        rendered: list[RenderedFile] = []
        for position, block in enumerate(files_in(message)):
            file = self._file(message, position, block, self._room(text_bytes))
            text_bytes += file.text_bytes
            rendered.append(file)
        return rendered

    def _room(self, text_bytes: int) -> int:
        share = room_for_file(self._capabilities.context_tokens, text_bytes)
        return min(share, self._capabilities.text_characters)


def _pictures_of(message: Message) -> list[AttachmentBlock]:
    return [block for block in message.content if type(block) is AttachmentBlock] if message.role != "user" else []


def _shown_files(message: Message | None, rendered: Mapping[int, RenderedFile]) -> Iterator[ShownFile]:
    """Yield the files of a message that are sent, given what was rendered by position."""
    for position, file in rendered.items():
        parts = [part for part in file.parts if isinstance(part, File)]
        if message is not None and parts:
            yield _shown_file(message, position, parts)


def _shown_file(message: Message, position: int, parts: Sequence[File]) -> ShownFile:
    size = sum(len(part.data) + len(part.text) + len(part.url) for part in parts)
    images = sum(part.family == "image" for part in parts)
    return ShownFile(message, position, frozenset(_KINDS.get(part.family, "document") for part in parts), images, size)
