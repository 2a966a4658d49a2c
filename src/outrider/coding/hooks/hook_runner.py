"""Run the hooks of files for a session: the event as JSON in, the answer of the program out, within limits."""

from __future__ import annotations

import asyncio
import json
import os
import select
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.access import Access
from outrider.coding.hooks.hook_files import EVENTS, HookCommand
from outrider.coding.toolbox.shell.shell import Shell
from outrider.processes.processes import Process, Processes, end
from outrider.runtime.hooks import (
    AfterTool,
    BeforeCompaction,
    BeforeTool,
    HookEvent,
    HookResult,
    Hooks,
    Notification,
    PromptSubmitted,
    SessionStart,
    Stop,
)
from outrider.text import clean, shorten
from outrider.tools.threads import Threads

BLOCKED = 2
"""The exit code that blocks."""
GUARDED = (BeforeTool, PromptSubmitted)
"""The events whose hooks are guards: one that fails in any way denies."""
FAILURE = "PostToolUseFailure"
"""The event of a call that failed. PostToolUse is for calls that succeeded."""
STOP_SECONDS = 2.0
"""How long a cancelled session waits for the end of a program that was told to stop."""
MOST_CONTEXT = 10_000
"""Characters that a hook may say."""


class HookRunner:
    """Runs the hooks of files in a folder, in the sandbox of its commands."""

    def __init__(self, shell: Shell, environment: Mapping[str, str], access: Access, mode: Callable[[], str]) -> None:
        """`mode` returns the permission mode, which hooks are told."""
        self._shell = shell
        self._environment = environment
        self._access = access
        self._mode = mode
        self._threads = Threads()
        self._told: set[HookCommand] = set()

    def hooks(self, commands: Iterable[HookCommand]) -> Hooks:
        by_event: dict[str, list[Any]] = {}
        for command in commands:
            by_event.setdefault(EVENTS[command.event], []).append(_FileHook(self, command))
        return Hooks(**by_event)

    async def run(self, hook: HookCommand, event: HookEvent) -> HookResult | None:
        """Run a hook for an event. Raises OSError or ToolCallError if it cannot be started."""
        if hook.before_run and (reason := await self._threads.run(hook.before_run)):
            return self._refused(hook, event, reason)
        data = json.dumps(self._event_json(hook, event), ensure_ascii=False, default=str).encode(errors="replace")
        stopped = threading.Event()
        work = asyncio.ensure_future(self._threads.run(self._run, hook, data, stopped))
        try:
            return self._result(hook, event, await asyncio.shield(work))
        except asyncio.CancelledError:
            stopped.set()
            await asyncio.wait([work], timeout=STOP_SECONDS)
            raise

    def _refused(self, hook: HookCommand, event: HookEvent, reason: str) -> HookResult:
        """Return the result of a hook that is not what the user agreed to. The user is told once."""
        note = "" if hook in self._told else reason
        self._told.add(hook)
        return HookResult(block=reason if isinstance(event, GUARDED) else "", note=note)

    def _run(self, hook: HookCommand, data: bytes, stopped: threading.Event) -> ProgramResult:
        workspace = self._shell.workspace
        mark = workspace.processes.next_mark()
        places = {"CLAUDE_PROJECT_DIR": str(workspace.folder), "OUTRIDER_PROJECT_DIR": str(workspace.folder)}
        if hook.root:
            places |= {"PLUGIN_ROOT": str(hook.root), "CLAUDE_PLUGIN_ROOT": str(hook.root)}
        return run_program(
            workspace.processes,
            self._shell.argv(hook.command, mark, self._access),
            mark,
            data,
            folder=workspace.folder,
            environment={**self._environment, **places},
            seconds=hook.seconds,
            stopped=stopped,
        )

    def _result(self, hook: HookCommand, event: HookEvent, ended: ProgramResult) -> HookResult | None:
        shown = shorten(hook.command, 80, "…")
        if ended.exit_code == BLOCKED:
            return HookResult(block=_said(ended.errors or ended.output or f"the hook `{shown}` blocked it"))
        try:
            if ended.exit_code == 0:
                return _parsed(ended.output, event)
            how = _how_it_ended(ended.exit_code, hook.seconds)
            how += f": {_said(ended.errors)}" if ended.errors else ""
        except ValueError as error:
            how = f"has an answer that cannot be used: {error}"
        note = f"The hook `{shown}` for {hook.event} {how}"
        # Without a verdict nothing goes on: a model could fill the disk, or make the check of a call take long.
        return HookResult(block=note) if isinstance(event, GUARDED) else HookResult(note=note)

    def _event_json(self, hook: HookCommand, event: HookEvent) -> dict[str, Any]:
        """Return what the program reads, in the form that other agents have."""
        common = {
            "session_id": event.session,
            "transcript_path": "",  # there is no file of the session, and hooks cannot read the log
            "cwd": str(event.cwd),
            "permission_mode": self._mode(),
            "hook_event_name": hook.event,
        }
        match event:
            case SessionStart():
                return common | {"source": "startup" if event.source == "new" else "resume"}
            case PromptSubmitted():
                return common | {"prompt": event.prompt}
            case BeforeTool():
                return common | {"tool_name": event.tool, "tool_input": event.input, "tool_use_id": event.call_id}
            case AfterTool():
                response = {"text": event.result, "is_error": event.is_error}
                called = {"tool_name": event.tool, "tool_input": event.input, "tool_use_id": event.call_id}
                return common | called | {"tool_response": response}
            case BeforeCompaction():
                trigger = "manual" if event.reason == "manual" else "auto"
                return common | {"trigger": trigger, "custom_instructions": event.focus}
            case Stop():
                return common | {"stop_hook_active": event.is_continued, "last_assistant_message": event.text}
            case Notification():
                return common | {"message": event.message}
        return common | {"reason": "other"}


