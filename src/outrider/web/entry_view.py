"""Entries of the log as JSON: for people, with long texts shortened; for programs, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.remote.questions import json_text
from outrider.coding.toolbox import EXIT_PLAN
from outrider.coding.toolbox.files.diffs import diff_of
from outrider.coding.toolbox.titles import title
from outrider.conversation.messages import (
    AttachmentBlock,
    Citation,
    Message,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.user_messages import REPORT, is_failed_check
from outrider.errors import UnknownSessionError
from outrider.log import entries as logged
from outrider.log.log import Log
from outrider.log.summary import Summary
from outrider.prompts import prompt
from outrider.runtime.entry_events import change_of
from outrider.text.visible import revealed, revealed_line, safe_lines, without_colours
from outrider.web.api_answers import EntriesPage, Tokens
from outrider.web.api_requests import FormQuery, PageQuery
from outrider.web.markdown_nodes import render, safe_address

Json = dict[str, Any]
MAX_TEXT = 12_000
"""Characters of a text that a list of entries has; one entry alone has MAX_WHOLE."""
MAX_WHOLE = 2_000_000
_MAX_TITLE = 300
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp")
"""Pictures that cannot hold scripts."""
PDF = "application/pdf"


class EntryView:
    """Turns records of one session into JSON."""

    def __init__(self, folder: str = "", limit: int = MAX_TEXT) -> None:
        self._folder = Path(folder) if folder else None
        self._limit = limit

    def entries(self, records: Iterable[logged.Record]) -> list[Json]:
        """Return the entries that people look at. Those of bookkeeping are left out."""
        return [shown for record in records if (shown := self.entry(record))]

    def entry(self, record: logged.Record) -> Json | None:
        """Return one entry, or None for bookkeeping."""
        fields = self._fields(record.entry)
        return fields and {"seq": record.seq, "time": record.time, "kind": record.entry.kind, **fields}

    def _fields(self, entry: logged.Entry) -> Json | None:
        match entry:
            case logged.MessageEntry():
                return self._message_entry(entry)
            case logged.CallResult(result=result, details=details):
                return self.result(result, details)
            case logged.CompactionEntry():
                return _compaction(entry)
            case logged.SteeringQueued(id=id, message=message):
                return {"id": id, "blocks": self.blocks(message)}
            case logged.SteeringWithdrawn(id=id):
                return {"id": id}
            case logged.Intent(call_id=call_id, name=name):
                return {"call_id": call_id, "name": safe_lines(name)}
            case logged.SubagentLinked(call_id=call_id, session=session):
                return {"call_id": call_id, "session": session}
            case logged.BackgroundTask(session=session, status=status):
                named = safe_lines(f"{entry.name}: {entry.title}")
                note = safe_lines(entry.note)
                return {"session": session, "title": named, "status": safe_lines(status), "note": note}
        return _note(entry)

    def _message_entry(self, entry: logged.MessageEntry) -> Json:
        message = entry.message
        fields: Json = {"role": message.role, "blocks": self.blocks(message)}
        if message.role == "user" and message.text == prompt("interrupted"):
            fields["interrupted"] = True
        elif is_failed_check(message):
            fields["check"] = True
        elif message.role == "user" and message.text.startswith(REPORT):
            fields["report"] = safe_lines(message.text.partition("]")[0].removeprefix("["))
        if message.role == "assistant":
            fields["model"] = safe_lines(entry.model)
            fields["stop_reason"] = entry.stop_reason
            fields["usage"] = Tokens.of(entry.usage) if entry.usage else None
        return fields

    def blocks(self, message: Message) -> list[Json]:
        return [shown for block in message.content if (shown := self._block(block, message.role))]

    def _block(self, block: object, role: str) -> Json | None:
        match block:
            case TextBlock(text=text, citations=citations) if text.strip():
                return self._text(text, citations, is_markdown=role == "assistant")
            case ThinkingBlock(thinking=text) if text.strip():
                return {"type": "thinking", **self._cut(text)}
            case ToolUseBlock():
                return self.call(block.id, block.name, block.input, block.invalid_input)
            case ServerToolUseBlock(id=id, name=name, input=input):
                return self.call(id, name, input) | {"served": True}
            case ServerToolResultBlock(tool_use_id=id, text=text, is_error=is_error):
                outcome = "failed" if is_error else "done"
                return {"type": "result", "call_id": id, "outcome": outcome, "files": [], **self._output(text)}
            case ToolResultBlock():
                return {"type": "result", **self.result(block, None)}
            case AttachmentBlock():
                return file_fields(block)
        return None

    def _text(self, text: str, citations: Iterable[Citation], *, is_markdown: bool) -> Json:
        if not is_markdown:
            return {"type": "text", **self._cut(text)}
        sources = [{"label": safe_lines(each.label), "url": safe_address(each.url)} for each in citations]
        return {"type": "markdown", "nodes": render(text)} | ({"sources": sources} if sources else {})

    def call(self, id: str, name: str, input: Mapping[str, Any], invalid: str | None = None) -> Json:
        """Return a call: its title, its arguments, and the change that it proposes."""
        line = revealed_line(title(name, input, self._folder))
        fields: Json = {"type": "call", "id": id, "name": revealed_line(name), "title": line[:_MAX_TITLE]}
        arguments = invalid if invalid is not None else json_text(input)
        fields["input"] = self._cut(arguments, revealed)
        if isinstance(command := input.get("command"), str):
            fields["command"] = self._cut(command, revealed)
        if name == EXIT_PLAN and isinstance(plan := input.get("plan"), str):
            fields["nodes"] = render(revealed(plan))
        if diff := proposed_diff(name, input):
            fields["diff"] = self._cut(diff, revealed)
        return fields

    def result(self, result: ToolResultBlock, details: Any) -> Json:
        fields: Json = {"call_id": result.tool_use_id, "outcome": result.outcome, **self._output(result.text)}
        fields["files"] = [file_fields(each) for each in result.attachments]
        if result.whole:
            fields["whole"] = file_fields(result.whole)
        if isinstance(details, dict):
            if isinstance(diff := details.get("diff"), str) and diff:
                fields["diff"] = self._cut(diff, revealed)
            fields |= {
                name: details[name]
                for name in ("added", "removed", "exit_code", "seconds")
                if isinstance(details.get(name), int | float)
            }
            if isinstance(todos := details.get("todos"), list):
                fields["todos"] = [_todo(each) for each in todos[:200] if isinstance(each, dict)]
        return fields

    def _output(self, text: str) -> Json:
        return self._cut(without_colours(text))

    def _cut(self, text: str, show: Callable[[str], str] = safe_lines) -> Json:
        shown = show(text[: self._limit])
        return {"text": shown, "cut": len(text) - self._limit} if len(text) > self._limit else {"text": shown}


def proposed_diff(name: str, input: Mapping[str, Any]) -> str:
    path = input.get("file_path")
    if not isinstance(path, str):
        return ""
    match name, input:
        case "Edit", {"old_string": str(old), "new_string": str(new)}:
            return diff_of(old, new, path).text
        case "Write", {"content": str(content)}:
            return diff_of("", content, path).text
    return ""


def file_fields(file: AttachmentBlock) -> Json:
    """Return a file: where its bytes are, and how the page can show them."""
    shown = "picture" if file.mime_type in PICTURES else "pdf" if file.mime_type == PDF else ""
    fields = {"type": "file", "sha256": file.sha256, "mime_type": safe_lines(file.mime_type), "size": file.size}
    return fields | {"name": safe_lines(file.label), "description": safe_lines(file.description), "shown": shown}


def _compaction(entry: logged.CompactionEntry) -> Json:
    return {
        "reason": entry.reason,
        "tokens_before": entry.tokens_before,
        "tokens_after": entry.tokens_after,
        "nodes": render(entry.summary.text),
    }


_NOTES: tuple[tuple[type[logged.Entry], Callable[[Any], Json]], ...] = (
    (
        logged.SessionStarted,
        lambda each: {"version": each.version, "forked_from": each.forked_from, "at": each.forked_at},
    ),
    (logged.AttemptFailed, lambda each: {"reason": safe_lines(each.reason), "delay": each.delay}),
    (logged.ResultsClearedEntry, lambda each: {"count": each.count, "tokens": each.tokens}),
    (
        logged.RewindEntry,
        lambda each: {"to": each.to, "undo": each.undo, "files": each.files, "said": each.conversation},
    ),
    (logged.RunCancelled, lambda each: {"cancelled": True}),
    (logged.RunStopped, lambda each: {"status": safe_lines(each.status), "error": safe_lines(each.error)}),
    (
        logged.GoalChecked,
        lambda each: {
            "command": safe_lines(each.command),
            "passed": each.passed,
            "last_line": "" if each.passed else safe_lines(each.last_line),
        },
    ),
    (logged.SessionRecovered, lambda each: {"count": each.count}),
    (logged.UnknownEntry, lambda each: {"name": safe_lines(each.name)}),
)


def _note(entry: logged.Entry) -> Json | None:
    """Return an entry that is one line on the page, or None for bookkeeping."""
    if isinstance(entry, logged.SessionSettings):
        if change := change_of(entry):
            return {"text": safe_lines(change.text)}
        changed = {"model": entry.model, "folder": entry.cwd, "effort": entry.effort, "title": entry.title}
        changed |= {"goal": entry.goal}
        return {name: safe_lines(value) for name, value in changed.items() if value} or None
    return next((fields(entry) for kind, fields in _NOTES if isinstance(entry, kind)), None)


def _todo(step: Mapping[str, Any]) -> Json:
    return {name: safe_lines(str(value))[:500] for name, value in step.items() if name in ("content", "status", "id")}


def entries_page(log: Log, summary: Summary, query: PageQuery) -> EntriesPage:
    """Return a page of entries, oldest first, and whether there are others before and after it."""
    if query.after is not None:
        records = log.after(summary.id, query.after, query.limit)
    elif query.around is not None:
        start = max(query.around - query.limit // 2, 1) - 1
        records = log.after(summary.id, start, query.limit)
    else:
        records = log.before(summary.id, summary.last + 1 if query.before is None else query.before, query.limit)
    first = records[0].seq if records else 1
    last = records[-1].seq if records else query.after or 0
    show = EntryView(summary.folder).entry if query.form == "view" else entry_data
    return EntriesPage(
        [shown for each in records if (shown := show(each))], first, last, first > 1, last < summary.last
    )


def whole_entry(log: Log, summary: Summary, seq: int, query: FormQuery) -> Json:
    """Return one entry with its whole text."""
    records = log.after(summary.id, seq - 1, 1) if seq else []
    if not records or records[0].seq != seq:
        raise UnknownSessionError(f"the session has no entry {seq}")
    show = EntryView(summary.folder, MAX_WHOLE).entry if query.form == "view" else entry_data
    return show(records[0]) or {"seq": seq, "time": records[0].time, "kind": records[0].entry.kind}


PUBLIC: tuple[type[logged.Entry], ...] = (
    *(logged.SessionStarted, logged.SessionSettings, logged.MessageEntry, logged.Intent, logged.CallResult),
    *(logged.AttemptFailed, logged.RunStarted, logged.RunStopped, logged.RunCancelled, logged.SubagentLinked),
    *(logged.CompactionEntry, logged.ResultsClearedEntry, logged.RewindEntry, logged.SessionRecovered),
    *(logged.SteeringQueued, logged.SteeringWithdrawn, logged.TitleEntry, logged.Asked, logged.Decided),
)
"""What the API shows. System prompts, snapshots and unknown entries are left out."""
HIDDEN: dict[type[logged.Entry], tuple[str, ...]] = {
    logged.SessionSettings: ("system", "limits", "elsewhere", "seal", "abridged", "rewound"),
    logged.Intent: ("key",),
    logged.Decided: ("signature",),
}
"""Fields that are left out: keys, signatures, and what the app tells the model."""


def entry_data(record: logged.Record) -> Json | None:
    """Return an entry with its number, its time and its kind, or None for one that is not shown."""
    kind = type(record.entry)
    if kind not in PUBLIC:
        return None
    fields: Json = msgspec.to_builtins(record.entry, enc_hook=str)
    for name in HIDDEN.get(kind, ()):
        fields.pop(name, None)
    if kind is logged.SessionSettings and not fields:
        return None
    return {"seq": record.seq, "time": record.time, "kind": kind.kind, **fields}
