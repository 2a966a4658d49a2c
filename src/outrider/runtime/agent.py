"""An agent: a model with its instructions, tools and limits, and the verbs that put it to work."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from outrider.conversation.codec import MessageLike
from outrider.conversation.prompt import Prompt
from outrider.conversation.store import AttachmentStore
from outrider.providers.base import Effort, Provider
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.compaction import Compaction
from outrider.runtime.events import Event
from outrider.runtime.hooks import Hooks
from outrider.runtime.limits import Limits
from outrider.runtime.observers import AnyObserver
from outrider.runtime.retry import Retry
from outrider.runtime.run import RunResult
from outrider.runtime.session import ONE_RUN_SECONDS, Session
from outrider.tools.approval import Approver
from outrider.tools.server_tool import ServerTool

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.runtime.session_servers import Mcp
    from outrider.skills.skill import Skill

T = TypeVar("T")


class Agent(AgentSpec, frozen=True, dict=True):
    """A frozen description of an agent: a model, its instructions, its tools and its limits.

    `run`, `stream` and `ask` each use a session of their own; `session` opens one that goes on.

    >>> def shout(text: str) -> str:
    ...     "Say it louder."
    ...     return text.upper()
    >>> Agent("demo", tools=[shout]).tools[0].description
    'Say it louder.'
    """

    if TYPE_CHECKING:  # functions are accepted as tools, and are tools afterwards

        def __init__(
            self,
            model: str | Provider,
            *,
            system: str = "",
            situation: str = "",
            tools: Iterable[Callable[..., Any]] = (),
            server_tools: Iterable[ServerTool] = (),
            mcp: Mcp = (),
            skills: Iterable[Skill | str | Path] = (),
            hooks: Hooks = ...,
            limits: Limits = ...,
            compaction: Compaction | None = ...,
            retry: Retry = ...,
            name: str = "agent",
            deps: Any = None,
            effort: Effort | None = None,
            temperature: float | None = None,
            max_tokens: int | None = None,
            tool_choice: str | None = None,
            options: Mapping[str, Any] = ...,
        ) -> None: ...

    def session(
        self,
        messages: Iterable[MessageLike] = (),
        *,
        store: AttachmentStore | None = None,
        cwd: str | Path | None = None,
        observer: AnyObserver | None = None,
        approve: Approver | None = None,
    ) -> Session:
        """Open a session in memory, with the messages of an earlier conversation if there are any."""
        return Session(self, messages, store=store, cwd=cwd, observer=observer, approve=approve)

    def _one_run(self, **options: Any) -> Session:
        session = self.session(**options)
        session.wait_for_servers(ONE_RUN_SECONDS)
        return session

    async def run(
        self,
        prompt: Prompt,
        *,
        store: AttachmentStore | None = None,
        cwd: str | Path | None = None,
        observer: AnyObserver | None = None,
        approve: Approver | None = None,
    ) -> RunResult:
        """Let the model work with its tools until it is done. Model and tool failures set `status`; they do not raise.

        >>> import asyncio
        >>> asyncio.run(Agent("demo").run("What is 2+2?")).text
        '4'
        """
        async with self._one_run(store=store, cwd=cwd, observer=observer, approve=approve) as session:
            return await session.run(prompt)

    async def stream(
        self,
        prompt: Prompt,
        *,
        store: AttachmentStore | None = None,
        cwd: str | Path | None = None,
        approve: Approver | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Run, and yield each event as it happens; the last one is `RunFinished`. Leaving early cancels the run."""
        async with self._one_run(store=store, cwd=cwd, approve=approve) as session:
            events = session.stream(prompt)
            try:
                async for event in events:
                    yield event
            finally:
                await events.aclose()

    @overload
    async def ask(
        self,
        prompt: Prompt,
        *,
        cwd: str | Path | None = None,
        store: AttachmentStore | None = None,
        observer: AnyObserver | None = None,
        approve: Approver | None = None,
    ) -> str: ...
    @overload
    async def ask(
        self,
        prompt: Prompt,
        output: type[T],
        *,
        cwd: str | Path | None = None,
        store: AttachmentStore | None = None,
        observer: AnyObserver | None = None,
        approve: Approver | None = None,
    ) -> T: ...
    @overload
    async def ask(
        self,
        prompt: Prompt,
        output: Any,
        *,
        cwd: str | Path | None = None,
        store: AttachmentStore | None = None,
        observer: AnyObserver | None = None,
        approve: Approver | None = None,
    ) -> Any: ...
    async def ask(self, prompt: Prompt, output: Any = None, **options: Any) -> Any:
        """Ask, and return the answer: text, or what `output` describes.

        `output` is a Python type, of which a value comes back, or a JSON Schema, for which decoded JSON does. Raises
        RunError if no answer comes; its `result` has the run.

        >>> import asyncio
        >>> asyncio.run(Agent("demo").ask("What is 2+2?"))
        '4'
        """
        if output is None:
            async with self._one_run(**options) as session:
                result = await session.run(prompt)
            result.raise_for_status()
            return result.text
        from outrider.runtime.structured_output import Report, run_to_report  # imports the schemas of types

        report = Report(output)
        reporter = report.attached_to(self.replace(model=self.provider))
        async with reporter._one_run(**options) as session:
            result = await run_to_report(session, report, prompt)
        if not report.has_data:
            result.raise_for_status()
        return report.value
