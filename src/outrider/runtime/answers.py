"""One question to an agent, and its answer: text, data that satisfies a JSON Schema, or a value of a Python type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from outrider.conversation.prompt import Prompt
from outrider.conversation.store import AttachmentStore
from outrider.errors import AnswerError
from outrider.runtime.agent import Agent
from outrider.runtime.events import Event
from outrider.runtime.run import RunResult
from outrider.runtime.session import Session
from outrider.runtime.structured_output import Report, run_to_report
from outrider.tools.approval import Approver

WITHOUT_ANSWER = "the agent was asked, and ended without an answer"


async def answer(
    agent: Agent,
    prompt: Prompt,
    output: Any = None,
    *,
    cwd: str | Path | None = None,
    store: AttachmentStore | None = None,
    observer: Callable[[Event], None] | None = None,
    approve: Approver | None = None,
) -> Any:
    """What the agent answers, in a session of its own. Raises AnswerError, which has the run, if nothing comes."""
    report = None if output is None else Report(output)
    if report:
        agent = msgspec.structs.replace(agent, model=agent.provider, tools=[*agent.tools, report.tool])
    session = Session(agent, store=store, cwd=cwd, observer=observer, approve=approve)
    result = await (run_to_report(session, report, prompt) if report else session.run(prompt))
    if report and report.has_data:
        return report.value
    if result.status != "done":
        raise AnswerError(_without_answer(result), result)
    return result.text


def _without_answer(result: RunResult) -> str:
    sentence = f"{WITHOUT_ANSWER} ({result.status})"
    limit = result.status.removeprefix("max_")
    if limit != result.status:
        return f"{sentence}; allow more with Limits({limit}=…), or go on from the `result` of this error"
    return f"{sentence}: {result.error}" if result.error else sentence
