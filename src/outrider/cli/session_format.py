"""Format sessions, the trees of their sub-agents, and their entries as text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from outrider.cli.styles import home_relative
from outrider.coding import sentences
from outrider.conversation.messages import (
    AttachmentBlock,
    Message,
    RawBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.usage import Usage
from outrider.conversation.user_messages import is_from_user
from outrider.log import entries
from outrider.log.log import Log
from outrider.log.session_id import shown_id
from outrider.log.summary import Summary
from outrider.log.usage_tables import context_used
from outrider.providers.resolution import window_of_name
from outrider.runtime.entry_events import change_of
from outrider.text import counted, dollars, human_size, thousands
from outrider.text.visible import safe_line, safe_lines


class Branch(msgspec.Struct, frozen=True):
    """A session and its sub-agents."""

    summary: Summary
    children: Sequence[Branch] = ()

    @property
    def usage(self) -> Usage:
        return sum((child.usage for child in self.children), self.summary.usage)

    @property
    def turns(self) -> int:
        return self.summary.turns + sum(child.turns for child in self.children)


def tree_of(log: Log, id: str) -> Branch:
    return _branch(log, log.session(id))


def _branch(log: Log, summary: Summary) -> Branch:
    return Branch(summary, [_branch(log, child) for child in log.children(summary.id)])


def tree_lines(branch: Branch) -> Iterator[str]:
    """Yield one line per session, the root first, then the total if there are sub-agents."""
    root = branch.summary
    yield f"{root.title or '(empty session)'} · {used(root.turns, root.usage)}"
    yield from _below(branch.children, "")
    if branch.children:
        yield f"total {used(branch.turns, branch.usage)}"


def _below(children: Sequence[Branch], indent: str) -> Iterator[str]:
    for child in children:
        is_last = child is children[-1]
        line = f"{shown_id(child.summary.id)}  {child.summary.title} · {used(child.turns, child.usage)}"
        yield f"{indent}{'└─' if is_last else '├─'} {line}"
        yield from _below(child.children, f"{indent}{'   ' if is_last else '│  '}")


def used(turns: int, usage: Usage) -> str:
    return ", ".join(part for part in (counted(turns, "turn"), dollars(usage.cost)) if part)


LINES, CHARACTERS = 8, 600
"""Maximum lines of a text and characters of a line, unless --full is set."""


def format_list(summaries: Sequence[Summary], is_here: Callable[[Summary], bool]) -> Iterator[str]:
    """Yield a heading and one line per session: those of this repository, then others with their folders."""
    if not summaries:
        return
    has_others = is_here(summaries[0])
    width = max(8, *(len(shown_id(each.id)) for each in summaries))
    yield f"{'ID':<{width}}  {'WHEN':<16}  {'MODEL':<24}  {'TURNS':>5}  {'COST':>8}  {'SIZE':>10}  TITLE"
    for each in summaries:
        where = "" if is_here(each) else home_relative(each.folder)
        if where and has_others:
            has_others = False
            yield "In other folders:"
        is_open = "● " if each.holder and each.holder.is_alive() else ""
        kind = "" if each.origin in ("", "chat") else f"({each.origin}) "
        model = each.model if len(each.model) <= 24 else f"{each.model[:23]}…"
        cost = dollars(each.usage.cost) or "–"
        yield safe_line(
            f"{shown_id(each.id):<{width}}  {format_time(each.updated)}  {model:<24}  {each.turns:>5}  {cost:>8}  "
            f"{human_size(each.size):>10}  {is_open}{kind}{each.title}{f'  in {where}' if where else ''}"
        )


def format_header(branch: Branch, context: Iterable[str] = ()) -> Iterator[str]:
    """Yield the header of a session: its details, its context, and the tree of its sub-agents with their costs."""
    return map(safe_line, _header_lines(branch, context))


def _header_lines(branch: Branch, context: Iterable[str]) -> Iterator[str]:
    summary = branch.summary
    yield summary.title or "(empty session)"
    yield f"  id        {summary.id}"
    yield f"  model     {summary.model}"
    yield f"  started   {format_time(summary.created)}, last entry {format_time(summary.updated)}"
    usage = summary.usage
    tokens = f"{counted(usage.input_tokens, 'token')} in ({usage.cached_tokens:,} cached), {usage.output_tokens:,} out"
    yield f"  used      {counted(summary.turns, 'turn')}, {tokens}, {dollars(usage.cost) or '–'}"
    yield from context
    yield f"  size      {human_size(summary.size)}"
    if summary.holder:
        state = "open in" if summary.holder.is_alive() is not False else "was left open by"
        yield f"  {state:<9} {summary.holder}"
    if summary.parent:
        yield f"  parent    {summary.parent}"
    if branch.children:
        yield "  sub-agents"
        yield from (f"    {line}" for line in list(tree_lines(branch))[1:])
    yield ""


def format_entry(record: entries.Record, *, full: bool = False) -> Iterator[str]:
    """Yield an entry as lines; the first has its number and time."""
    at = _at(record.time, "%H:%M:%S")
    lines = list(_lines(record.entry, full)) or [("", "")]
    for number, (who, text) in enumerate(lines):
        head = f"{record.seq:>6}  {at}  {who:<9}" if number == 0 else f"{'':>6}  {'':8}  {who:<9}"
        yield safe_line(f"{head}  {text}".rstrip())


def _lines(entry: entries.Entry, full: bool) -> Iterator[tuple[str, str]]:
    match entry:
        case entries.MessageEntry(message=message):
            yield from _message(message, full)
        case entries.CallResult(result=result):
            yield from _block(result, full)
        case entries.CompactionEntry() | entries.ResultsClearedEntry():
            yield format_shortening(entry)
        case entries.SnapshotEntry() | entries.RewindEntry():
            yield _rewinding(entry)
        case entries.Requested():
            yield "request", msgspec.json.encode(entry).decode() if full else _request_summary(entry)
        case entries.TitleEntry(title=title):
            yield "titled", title or "(the model gave no title)"
        case entries.SteeringQueued() | entries.SteeringWithdrawn() | entries.SteeringDelivered():
            yield _format_steering(entry, full)
        case entries.RunStarted() | entries.RunStopped() | entries.Asked() | entries.Decided():
            yield _run_or_question(entry)
        case _:
            yield _event(entry, full)


def format_shortening(entry: entries.CompactionEntry | entries.ResultsClearedEntry) -> tuple[str, str]:
    """Return what was done to make room in the context window, and how much it saved."""
    if isinstance(entry, entries.CompactionEntry):
        return "compacted", f"{thousands(entry.tokens_before)} → {thousands(entry.tokens_after)} tokens"
    return "cleared", f"{counted(entry.count, 'old result')}, {thousands(entry.tokens)} tokens"


def _format_steering(
    entry: entries.SteeringQueued | entries.SteeringWithdrawn | entries.SteeringDelivered, full: bool
) -> tuple[str, str]:
    match entry:
        case entries.SteeringQueued(message=message):
            return "queued", message.text if full else message.text[:200]
        case entries.SteeringWithdrawn():
            return "withdrawn", "a queued message"
    return "delivered", "the queued message that follows"


def _run_or_question(
    entry: entries.RunStarted | entries.RunStopped | entries.Asked | entries.Decided,
) -> tuple[str, str]:
    match entry:
        case entries.RunStarted(continues=continues):
            return "run", "goes on" if continues else "begins"
        case entries.RunStopped(status=status, turns=turns, error=error):
            return "run", f"ends: {status}, {counted(turns, 'turn')}{f', {error}' if error else ''}"
        case entries.Asked(question=question):
            return "asked", str(question.get("title") or question.get("message") or "")
    verdict = "denied"
    if entry.allowed:
        verdict = "allowed" if entry.input is None else "allowed with changed arguments"
    return "decided", f"{verdict}{by_whom(entry.by)}{f': {entry.answer}' if entry.answer else ''}"


def by_whom(by: str) -> str:
    """Return who decided, to follow a verb: an answer to a question has the place where it was given.

    >>> by_whom("the mode all"), by_whom("in the editor")
    (' by the mode all', ' by the user, in the editor')
    """
    return f" by {'the user, ' if by.startswith(('in ', 'on ')) else ''}{by}" if by else ""


def _event(entry: entries.Entry, full: bool) -> tuple[str, str]:
    match entry:
        case entries.Intent(call_id=call_id, name=name, effect=effect):
            return "started", f"{name} ({effect}) {call_id}"
        case entries.AttachmentStored(attachment=file):
            return "stored", _file(file)
        case entries.AttemptFailed(reason=reason, delay=delay):
            return "failed", reason if delay is None else f"{reason}; retried after {delay:.1f} s"
        case entries.SessionSettings():
            return "settings", msgspec.json.encode(entry).decode() if full else _settings_summary(entry)
        case entries.SessionStarted(forked_from=source, forked_at=at, version=version):
            copied = f", copied from {shown_id(source)} up to entry {at}" if source else ""
            return "created", f"by Outrider {version}{copied}"
        case entries.SubagentLinked() | entries.BackgroundTask():
            return _subagent(entry)
        case entries.SessionRecovered(count=0):
            return "recovered", "the newest entries before this one may be lost"
        case entries.SessionRecovered(count=count):
            return "recovered", f"{count} of the entries before this one were lost"
        case entries.UnknownEntry(name=name):
            return name[:9], "(written by a newer version; kept, but ignored)"
    return entry.kind, ""


def _subagent(entry: entries.SubagentLinked | entries.BackgroundTask) -> tuple[str, str]:
    if isinstance(entry, entries.SubagentLinked):
        return "sub-agent", f"{shown_id(entry.session)} for {entry.call_id}"
    return "sub-agent", f"{shown_id(entry.session)} in the background: {entry.title} · {entry.status or 'at work'}"


def _rewinding(entry: entries.SnapshotEntry | entries.RewindEntry) -> tuple[str, str]:
    if isinstance(entry, entries.SnapshotEntry):
        return "snapshot", f"{counted(entry.count, 'file')}{'' if entry.is_whole else ' changed'}"
    what = [name for name, is_so in (("conversation", entry.conversation), ("files", entry.files)) if is_so]
    return "undone" if entry.undo else "rewound", f"to message {entry.to}: {' and '.join(what)}"


_PARTS = {"system": "system prompt", "server_tools": "tools of the API", "output_schema": "form of the answer"}


def _request_summary(entry: entries.Requested) -> str:
    """Return what is new in a request, without its texts."""
    told = {name: getattr(entry, name) for name in entry.__struct_fields__}
    new = [_PARTS.get(name, name) for name, value in told.items() if value not in (msgspec.UNSET, None, "", (), {})]
    return f"with a new {', '.join(new)}" if new else "without what the one before added"


def _settings_summary(settings: entries.SessionSettings) -> str:
    """Summarise the settings, without the text of the system prompt."""
    return ", ".join(
        filter(
            None,
            (
                f"“{settings.title}”" if settings.title else "",
                change.text if (change := change_of(settings)) else settings.model,
                f"instructions of {len(settings.system):,} characters" if settings.system else "",
                counted(len(settings.tools), "tool") if settings.tools else "",
                f"in {settings.cwd}" if settings.cwd else "",
            ),
        )
    )


def _message(message: Message, full: bool) -> Iterator[tuple[str, str]]:
    who = "model" if message.role == "assistant" else "you" if is_from_user(message) else "note"
    for block in message.content:
        for label, line in _block(block, full):
            yield label or who, line
            who = ""


def _block(block: object, full: bool) -> Iterator[tuple[str, str]]:
    match block:
        case TextBlock(text=text):
            yield from (("", line) for line in _short(text, full))
        case ThinkingBlock(thinking=text) if text.strip():
            yield from _labelled("thought", _short(text, full))
        case ToolUseBlock(name=name, input=input) | ServerToolUseBlock(name=name, input=input):
            yield "calls", _short(f"{name} {msgspec.json.encode(input, enc_hook=repr).decode()}", full)[0]
        case ToolResultBlock(content=content):
            lines = [line for part in content for _, line in _block(part, full)] or ["(no output)"]
            yield from _labelled({"done": "result"}.get(block.outcome, block.outcome), lines)
        case ServerToolResultBlock(text=text, is_error=is_error):
            yield from _block(ToolResultBlock("", (TextBlock(text),) if text else (), is_error), full)
        case AttachmentBlock():
            yield "file", _file(block)
        case RawBlock(kind=kind):
            yield "kept", safe_line(kind)


def _labelled(label: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield lines with a label before the first."""
    for line in lines:
        yield label, line
        label = " "


