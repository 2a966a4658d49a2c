"""The points of a session's loop at which hooks are called."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

from outrider.conversation.messages import Message, TextBlock
from outrider.errors import HookBlockedError
from outrider.runtime.call_environment import CallEnvironment
from outrider.runtime.events import Notice
from outrider.runtime.hooks import (
    HOOK_SAYS,
    PromptSubmitted,
    SessionEnd,
    SessionStart,
    Stop,
    SubagentStop,
    run_hooks,
)

MAX_CONTINUED = 8
"""How often hooks may keep one run going."""
END_SECONDS = 10.0
"""How long all hooks at the end of a session may take together."""


class HookPoints:
    """Calls the hooks of one session at the beginning and the end of the session and of its runs."""

    def __init__(self) -> None:
        self._has_started = False
        self._has_ended = False

    async def submit(self, said: list[Message], around: CallEnvironment, *, is_resumed: bool) -> list[Message]:
        """Return what the user says with the context of hooks. Raises HookBlockedError."""
        context = await self._started(around, is_resumed=is_resumed)
        if not said or said[-1].role != "user" or around.is_subagent:
            return said
        *before, last = said
        if around.hooks.prompt_submitted:
            text = "\n\n".join(part.text for part in last.content if isinstance(part, TextBlock))
            event = PromptSubmitted(session=around.session, cwd=around.cwd, prompt=text)
            wanted = await run_hooks(around.hooks.prompt_submitted, event, _reporter(around))
            if wanted.block:
                raise HookBlockedError(f"a hook blocked the prompt ({wanted.block}); change the prompt, or the hook")
            context = "\n\n".join(filter(None, (context, wanted.context)))
        return [*before, Message.user(*last.content, _said_by_hook(context))] if context else said

    async def _started(self, around: CallEnvironment, *, is_resumed: bool) -> str:
        if self._has_started or around.is_subagent:
            return ""
        self._has_started = True
        if not around.hooks.session_start:
            return ""
        source: Any = "resumed" if is_resumed else "new"
        event = SessionStart(session=around.session, cwd=around.cwd, source=source)
        return (await run_hooks(around.hooks.session_start, event, _reporter(around))).context

    async def stop(self, text: str, around: CallEnvironment, agent: str, continued: int) -> str:
        """Return what the next message says if a hook wants the run to go on, or ""."""
        places: dict[str, Any] = {"session": around.session, "cwd": around.cwd}
        ending: dict[str, Any] = {"text": text, "is_continued": continued > 0}
        hooks = around.hooks.subagent_stop if around.is_subagent else around.hooks.stop
        if not hooks or continued >= MAX_CONTINUED:
            return ""
        event = SubagentStop(**places, **ending, agent=agent) if around.is_subagent else Stop(**places, **ending)
        wanted = await run_hooks(hooks, event, _reporter(around))
        return _said_by_hook(wanted.block) if wanted.block else ""

    async def end(self, around: CallEnvironment) -> None:
        """Call the hooks at the end of a session that has begun, once."""
        if not self._has_started or self._has_ended or not around.hooks.session_end:
            return
        self._has_ended = True
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                event = SessionEnd(session=around.session, cwd=Path(around.cwd))
                await run_hooks(around.hooks.session_end, event, _reporter(around))

    def must_end(self, around: CallEnvironment) -> bool:
        """Return whether `end` has anything to do."""
        return self._has_started and not self._has_ended and bool(around.hooks.session_end)


def _reporter(around: CallEnvironment) -> Any:
    return lambda problem: around.emit(Notice(problem))


def _said_by_hook(text: str) -> str:
    return f"{HOOK_SAYS}{text}"
