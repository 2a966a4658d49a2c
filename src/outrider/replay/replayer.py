"""Run a recorded session again, in a temporary log and without a network, and name the first difference."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from outrider.conversation.messages import Message
from outrider.errors import ConversationError, LogError, OutriderError, SchemaError, SessionCancelledError
from outrider.log import entries as kinds
from outrider.log.entries import Entry, MessageEntry
from outrider.log.log import Log
from outrider.providers.catalogue.windows import window_of
from outrider.replay.difference import Difference, Replayed, about, shown
from outrider.replay.player import PARTS, PlayedModel, PlayedTool, Player
from outrider.replay.tape import Tape, models_of
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.handoffs import TOOL as HANDOFF
from outrider.runtime.hooks import HOOK_SAYS, Hooks
from outrider.runtime.limits import Limits
from outrider.runtime.run_scope import RunScope
from outrider.runtime.session import Session
from outrider.runtime.structured_output import TOOL as REPORT
from outrider.runtime.structured_output import WRAPPED, Report
from outrider.struct_types import described
from outrider.temporary_folder import TemporaryFolder
from outrider.tools.context import SubagentTask, ToolContext
from outrider.tools.tool import Tool, make_tool

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.log.reader import LogReader

ToolsFrom: TypeAlias = Literal["recorded", "run"]


async def replay(
    log: LogReader,
    session: str,
    agent: AgentSpec[Any] | None = None,
    *,
    tools: ToolsFrom = "recorded",
    deps: Any = None,
    is_strict: bool = True,
) -> Replayed:
    """Run a recorded session again, and return the first difference from it. Nothing is sent, nor written to its log.

    Replies, decisions, queued messages and cancels come from the log, each at the place where it came. With `tools`
    "run" the tools of the agent run again, and their results are compared; "recorded" takes the results from the log.
    With an agent, its system prompt, tools and settings are compared with those that were sent, unless `is_strict` is
    False; without one, an agent is made from the log. Raises LogError if the session cannot be replayed.
    """
    if tools not in ("recorded", "run"):
        raise ValueError(f"tools is {tools!r}; it is 'recorded' or 'run'")
    if tools == "run" and agent is None:
        raise ValueError("tools='run' needs the agent whose tools run: replay(log, session, agent, tools='run')")
    return await _Replay(log, agent, tools == "run", is_strict, deps).of(log.session(session).id)


class _Replay:
    """One replay: the players of its sessions, and the first difference."""

    def __init__(
        self, log: LogReader, agent: AgentSpec[Any] | None, runs_tools: bool, is_strict: bool, deps: Any
    ) -> None:
        self.runs_tools = runs_tools
        self._source = log
        self._agent = agent
        self._deps = deps
        self._compared = PARTS if agent and is_strict else ("reminder",)
        self._difference: Difference | None = None
        self._players: dict[str, Player] = {}
        self._root: Session

    async def of(self, id: str) -> Replayed:
        folder = TemporaryFolder()
        try:
            with Log(folder.path) as log:
                player = self._player(id, self._compared)
                await self._play_root(log, player)
        finally:
            folder.remove()
        count = sum(len(each.tape) for each in self._players.values())
        return Replayed(id, count, len(self._players), self._difference)

    def _player(self, id: str, compared: tuple[str, ...]) -> Player:
        if id not in self._players:
            self._players[id] = Player(Tape(id, self._source.records(id)), self, compared)
        return self._players[id]

    async def _play_root(self, log: Log, player: Player) -> None:
        """Play the whole tape. After a recorded kill the session is opened again."""
        name, agent = player.tape.session, self._agent_for(player, self._agent)
        cwd = self._source.settings(name).cwd if self.runs_tools else None
        for kills in range(len(player.tape) + 1):
            opening = Session.open(log, name, agent, create=kills == 0, cwd=cwd, deps=self._deps)
            async with opening as session:
                self._root = session
                self._attach(player, session)
                await self._play(player)
                if self._difference or not session.is_suspended:
                    return
        self._stuck(player)

    def _attach(self, player: Player, session: Session) -> None:
        player.attach(session)
        environment = session._loop.environment
        if self.runs_tools and (open_child := environment.open_child):

            async def opened(task: SubagentTask, agent: AgentSpec[Any], approve: Any, cwd: Path | None) -> Session:
                linked = player.tape.children.get(task.call_id, ())
                if task.session not in linked:
                    self.differ(
                        player.tape.session, player.tape.seq, "sub-agent", ("session", list(linked), task.title)
                    )
                    await asyncio.Event().wait()
                child = self._player(task.session, ())
                started: Session = await open_child(task, self._agent_for(child, agent), None, cwd)
                self._attach(child, started)
                return started

            session._change_environment(open_child=opened)

    # What players need

    @property
    def has_stopped(self) -> bool:
        """Whether nothing is compared any more: there is a difference, or the recorded process was killed here."""
        return self._difference is not None or self._root.is_suspended

    def differ(self, session: str, seq: int, about: str, found: tuple[str, Any, Any]) -> None:
        """Note the first difference, and stop."""
        if self._difference is None:
            about = about.removeprefix("a ").removeprefix("the ")
            self._difference = Difference(session, seq, about, found[0], *shown(*found[1:]))
            self.stop()

    def stop(self) -> None:
        """Stop as a kill does: nothing more is written."""
        self._root.freeze()
        self._root.cancel()

    def _agent_for(self, player: Player, given: AgentSpec[Any] | None) -> AgentSpec[Any]:
        """Return the agent with the tape for its model and its tools; without one, an agent made from the tape."""
        model = self._source.session(player.tape.session).model or "recorded"
        if given is None:
            entries = player.tape.entries
            return _team(entries, tuple(_tools(entries, player)), **_played_by(player, model))
        return self._played_agent(given, player, model, {})

    def _played_agent(
        self, given: AgentSpec[Any], player: Player, model: str, done: dict[int, AgentSpec[Any]]
    ) -> AgentSpec[Any]:
        """Return the agent as the tape plays it, with all that it may hand over to. `done` has those that are known.

        An agent that several hand over to stays one agent.
        """
        if id(given) not in done:
            others = (
                each if isinstance(each, str) else self._played_agent(each, player, model, done)
                for each in given.handoffs
            )
            tools = tuple(_played(tool, player) for tool in given.tools)
            mcp = given.mcp if self.runs_tools else ()  # servers start only if the tools run
            options = _played_by(player, model, given)
            done[id(given)] = given.replace(tools=tools, mcp=mcp, compaction=None, handoffs=tuple(others), **options)
        return done[id(given)]

    async def play_child(self, context: ToolContext[Any], session: str) -> None:
        """Replay the session of a sub-agent in the place of its tool."""
        child = self._player(session, ("reminder",))
        task = context.subagent_task("replayed")
        opened: Session = await context.open_child(self._agent_for(child, None), task, None, None)
        async with opened:
            self._attach(child, opened)
            await self._play(child)

    # Playing

    async def _play(self, player: Player) -> None:
        """Do what the recorded session was asked to do, verb by verb, up to the end of the tape or a kill."""
        tape, session = player.tape, player.session
        while not self.has_stopped:
            before = tape.at
            calls = session._record.state.open_calls
            if calls and not session._record.state.is_running and tape.ends_in_calls:
                with suppress(SessionCancelledError):
                    await session.act()
                continue
            if tape.next is None:
                return
            try:
                await self._do(player, tape.next)
            except SessionCancelledError:
                pass
            except OutriderError as error:
                if not self.has_stopped:
                    self.differ(tape.session, tape.seq, about(tape.next), ("", about(tape.next), str(error)))
            if tape.at == before and not self.has_stopped:
                self._stuck(player)

    def _stuck(self, player: Player) -> None:
        entry = player.tape.next
        self.differ(player.tape.session, player.tape.seq, about(entry), ("", about(entry), "nothing"))

    async def _do(self, player: Player, entry: Entry) -> None:
        """Do what the session was asked to do when it wrote this entry."""
        tape, session = player.tape, player.session
        match entry:
            case kinds.RewindEntry():
                await _rewind(session, entry)
                tape.take()
            case kinds.CompactionEntry(reason="manual"):
                await session.compact()
            case kinds.RunCancelled():
                await _copy(player, 1)
            case _:
                await self._ask(player, entry)

    async def _ask(self, player: Player, entry: Entry) -> None:
        """Ask the model, in a run or once. What no model was asked for is copied."""
        tape, session = player.tape, player.session
        is_running = session._record.state.is_running
        said, start = tape.said()
        if start is None and said and said[-1].role == "assistant":
            await _copy(player, len(said))  # an imported conversation
        elif start and not said and not session.is_unfinished and tape.is_empty_run:
            await _copy(player, 2)  # only the type of its answer was asked for
        elif start or (is_running and not said):
            await _run(player, said, _limits(start.limits if start else {}))
        elif said or isinstance(entry, MessageEntry):
            await session.think(said or "")
        else:
            await _copy(player, 1)  # such as a request for a title that failed


async def _run(player: Player, said: list[Message], limits: Limits) -> None:
    """Run once, with the report that the recorded run was asked for. What follows it is a run of its own."""
    session = player.session
    await session._begin()
    if not (report := report_of(player.tape.requested(), session.agent)):
        await session._run(said, limits)
        return
    with session._in_scope(RunScope(report)):
        await session._run(said, limits)


async def _copy(player: Player, count: int) -> None:
    for _ in range(count):
        if entry := player.tape.next:
            await player.session._record.append(entry)


def _limits(changed: dict[str, Any]) -> Limits:
    """Return the limits of a recorded run. The clock is not replayed: its time limit stops it where it did."""
    try:
        return msgspec.convert({**changed, "max_seconds": None}, described(Limits))
    except (msgspec.ValidationError, ValueError):
        raise LogError("the log names limits that are none; the session cannot be replayed") from None


async def _rewind(session: Session, entry: kinds.RewindEntry) -> None:
    """Go back as the recorded session did, without its files."""
    if not entry.conversation:
        await session._record.append(entry)
    elif entry.undo:
        await session.undo_rewind()
    elif (done := await session.rewind(entry.to, files=False)).messages != entry.dropped:
        raise ConversationError(f"the rewind leaves out {done.messages} messages, not {entry.dropped}")


def report_of(requested: kinds.Requested, agent: AgentSpec[Any]) -> Report | None:
    """Return the report that a recorded run was asked for, by the API or by a tool that the agent itself has not."""
    tools = () if isinstance(requested.tools, msgspec.UnsetType) else requested.tools
    names = {tool.name for tool in agent.tools}
    schemas = [tool.parameters for tool in tools if tool.name == REPORT and REPORT not in names]
    if isinstance(requested.output_schema, dict):
        schemas = [requested.output_schema]
    for schema in schemas:
        inner = schema.get("properties", {}).get(WRAPPED)
        shared = {key: schema[key] for key in ("$defs", "definitions", "$schema") if key in schema}
        for each in (*([{**inner, **shared}] if isinstance(inner, Mapping) else []), schema):
            with suppress(SchemaError):
                if (report := Report(each)).tool.parameters == schema:
                    return report
    return None


def _played_by(player: Player, name: str, given: AgentSpec[Any] | None = None) -> dict[str, Any]:
    """Return the models and hooks of an agent: as many models as the recorded session went through."""
    entries = player.tape.entries
    window, least = (window_of(given.provider), 1 + len(given.fallbacks)) if given else (None, 1)
    count = max(models_of(entries), least)
    models = [PlayedModel(player, name, window) for _ in range(count)]
    stop = (player.stop_hook,) if _has_hooks(entries) else ()
    hooks = Hooks(before_tool=player.input_hook, stop=stop, subagent_stop=stop)
    return {"model": models[0], "fallbacks": tuple(models[1:]), "hooks": hooks}


def _played(tool: Tool, player: Player) -> Tool:
    """Return the tool as the tape plays it, and with it the one that its calls stand for."""
    fields = {name: getattr(tool, name) for name in Tool.__struct_fields__}
    if stands_for := tool.stands_for:

        def stands_for_played(given: dict[str, Any]) -> tuple[Tool, dict[str, Any]] | None:
            real = stands_for(given)
            return real and (_played(real[0], player), real[1])

        fields["stands_for"] = stands_for_played
    return PlayedTool(**fields, play=player.play)


def _tools(entries: list[Entry], player: Player) -> Iterator[Tool]:
    """Yield a tool for each name that was offered or called, with the effect that its calls had."""
    effects: dict[str, Any] = {}
    names: dict[str, str] = {}
    for entry in entries:
        if isinstance(entry, kinds.Requested) and not isinstance(entry.tools, msgspec.UnsetType):
            effects |= {spec.name: effects.get(spec.name, "write") for spec in entry.tools}
        elif isinstance(entry, MessageEntry):
            names |= {call.id: call.name for call in entry.message.tool_calls}
        elif isinstance(entry, kinds.Intent):
            effects[names.get(entry.call_id, entry.name)] = entry.effect

    async def nothing(**arguments: Any) -> str:
        return ""

    for name, effect in effects.items():
        with suppress(OutriderError):  # a foreign log may name anything
            made = make_tool(
                nothing, name=name, description="", effect=effect, schema={"type": "object"}, built_in=True
            )
            yield _played(made, player)


def _team(entries: list[Entry], tools: tuple[Tool, ...], **options: Any) -> AgentSpec[Any]:
    """Return the agent that begins, with those that it hands over to."""
    reached = [each.handoff for each in entries if isinstance(each, kinds.CallResult) and each.handoff]
    former = [each.former for each in entries if isinstance(each, kinds.SessionSettings) and each.agent and each.former]
    first = former[0] if former else "agent"
    names = [name for name in dict.fromkeys([*reached, *former]) if name and name != first]
    if not names:
        return AgentSpec(tools=tools, name=first, compaction=None, **options)
    options |= {"tools": tuple(tool for tool in tools if tool.name != HANDOFF), "compaction": None}
    others = [AgentSpec(name=each, handoffs=(first, *(n for n in names if n != each)), **options) for each in names]
    return AgentSpec(name=first, handoffs=tuple(others), **options)


def _has_hooks(entries: list[Entry]) -> bool:
    said = (each.message for each in entries if isinstance(each, MessageEntry) and each.message.role == "user")
    return any(message.text.startswith(HOOK_SAYS) for message in said)
