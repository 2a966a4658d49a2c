"""The results of calls as blocks: texts within the limit, the whole of long ones and files in the store.

The files of prompts are stored here as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from outrider.conversation.attachments import Attachment, OpenFile
from outrider.conversation.codec import read_tool_results
from outrider.conversation.messages import (
    AttachmentBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    unstored_in,
    with_stored,
)
from outrider.errors import AttachmentError
from outrider.log.entries import CallResult
from outrider.runtime.call_environment import CallEnvironment
from outrider.text import clean, shorten
from outrider.tools.approval import FileApprover, denial_in
from outrider.tools.result import ToolResult


class ResultBuilder:
    """Makes what a tool returned into the result of its call.

    `report` tells observers why a file was not stored. `before_asking` is called before a person is asked about one.
    """

    __slots__ = ("_around", "_before_asking", "_limit", "_report", "_use")

    def __init__(
        self,
        use: ToolUseBlock,
        around: CallEnvironment,
        limit: int,
        report: Callable[[str], None],
        before_asking: Callable[[], None],
    ) -> None:
        self._use = use
        self._around = around
        self._limit = limit
        """The most characters of the result that the model reads."""
        self._report = report
        self._before_asking = before_asking

    async def build(self, result: ToolResult) -> CallResult:
        """Return the result as a block: its text within the limit, its files in the store."""
        text, whole = clean(result.text), None
        if result.whole is not None:
            text, whole = await self._completed(text, result.whole)
        elif len(text) > self._limit:
            text, whole = await self._shortened(text, result.is_json)
        content: list[TextBlock | AttachmentBlock] = [TextBlock(text)] if text else []
        files = [await self._stored(attachment) for attachment in result.attachments] if result.attachments else []
        nothing_left = not text.strip() and bool(files) and all(isinstance(file, TextBlock) for file in files)
        note = [TextBlock(clean(result.note))] if result.note else []
        block = result_block(self._use.id, [*content, *files, *note], result.is_error or nothing_left, whole)
        answer = CallResult(block, result.final, result.details, result.handoff)
        return unknown_result(answer) if result.is_unknown else answer

    async def _shortened(self, text: str, is_json: bool) -> tuple[str, AttachmentBlock | None]:
        from outrider.conversation.json_text import indent_json  # few results are so long

        data = (indent_json(text) if is_json else text).encode()
        mime_type, ending = ("application/json", "json") if is_json else ("", "txt")
        file = Attachment(data, mime_type, f"{self._use.name}-{self._use.id}.{ending}")
        where, kept = await self._keep_whole(file, len(data))
        if is_json:  # shortening long JSON takes a while
            return await self._around.threads.run(self.cut, text, where, is_json), kept
        return self.cut(text, where, is_json), kept

    def cut(self, text: str, where: str, is_json: bool) -> str:
        """Shorten a text to the limit and say where the rest is; JSON stays JSON."""
        where = where.replace("{", "{{").replace("}", "}}")
        if is_json:
            from outrider.conversation.json_text import shorten_json

            note = f"This is not all of it: {{total}} characters, of which some are left out here. {where}"
            with contextlib.suppress(ValueError, RecursionError):  # not JSON after all: shorten it as text
                return clean(shorten_json(text, self._limit, note))
        return shorten(text, self._limit, f"[{{left_out}} of {{total}} characters left out here. {where}]")

    async def _completed(self, text: str, file: Attachment) -> tuple[str, AttachmentBlock | None]:
        """Return a partial text with a note on where the whole is."""
        limit = self._around.limits.attachment_bytes
        where, kept = await self._keep_whole(file, limit, file.description or "The whole")
        note = "[{left_out} of {total} characters left out here.]"
        return f"{shorten(text, self._limit, note)}\n[{where}]", kept

    async def _keep_whole(
        self, file: Attachment, limit: int, what: str = "The whole"
    ) -> tuple[str, AttachmentBlock | None]:
        """Store the whole of a result; return a sentence on where it is, and its reference if it could be stored."""
        whole = await self._put(file, limit)
        if isinstance(whole, str):
            return f"{what} could not be stored: {whole}", None
        return f"{what} is stored as attachment:{whole.sha256}", whole

    async def _stored(self, attachment: Attachment) -> TextBlock | AttachmentBlock:
        """Store a file; return its reference, or a note for the model if that fails."""
        stored = await self._put(attachment, self._around.limits.attachment_bytes)
        return TextBlock(f"\n[A file could not be attached: {stored}.]") if isinstance(stored, str) else stored

    async def _put(self, attachment: Attachment, limit: int) -> AttachmentBlock | str:
        """Store a file; return its reference, or the reason why it failed, which observers see as a notice."""
        try:
            attachment = await _local(attachment, self._around)
            approve: object = self._around.approve
            if isinstance(approve, FileApprover) and isinstance(attachment.source, Path):
                return await self._put_judged(approve, attachment, limit)
            try:
                return await self._around.threads.run(self._around.store.put, attachment, limit)
            finally:
                if isinstance(attachment, OpenFile) and attachment.file:
                    attachment.file.close()
        except Exception as error:  # noqa: BLE001 - a user's store may break the contract, and the turn goes on
            said = clean(str(error)) if isinstance(error, AttachmentError) else described(error)
            self._report(f"{self._use.name}: {said}")
            return said

    async def _put_judged(self, approver: FileApprover, attachment: Attachment, limit: int) -> AttachmentBlock:
        """Store a file by path if the approver allows it. It is opened once, then approved, then read."""
        file = await self._around.threads.run(attachment.held, limit)
        try:
            self._before_asking()
            if refusal := denial_in(await approver.attach(self._use, str(attachment.source), file.real)):
                raise AttachmentError(f"{attachment.label}: {refusal}")
            return await self._around.threads.run(self._around.store.put, file, limit)
        finally:
            if file.file:
                file.file.close()


def error_result(call_id: str, text: str, *, final: bool = False) -> CallResult:
    return CallResult(result_block(call_id, [TextBlock(text)], is_error=True), final)


def result_block(
    call_id: str, content: Iterable[TextBlock | AttachmentBlock], is_error: bool, whole: AttachmentBlock | None = None
) -> ToolResultBlock:
    """Return the block with the result of a call."""
    return ToolResultBlock(call_id, tuple(content), is_error, whole)


def stopped_result(answer: CallResult, reason: str) -> CallResult:
    """Return the result of a stopped tool, flagged as an error and with the reason before it."""
    result = answer.result
    return CallResult(result_block(result.tool_use_id, [TextBlock(f"{reason}\n"), *result.content], True, result.whole))


def edited_result(answer: CallResult, arguments: dict[str, Any]) -> CallResult:
    """Return the result of a call whose arguments the approver changed, with a note for the model."""
    given = shorten(msgspec.json.encode(arguments).decode(), 2_000, "[{left_out} of {total} characters left out]")
    note = f"[The arguments of this call were changed when it was approved. It ran with: {given}]"
    result = answer.result
    content = (*result.content, TextBlock(f"\n{note}" if result.content else note))
    return msgspec.structs.replace(answer, result=msgspec.structs.replace(result, content=content))


def unknown_result(answer: CallResult) -> CallResult:
    """Return the result of a call that was stopped while it ran, and may have changed something."""
    result = msgspec.structs.replace(answer.result, is_unknown=True)
    return msgspec.structs.replace(answer, result=result)


def described(error: BaseException) -> str:
    """Describe an exception; its own `__str__` may fail as well."""
    try:
        said = clean(str(error))
    except Exception:  # noqa: BLE001 - then only its type is named
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


async def stored_prompt(messages: Sequence[Message], around: CallEnvironment) -> list[Message]:
    """Return messages whose files are all stored; those on the web are fetched before. Raises AttachmentError."""
    return [
        with_stored(message, [await _stored(file, around) for file in files])
        if (files := unstored_in(message))
        else message
        for message in messages
    ]


async def stored_results(
    values: Iterable[ToolResultBlock | Mapping[str, Any]], around: CallEnvironment
) -> dict[str, ToolResultBlock]:
    """Return results by call id. Files in their content are stored. Raises AttachmentError and ConversationError."""
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        values = [await _with_stored_files(value, around) for value in values]
    return read_tool_results(values)


async def _with_stored_files(value: Any, around: CallEnvironment) -> Any:
    content = value.get("content") if isinstance(value, Mapping) else getattr(value, "content", None)
    parts = [content] if isinstance(content, Attachment) else content
    if not isinstance(parts, list | tuple) or not any(isinstance(part, Attachment) for part in parts):
        return value
    stored = tuple([await _stored(part, around) if isinstance(part, Attachment) else part for part in parts])
    if isinstance(value, Mapping):
        return {**value, "content": stored}
    return msgspec.structs.replace(value, content=stored)


async def _stored(file: Attachment, around: CallEnvironment) -> AttachmentBlock:
    return await around.threads.run(around.store.put, await _local(file, around), around.limits.attachment_bytes)


async def _local(file: Attachment, around: CallEnvironment) -> Attachment:
    """Return a file with its absolute path, or with its bytes if it is on the web."""
    if file.is_remote:
        from outrider.providers.transport.fetching import fetched  # few files are on the web

        file = await fetched(file)
    return file.within(around.cwd)
