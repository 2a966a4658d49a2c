"""An agent: a model with its instructions, tools and limits, and the verbs that put it to work."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from outrider.conversation.codec import MessageLike
from outrider.conversation.messages import ToolResultBlock
from outrider.conversation.prompt import Prompt
from outrider.conversation.store import AttachmentStore
from outrider.providers.base import CacheLifetime, Effort
from outrider.providers.resolution import Models
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.budget import Budget
from outrider.runtime.compaction import Compaction
from outrider.runtime.deps import check_deps_type, check_tool_deps
from outrider.runtime.events import Event
from outrider.runtime.goal import Until
from outrider.runtime.hooks import Hooks
from outrider.runtime.limits import Limits
from outrider.runtime.retry import Retry
from outrider.runtime.run import RunResult
from outrider.runtime.run_scope import ModelOptions, RunOptions, check_options
from outrider.runtime.session import ONE_RUN_SECONDS, AnyObserver, Session
from outrider.runtime.system_prompt import SystemFunction
from outrider.runtime.turn import Turn, act_in, take_turn
from outrider.tools.approval import Approver
from outrider.tools.context import DepsT
from outrider.tools.server_tool import ServerTool

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.mcp.session_servers import Mcp
    from outrider.runtime.structured_output import OutputForm
    from outrider.skills.skill import Skill

T = TypeVar("T")


class OneTurn(ModelOptions, Generic[DepsT], total=False):
    """What `think` of an agent takes for the session of its own."""

    store: AttachmentStore | None
    """Where the files of the conversation are; without one, in the data folder."""
    cwd: str | Path | None
    """The folder that tools work in; the current one by default."""
    observer: AnyObserver | None
    """Is called with each event."""
    deps: DepsT | None
    """The dependencies of the tools and of the system prompt."""


class OneRun(OneTurn[DepsT], Generic[DepsT], total=False):
    """What `run`, `stream` and `ask` of an agent take for the session of their own."""

    limits: Limits | None
    """Where the run stops, instead of the agent's limits."""
    until: Until | None
    """The goal: an async function that returns True once it is reached."""
    approve: Approver | None
    """Decides before each call whether it may run."""