class _FileHook(msgspec.Struct, frozen=True):
    """One hook, as a session calls it."""

    runner: HookRunner
    command: HookCommand

    async def __call__(self, event: HookEvent) -> HookResult | None:
        if isinstance(event, BeforeTool | AfterTool) and not self.command.matches(event.tool):
            return None
        if isinstance(event, AfterTool) and event.is_error != (self.command.event == FAILURE):
            return None
        return await self.runner.run(self.command, event)


def _how_it_ended(exit_code: int | None, seconds: float) -> str:
    if exit_code is None:
        return f"did not end within {seconds:g} seconds"
    return f"failed with exit code {exit_code}" if exit_code > 0 else f"was ended by signal {-exit_code}"


def _parsed(output: str, event: HookEvent) -> HookResult | None:
    """Return what a program's output wants. Text is context at the beginning of a session and for a prompt.

    Raises ValueError for JSON that cannot be understood.
    """
    data = _json(output)
    if data is None:
        says = isinstance(event, SessionStart | PromptSubmitted) and output.strip()
        return HookResult(context=_said(output)) if says else None
    specific = data.get("hookSpecificOutput")
    own: dict[str, Any] = specific if isinstance(specific, dict) else {}
    _check_verdict(data, own, specific)
    block = ""
    if data.get("continue") is False:
        block = _text(data.get("stopReason")) or "a hook stopped it"
    elif data.get("decision") in ("block", "deny") or own.get("permissionDecision") in ("deny", "ask", "defer"):
        reason = _text(own.get("permissionDecisionReason")) or _text(data.get("reason"))
        wants_person = own.get("permissionDecision") in ("ask", "defer")
        block = reason or ("a hook wants a person to decide" if wants_person else "a hook denied it")
    changed = own.get("updatedInput")
    context = _text(own.get("additionalContext"))
    changed = changed if isinstance(changed, dict) and not block else None
    return HookResult(block, context, changed, _text(data.get("systemMessage")))


