"""Run one task in its session, from wherever an earlier attempt stopped, to its result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from outrider.batches.metering import Meter
from outrider.batches.queue import LOG_SECONDS, LONGEST_PAUSE, PAUSE, PERMANENT, Claim, Ledger, Unfinished
from outrider.batches.task import Task, TaskResult, UnknownCall, session_of
from outrider.batches.workspaces import Workspaces
from outrider.conversation.messages import Message
from outrider.errors import ConversationError, LogError, OutriderError
from outrider.log.log import Log
from outrider.runtime.agent import Agent
from outrider.runtime.deps import check_deps
from outrider.runtime.run import RunResult
from outrider.runtime.session import ONE_RUN_SECONDS, Session
from outrider.runtime.structured_output import MISSING, NO_TURNS_LEFT
from outrider.tools.approval import Approver

if TYPE_CHECKING:
    from outrider.mcp.running import RunningServers
    from outrider.mcp.session_servers import Mcp

BUDGET_SECONDS = 60.0
"""How often a task looks whether the budget of the day allows more."""
MAX_FAILURES = 3
"""How often a run is resumed that the log has ended."""
ANEW = "The worker that ran this task was stopped. The task goes on in a new workspace: earlier changes are gone."
"""What a model reads whose task goes on in another workspace."""


class Sessions(Protocol):
    """Opens the sessions of tasks."""

    def __call__(self, task: Task, id: str, meter: Meter) -> AbstractAsyncContextManager[Session]:
        """Return a context that opens the session with this id, which is created if it is new. It does not block.

        The agent is the one that the task asks for, and its provider goes through the meter. Entering
        the context raises OutriderError if the task cannot be run here.
        """


class AgentSessions:
    """Opens sessions of one agent, with the model and the limits that a task asks for."""

    def __init__(self, agent: Agent[Any], log: Log, approve: Approver | None = None, deps: Any = None) -> None:
        check_deps(agent.deps_type, deps)
        self._servers = _shared(agent.mcp)
        if self._servers:
            agent = agent.replace(mcp=self._servers)
        self._agent, self._log, self._approve, self._deps = agent, log, approve, deps

    def __call__(self, task: Task, id: str, meter: Meter) -> AbstractAsyncContextManager[Session]:
        """Open the session of a task."""
        agent = self._agent.replace(limits=task.run_limits(self._agent.limits))
        if task.model:
            agent = agent.replace(model=task.model)
        if task.effort:
            agent = agent.replace(effort=task.effort)
        agent = agent.replace(model=[meter(provider) for provider in agent.providers])
        cwd = Path(task.cwd).expanduser() if task.cwd else None
        asked = {"approve": self._approve, "deps": self._deps}
        return Session.open(self._log, id, agent, cwd=cwd, create=True, origin="batch", **asked)

    def close(self) -> None:
        """End the MCP servers that tasks have shared."""
        if self._servers:
            self._servers.close()


def _shared(mcp: Mcp) -> RunningServers | None:
    """Return servers for all tasks, if the agent describes some. Those that run already are shared anyway."""
    if not isinstance(mcp, Sequence) or not mcp:
        return None
    from outrider.mcp.running import RunningServers  # imports MCP, which most batches do not need

    return RunningServers(mcp, grace=ONE_RUN_SECONDS)


class TaskRunner:
    """Runs tasks that a queue hands out."""

    def __init__(self, sessions: Sessions, ledger: Ledger, workspaces: Path) -> None:
        """`workspaces` is a folder of this machine, for the workspaces of tasks with a repository."""
        self._sessions, self._ledger = sessions, ledger
        self._workspaces = Workspaces(workspaces)
        self._looked: dict[str, float] = {}

    async def __call__(self, claim: Claim) -> TaskResult:
        """Run a task to its result, or until it waits. Raises Unfinished if it was cancelled, or at the budget."""
        began = time.monotonic()
        task, session = claim.task, session_of(claim.batch, claim.task.id)
        try:
            result = await self._run_through(claim, session)
        except OutriderError as error:
            result = _failed(claim, session, str(error))
        except _Waiting as waiting:
            result = waiting.result
        except Unfinished:
            raise
        except Exception as error:  # noqa: BLE001 - one task must not end the worker
            result = _failed(claim, session, f"internal error: {type(error).__name__}: {error}")
        return msgspec.structs.replace(
            result, attempts=claim.attempt, metadata=task.metadata, seconds=round(time.monotonic() - began, 3)
        )

    async def _run_through(self, claim: Claim, id: str) -> TaskResult:
        """Run the task, and resume it as long as the log fails for the moment."""
        until = time.monotonic() + LOG_SECONDS
        pause, failures = PAUSE, 0
        while True:
            try:
                return await self._run(claim, id)
            except _LogFailure as failure:
                failures += 1
                if failures >= MAX_FAILURES:
                    return failure.result
            except PERMANENT:
                raise
            except LogError:  # also SessionHeldError: a worker that has just died may still seem to hold it
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _run(self, claim: Claim, id: str) -> TaskResult:
        task = claim.task
        if not task.repository:
            return await self._run_in(claim, task, id, ANEW if task.image else "")
        async with self._workspaces.checkout(task.repository, task.revision, id) as workspace:
            here = msgspec.structs.replace(task, repository="", revision="", cwd=str(workspace.folder))
            return await self._run_in(claim, here, id, ANEW if workspace.is_new else "")

    async def _run_in(self, claim: Claim, task: Task, id: str, news: str = "") -> TaskResult:
        """Run the task in its folder. A session that is resumed begins with the news."""
        meter = Meter(self._ledger, claim.batch, claim.settings, self._looked)
        async with self._sessions(task, id, meter) as session:
            prompt = task.prompt if not session.messages else news if session.is_unfinished else ""
            run = _spent(session, goes_on=not prompt) or await _run_session(session, task, prompt)
            while run.status == "budget":  # of the day: it goes on tomorrow
                await asyncio.sleep(BUDGET_SECONDS)
                run = await _run_session(session, task, "")
            if run.status == "cancelled" or (run.status == "error" and meter.is_spent):
                raise Unfinished
            result = _result(session, task, run)
            if run.status == "waiting":
                raise _Waiting(result)
            if run.status == "error" and not meter.has_failed and run.error not in (MISSING, NO_TURNS_LEFT):
                raise _LogFailure(result)  # the model did not fail: what is in the log can be resumed
            return result


class _Ended(Exception):  # noqa: N818
    """A run ended, and its task has not: its workspace is kept."""

    def __init__(self, result: TaskResult) -> None:
        super().__init__(result.error)
        self.result = result


class _LogFailure(_Ended):
    """The log failed."""


class _Waiting(_Ended):
    """The session waits for an answer."""


async def _run_session(session: Session, task: Task, prompt: str) -> RunResult[Any]:
    """Run the prompt, or go on where an earlier attempt stopped.

    News let go of the calls that wait: the answers were given for a workspace that is gone.
    """
    try:
        return await _suspended_by_cancel(session, prompt, task)
    except ConversationError:
        if not session.questions:
            raise
        return await _suspended_by_cancel(session, "", task)  # there are no answers yet


async def _suspended_by_cancel(session: Session, prompt: str, task: Task) -> RunResult[Any]:
    """Run the prompt. A cancel leaves the log as a kill would, and the next worker runs what had not begun.

    The worker has ended or lost its lease; no user cancelled the calls, so no result may say that.
    """
    run = asyncio.ensure_future(session.run(prompt, output=task.schema))
    try:
        return await asyncio.shield(run)
    except asyncio.CancelledError:
        session.freeze()
        run.cancel()
        await asyncio.wait([run])
        raise


def _spent(session: Session, *, goes_on: bool) -> RunResult[Any] | None:
    """Leave the run what earlier attempts have left of its limits. Return its result if they have left nothing.

    A run that was killed or waits counts by itself if it `goes_on`.
    """
    messages = session.messages
    turns = _turns(messages)
    if not turns or not session.is_unfinished:
        return None
    limits, usage = session.agent.limits, session.total_usage
    used = {"max_turns": turns, "max_total_tokens": usage.total_tokens, "max_cost": usage.cost or 0}
    if goes_on and (run := session.open_run):
        counted = {"max_turns": run[0], "max_total_tokens": run[1].total_tokens, "max_cost": run[1].cost or 0}
        used = {name: much - counted[name] for name, much in used.items()}
    left = {name: getattr(limits, name) - much for name, much in used.items() if getattr(limits, name) is not None}
    for status in ("max_turns", "max_total_tokens", "max_cost"):
        if left.get(status, 1) <= 0:
            return RunResult(status, "", turns, usage, messages)
    session.agent = session.agent.replace(limits=msgspec.structs.replace(limits, **left))
    return None


def _result(session: Session, task: Task, run: RunResult[Any]) -> TaskResult:
    return TaskResult(
        task.id,
        run.status,
        run.text,
        run.structured_output,
        run.error or _ending(run),
        session.id,
        session.provider.name,
        _turns(run.messages),
        session.total_usage,
        unknown_calls=_unknown_calls(run.messages),
        questions=run.questions,
    )


def _ending(run: RunResult[Any]) -> str:
    sentences = {"done": "", "waiting": "it waits for an answer"}
    return sentences.get(run.status, f"stopped by the limit {run.status}")


def _failed(claim: Claim, session: str, error: str) -> TaskResult:
    return TaskResult(claim.task.id, "error", error=error, session=session)


def _turns(messages: Sequence[Message]) -> int:
    return sum(message.role == "assistant" for message in messages)


def _unknown_calls(messages: Sequence[Message]) -> tuple[UnknownCall, ...]:
    """Return the calls that were interrupted and not run again."""
    results = [result for message in messages for result in message.tool_results]
    unknown = {result.tool_use_id for result in results if result.is_unknown}
    calls = (call for message in messages for call in message.tool_calls)
    return tuple(UnknownCall(call.id, call.name) for call in calls if call.id in unknown)