class Agent(AgentSpec[DepsT], Generic[DepsT], frozen=True, dict=True):
    """A frozen description of an agent: a model, its instructions, its tools and its limits.

    `think`, `run`, `stream` and `ask` each use a session of their own; `session` opens one that goes on. `Agent[Deps]`
    is an agent with `deps_type=Deps`: its runs or its sessions get `deps`, and its tools have them in
    `ToolContext[Deps]`.

    >>> def shout(text: str) -> str:
    ...     "Say it louder."
    ...     return text.upper()
    >>> Agent("demo", tools=[shout]).tools[0].description
    'Say it louder.'
    """

    if TYPE_CHECKING:  # functions are accepted as tools, and are tools afterwards

        def __init__(
            self,
            model: Models,
            *,
            system: str | SystemFunction[DepsT] = "",
            situation: str = "",
            tools: Iterable[Callable[..., Any]] = (),
            server_tools: Iterable[ServerTool] = (),
            mcp: Mcp = (),
            skills: Iterable[Skill | str | Path] = (),
            hooks: Hooks = ...,
            limits: Limits = ...,
            budget: Budget = ...,
            compaction: Compaction | None = ...,
            retry: Retry = ...,
            name: str = "agent",
            description: str = "",
            handoffs: Iterable[AgentSpec[Any] | str] = (),
            deps_type: type[DepsT] | None = None,
            effort: Effort | None = None,
            temperature: float | None = None,
            max_tokens: int | None = None,
            tool_choice: str | None = None,
            keeps_on_task: bool = False,
            options: Mapping[str, Any] = ...,
            cache: CacheLifetime | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        check_deps_type(self.deps_type)
        check_tool_deps(self.deps_type, self.tools)
        if self.handoffs:
            from outrider.runtime.handoffs import team_of  # few agents hand over

            team_of(self)

    def session(
        self,
        messages: Iterable[MessageLike] = (),
        *,
        store: AttachmentStore | None = None,
        cwd: str | Path | None = None,
        observer: AnyObserver | None = None,
        approve: Approver | None = None,
        deps: DepsT | None = None,
    ) -> Session[DepsT]:
        """Open a session in memory, with the messages of an earlier conversation if there are any."""
        return Session(self, messages, store=store, cwd=cwd, observer=observer, approve=approve, deps=deps)

    async def think(
        self,
        prompt: Prompt,
        *,
        tool_results: Iterable[ToolResultBlock | Mapping[str, Any]] | None = None,
        **options: Unpack[OneTurn[DepsT]],
    ) -> Turn:
        """Ask the model once. Its calls do not run: `act` does that, and `tool_results` has the answers.

        The prompt may be a conversation: `think([*turn.conversation, "And then?"])` continues, and
        `think(turn.conversation, tool_results=…)` gives the results of its calls. The whole conversation is sent, in
        one request; ContextExceededError is raised if it is too long. `options` are the fields of `OneTurn`.

        >>> import asyncio
        >>> asyncio.run(Agent("demo").think("What is 2+2?")).text
        '4'
        """
        check_options("Agent.think", options, ("tool_results", *OneTurn.__annotations__))
        given: dict[str, Any] = {**options}
        settings = {name: given.pop(name) for name in ModelOptions.__annotations__ if name in given}
        session = self.replace(compaction=None).session(**given)
        session.wait_for_servers(ONE_RUN_SECONDS)
        async with session:
            return await take_turn(session, prompt, tool_results, **settings)

    async def act(
        self,
        turn: Turn,
        *,
        deps: DepsT | None = None,
        approve: Approver | None = None,
        cwd: str | Path | None = None,
        store: AttachmentStore | None = None,
    ) -> list[ToolResultBlock]:
        """Run the calls of a turn with the agent's tools. Return the results, for `think(tool_results=…)`.

        >>> import asyncio
        >>> turn = asyncio.run(Agent("demo").think("What is 2+2?"))
        >>> asyncio.run(Agent("demo").act(turn))
        []
        """
        session = self.session(turn.conversation, deps=deps, approve=approve, cwd=cwd, store=store)
        session.wait_for_servers(ONE_RUN_SECONDS)
        async with session:
            return await act_in(session)

    def _one_run(self, options: OneRun[DepsT]) -> tuple[Session[DepsT], dict[str, Any]]:
        """Open a session for one run. Return it with the options of the run."""
        check_options("a run of an agent", options, ("output", *OneRun.__annotations__))
        given: dict[str, Any] = {**options}
        of_run = {name: given.pop(name) for name in RunOptions.__annotations__ if name in given}
        session = self.session(**given)
        session.wait_for_servers(ONE_RUN_SECONDS)
        return session, of_run

    @overload
    async def run(self, prompt: Prompt, *, output: None = None, **options: Unpack[OneRun[DepsT]]) -> RunResult[str]: ...
    @overload
    async def run(self, prompt: Prompt, *, output: type[T], **options: Unpack[OneRun[DepsT]]) -> RunResult[T]: ...
    @overload
    async def run(self, prompt: Prompt, *, output: OutputForm, **options: Unpack[OneRun[DepsT]]) -> RunResult[Any]: ...
    async def run(self, prompt: Prompt, *, output: Any = None, **options: Unpack[OneRun[DepsT]]) -> RunResult[Any]:
        """Let the model work with its tools until it is done. Model and tool failures set `status`; they do not raise.

        `output` is a Python type, of which `result.output` is a value, or a JSON Schema, for which it is decoded JSON;
        without it `result.output` is the text. `options` are the fields of `OneRun`.

        >>> import asyncio
        >>> asyncio.run(Agent("demo").run("What is 2+2?")).output
        '4'
        """
        session, of_run = self._one_run(options)
        async with session:
            result: RunResult[Any] = await session.run(prompt, output=output, **of_run)
            return result

    async def stream(
        self, prompt: Prompt, *, output: Any = None, **options: Unpack[OneRun[DepsT]]
    ) -> AsyncGenerator[Event, None]:
        """Run, and yield each event as it happens; the last one is `RunFinished`. Leaving early cancels the run."""
        session, of_run = self._one_run(options)
        async with session:
            events = session.stream(prompt, output=output, **of_run)
            try:
                async for event in events:
                    yield event
            finally:
                await events.aclose()

    @overload
    async def ask(self, prompt: Prompt, output: None = None, **options: Unpack[OneRun[DepsT]]) -> str: ...
    @overload
    async def ask(self, prompt: Prompt, output: type[T], **options: Unpack[OneRun[DepsT]]) -> T: ...
    @overload
    async def ask(self, prompt: Prompt, output: OutputForm, **options: Unpack[OneRun[DepsT]]) -> Any: ...
    async def ask(self, prompt: Prompt, output: Any = None, **options: Unpack[OneRun[DepsT]]) -> Any:
        """Return `output` of `run(prompt, output=output)`. Raises RunError if there is none; its `result` is the run.

        >>> import asyncio
        >>> asyncio.run(Agent("demo").ask("What is 2+2?"))
        '4'
        """
        return (await self.run(prompt, output=output, **options)).output