def _check_verdict(data: dict[str, Any], own: dict[str, Any], specific: Any) -> None:
    """Raise ValueError if a verdict has a form that is not known: it may have been meant to block."""
    if specific is not None and not isinstance(specific, dict):
        raise ValueError("hookSpecificOutput is not an object")
    for field, value, known in (
        ("decision", data.get("decision"), ("approve", "allow", "block", "deny")),
        ("permissionDecision", own.get("permissionDecision"), ("allow", "deny", "ask", "defer")),
        ("continue", data.get("continue"), (True, False)),
    ):
        if value is not None and value not in known:
            raise ValueError(f"{field} has an unknown value")
    if own.get("updatedInput") is not None and not isinstance(own["updatedInput"], dict):
        raise ValueError("updatedInput is not an object")


def _json(output: str) -> dict[str, Any] | None:
    """Return the JSON object that a program printed; None for text. Raises ValueError."""
    if not output.startswith("{"):
        return None
    try:
        data: dict[str, Any] = json.loads(output)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    return data


def _text(value: Any) -> str:
    return _said(value) if isinstance(value, str) else ""


def _said(text: str) -> str:
    return shorten(clean(text).strip(), MOST_CONTEXT, "[{left_out} of {total} characters left out]")


MOST_OUTPUT = 64 * 1024
"""Bytes of each stream that are kept. The rest is read and dropped."""
_POLL = 0.05


class ProgramResult(msgspec.Struct, frozen=True):
    """How a program ended."""

    exit_code: int | None
    """None if it did not end in time."""
    output: str
    errors: str


def run_program(
    processes: Processes,
    argv: list[str],
    mark: str,
    data: bytes,
    *,
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
    stopped: threading.Event,
) -> ProgramResult:
    """Run a program to its end, or until its time is over or `stopped` is set. Blocks.

    Raises OSError if it cannot be started.
    """
    # Its input is not a pipe: a program that reads nothing must not block us.
    with tempfile.TemporaryFile() as given, _two_pipes() as (readers, writers):
        given.write(data)
        given.seek(0)
        process = processes.start(
            argv,
            mark,
            folder=folder,
            environment=environment,
            output=writers[0],
            errors=writers[1],
            input=given.fileno(),
        )
        while writers:
            os.close(writers.pop())
        try:
            return _follow(process, readers, time.monotonic() + seconds, stopped)
        finally:
            processes.forget(process)


@contextmanager
def _two_pipes() -> Iterator[tuple[list[int], list[int]]]:
    """Yield the ends to read from and those to write to. Those that are still listed at the end are closed."""
    readers: list[int] = []
    writers: list[int] = []
    try:
        for _ in range(2):
            reader, writer = os.pipe()
            readers.append(reader)
            writers.append(writer)
        yield readers, writers
    finally:
        for handle in (*readers, *writers):
            os.close(handle)


def _follow(process: Process, readers: list[int], deadline: float, stopped: threading.Event) -> ProgramResult:
    kept = dict.fromkeys(readers, b"")
    open_handles = set(readers)

    def read(wait: float) -> None:
        for handle in _readable(open_handles, wait):
            if data := os.read(handle, MOST_OUTPUT):
                kept[handle] = (kept[handle] + data)[:MOST_OUTPUT]
            else:
                open_handles.discard(handle)
        if not open_handles:
            time.sleep(min(wait, 0.01))

    try:
        while not process.ended() and time.monotonic() < deadline and not stopped.is_set():
            read(_POLL)
        in_time = process.ended()
    finally:
        _, left = end([process], read)
    for _ in range(100):  # what is left in the pipes
        if not _readable(open_handles, 0):
            break
        read(0)
    code = process.reap() if not left or process.ended() else None
    output, errors = (kept[handle].decode(errors="replace").strip() for handle in readers)
    return ProgramResult(code if in_time else None, output, errors)


def _readable(handles: set[int], seconds: float) -> list[int]:
    """Wait for something to read. Not by `select`, which fails for the handles of a process that has many open."""
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    return [handle for handle, _ in poll.poll(seconds * 1000)] if handles else []