def _short(text: str, full: bool) -> list[str]:
    lines = safe_lines(text).split("\n") or [""]
    if full:
        return lines
    kept = [line if len(line) <= CHARACTERS else f"{line[:CHARACTERS]}…" for line in lines[:LINES]]
    if len(lines) > LINES:
        kept.append(f"… {counted(len(lines) - LINES, 'more line')}")
    return kept


def _file(file: AttachmentBlock) -> str:
    return f"{file.label}, {file.mime_type}, {human_size(file.size)}"


def format_time(moment: float) -> str:
    """Format a time, to the minute."""
    return _at(moment, "%Y-%m-%d %H:%M")


def format_moment(moment: float) -> str:
    """Format a time, to the second."""
    return _at(moment, "%Y-%m-%d %H:%M:%S")


def _at(moment: float, form: str) -> str:
    try:
        return time.strftime(form, time.localtime(moment))
    except (OverflowError, ValueError, OSError):
        return "(invalid time)"


SHORTENINGS = 5
"""How many of the newest compactions are listed."""


def context_lines(log: Log, summary: Summary) -> Iterator[str]:
    """Yield the tokens of the last request and the compactions of a session, for its header."""
    if (used := context_used(log.newest(summary.id))) is not None:
        window = window_of_name(summary.model)
        share = f" of {thousands(window)} tokens ({used / window:.0%})" if window else " tokens"
        yield f"  context   {thousands(used)}{share}"
    if losses := log.cache_losses(summary.id):
        yield f"  cache     {sentences.cache_losses(losses)}; the last:"
        yield safe_line(f"            turn {losses[-1].turn}: {losses[-1]}")
    records = log.shortenings(summary.id)
    if len(records) > SHORTENINGS:
        yield f"  shortened {counted(len(records), 'time')}; the last {SHORTENINGS}:"
    for record in records[-SHORTENINGS:]:
        if isinstance(record.entry, entries.CompactionEntry | entries.ResultsClearedEntry):
            name, text = format_shortening(record.entry)
            yield f"  {name:<9} {text}, {format_time(record.time)}, entry {record.seq}"
