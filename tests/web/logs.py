"""Sessions for the tests of the page, made by the real runtime with a scripted model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outrider import Agent, Session, ToolResult, tool
from outrider.conversation.attachments import Attachment
from outrider.conversation.usage import Usage
from outrider.log.log import Log
from outrider.log.session_filter import Origin
from outrider.testing import ScriptedModel

USAGE = Usage(12_400, 830, 9_100, cost=0.0431)


async def session(
    log: Log,
    prompt: str,
    steps: Sequence[Any],
    *,
    tools: Sequence[Any] = (),
    cwd: Path | str = "/",
    usage: Usage = USAGE,
    origin: Origin = "chat",
) -> str:
    """Run a session to its end and return its id."""
    agent = Agent(model=ScriptedModel(steps, usage=usage), tools=tools)
    with Session.open(log, agent=agent, cwd=cwd, origin=origin) as opened:
        result = await opened.run(prompt)
        assert result.status == "done", result.error
        return opened.id


async def again(log: Log, name: str, prompt: str, steps: Sequence[Any], **given: Any) -> None:
    """Continue a session."""
    with Session.open(log, name, agent=Agent(model=ScriptedModel(steps, usage=USAGE), **given)) as opened:
        assert (await opened.run(prompt)).status == "done"


def prints(text: str, *files: Attachment, details: Any = None) -> Any:
    """Return a tool that prints a text and attaches files."""

    @tool
    def look() -> ToolResult:
        """Look."""
        return ToolResult(text, attachments=list(files), details=details)

    return look
