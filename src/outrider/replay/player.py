"""Plays a tape in a session: what a model, a person and tools did comes from the log, at the place where it came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import msgspec

from outrider.conversation.messages import TextBlock, ToolUseBlock
from outrider.errors import BudgetError, ProviderError, RequestRefusedError
from outrider.log import entries as kinds
from outrider.log.entries import Entry
from outrider.log.questions import body_of
from outrider.log.requests import told
from outrider.log.state import KILLED
from outrider.providers.base import Reply, Request
from outrider.providers.deltas import Delta, TextDelta
from outrider.replay.difference import about, entry_difference, messages_difference, parts_of, request_difference
from outrider.replay.tape import Tape, is_reply, is_step, reply_of
from outrider.runtime.compactor import Compactor
from outrider.runtime.events import Compacted, CompactionReason
from outrider.runtime.hooks import HOOK_SAYS, BeforeTool, HookResult
from outrider.runtime.waits import Parked, Waits
from outrider.tools.approval import Allow, Decision, Defer, Deny
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from outrider.runtime.session import Session

PARTS = ("system", "tools", "server_tools", "settings", "output_schema", "reminder")
"""What a request has beside its messages."""
AT_ONCE = 4
"""Attempts that follow each other without a delay; the entries of later ones are copied."""
_INTERRUPTED = ("cancelled", "max_seconds")


class Host(Protocol):
    """What the sessions of one replay share."""

    runs_tools: bool

    def differ(self, session: str, seq: int, about: str, found: tuple[str, Any, Any]) -> None:
        """Note a difference, and stop the replay."""

    def stop(self) -> None:
        """Stop as a kill does."""

    @property
    def has_stopped(self) -> bool:
        """Whether nothing is compared any more: there is a difference, or the recorded process was killed here."""

    async def play_child(self, context: ToolContext[Any], session: str) -> None:
        """Replay the session of a sub-agent."""


class Player:
    """Stands for the model, the person, the tools and the clock of one session."""

    def __init__(self, tape: Tape, host: Host, compared: Sequence[str]) -> None:
        self.tape = tape
        self._host = host
        self._compared = compared
        """The parts of requests that are compared beside the messages."""
        self.session: Session

    def attach(self, session: Session) -> None:
        """Take the place of what the session works with."""
        self.session = session
        session._record.amend = self.keep
        loop = session._loop
        loop.compactor = PlayedCompactor(session._record, loop.model, loop.environment.cwd, self.tape)
        session._change_environment(approve=self.approve, waits=PlayedWaits(session._record))
        loop.model.admit = self._admit  # type: ignore[method-assign]

    async def _admit(self) -> None:
        """Refuse a request where the budget of a day did."""
        match self.tape.next:
            case kinds.RunStopped(status="budget", error=error):
                raise BudgetError(error)

    # The model

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        """Yield the recorded reply, or fail, or stop where the recorded request did."""
        tape = self.tape
        if outside := tape.outside():
            await self.session._record.append(*outside)
        await self._fail_as_recorded()
        wanted = tape.next
        if isinstance(wanted, kinds.MessageEntry) and wanted.message.role == "assistant":
            self._compare_request(request)
            if not wanted.stop_reason:
                yield TextDelta(wanted.message.text)
                await self._interrupt(tape.following(kinds.MessageEntry))
            yield reply_of(wanted)
            return
        match wanted:
            case kinds.RunCancelled():
                await self._interrupt(wanted)
            case kinds.RunStopped(status=status) if status in _INTERRUPTED:
                await self._interrupt(wanted)
            case kinds.RunStopped(status="error", error=error):
                raise RequestRefusedError(error, status=400)  # no other model follows
            case kinds.SessionSettings(reason=reason):
                raise ProviderError(reason or "it could not answer", status=500)
            case None | kinds.RunStarted() | kinds.RewindEntry() | kinds.MessageEntry() | kinds.CompactionEntry():
                await self._kill()
        self._differ("request", ("", about(wanted), "a request to the model"))
        await self._forever()

    async def _fail_as_recorded(self) -> None:
        """Fail as the request did. The entries of long retries are copied, so that nothing waits."""
        while isinstance(failed := self.tape.next, kinds.AttemptFailed):
            if failed.delay is not None and failed.attempt > AT_ONCE:
                await self.session._record.append(failed)
                continue
            if failed.reason == "cancelled":
                await self.session._record.append(failed)
                await self._interrupt(self.tape.next)
            is_retried = failed.delay is not None
            error = ProviderError(failed.reason, retryable=is_retried, retry_after=0.0 if is_retried else None)
            error.usage = failed.usage
            error.status = 500 if isinstance(self.tape.following(kinds.AttemptFailed), kinds.SessionSettings) else None
            raise error

    def _compare_request(self, request: Request) -> None:
        state = self.tape.state()
        if found := messages_difference(state.history.sendable(), request.messages):
            self._differ("request", found)
        requested, live = state.requested, told(request)
        if requested is None or self._host.has_stopped:
            return
        recorded, replayed = parts_of(requested, self._compared), parts_of(live, self._compared)
        if (replayed.get("reminder") or "").partition(".")[0] in (recorded.get("reminder") or ""):
            recorded["reminder"] = replayed["reminder"] = ""  # a mode of the session, or a tool, may have said more
        if found := request_difference(recorded, replayed):
            self._differ("request", found)

    # Stopping

    async def _interrupt(self, end: Entry | None) -> NoReturn:
        """Stop the run as it was stopped: by a cancel, or by its time limit."""
        if isinstance(end, kinds.RunStopped) and end.status == "max_seconds":
            loop = self.session._loop
            loop.change_limits(msgspec.structs.replace(loop.limits, max_seconds=1e-9))
        else:
            self.session.cancel()
        await self._forever()

    async def _kill(self) -> NoReturn:
        self._host.stop()
        await self._forever()

    async def _forever(self) -> NoReturn:
        while True:  # the caller is being cancelled
            await asyncio.Event().wait()

    def _differ(self, about: str, found: tuple[str, Any, Any]) -> None:
        self._host.differ(self.tape.session, self.tape.seq, about, found)

    async def stop_hook(self, event: Any) -> HookResult | None:
        """Keep the run going where a hook did."""
        entry = self.tape.next
        if isinstance(entry, kinds.MessageEntry) and entry.message.text.startswith(HOOK_SAYS):
            return HookResult(block=entry.message.text.removeprefix(HOOK_SAYS))
        return None

    async def input_hook(self, event: BeforeTool) -> HookResult | None:
        """Give a call the arguments that it ran with, which a hook may have changed. Those of people come later."""
        intent = self.tape.intents.get(event.call_id)
        return HookResult(input=intent.input) if intent and not intent.is_edited else None

    # Calls

    async def approve(self, use: ToolUseBlock, tool: Tool) -> Decision:
        """Decide about a call as it was decided."""
        if (asked := self._waits(use.id, "approval")) and (body := body_of(asked.question)):
            raise Defer(body)
        if intent := self.tape.intents.get(use.id):
            return Allow(input=intent.input if intent.is_edited else None)
        await self._stop_in_calls(use.id)
        if (result := self.tape.results.get(use.id)) and not result.result.is_error:
            self._differ(f"call {use.name}", ("", None, use.input))
        return self._denial(use, tool)

    def _denial(self, use: ToolUseBlock, tool: Tool) -> Deny:
        """Deny a call that was not run, with the same words."""
        recorded, denied = self.tape.results.get(use.id), f"{tool.name} was not run: "
        if recorded is None or not recorded.result.text.startswith(denied):
            return Deny("the recorded call did not run")
        return Deny(recorded.result.text.removeprefix(denied), ends_run=recorded.final)

    async def play(self, context: ToolContext[Any]) -> bool:
        """Do what a call did beside its result. Return whether the tool itself runs."""
        call = context.call_id
        if not self._host.runs_tools:
            for child in self.tape.children.get(call, ()):
                await self._host.play_child(context, child)
        if asked := self._waits(call, "call"):
            raise Parked([asked])
        if self._waits(call, "result"):
            raise Defer
        await self._stop_in_calls(call)
        result = self.tape.results.get(call)
        if result is None and is_reply(self.tape.next):
            self._differ(f"result of {self._name(call)}", ("", None, "a result"))
        if result is None or result.result.text.startswith(KILLED):
            await self._answered_before(call)
            await self._kill()
        return self._host.runs_tools and not result.result.is_unknown

    async def _answered_before(self, call: str) -> None:
        """Wait for the results of the other calls that the recorded process stored before it was killed."""
        state, results = self.session._record.state, [*self.tape.results]
        before = results[: results.index(call)] if call in self.tape.results else []
        wanted = {each.id for each in state.calls} & set(before)
        wanted = {each for each in wanted if not self.tape.results[each].result.text.startswith(KILLED)}
        while not wanted <= state.answers.keys() and not self._host.has_stopped:  # noqa: ASYNC110 - it is soon over
            await asyncio.sleep(0)

    def _waits(self, call: str, what: str) -> kinds.Asked | None:
        """Return the first question that a part of a call waited for, and that has no answer yet."""
        waits = self.session._loop.environment.waits
        found = (each for each in self.tape.asked.get(call, ()) if each.waits == what)
        return next((each for each in found if waits and not waits.answer_to(each.id)), None)

    async def _stop_in_calls(self, call: str) -> None:
        """Stop the run here, if the recorded one was stopped while the calls of this reply ran."""
        state, end = self.session._record.state, self.tape.next
        begun = [each.id for each in state.calls if each.id in self.tape.intents]
        if call != (begun[-1] if begun else state.calls[0].id):
            return
        if isinstance(end, kinds.RunCancelled) and not state.is_running:
            await self._interrupt(end)
        turns = state.run.turns if state.run else 0
        if isinstance(end, kinds.RunStopped) and end.status in _INTERRUPTED and end.turns <= turns:
            await self._interrupt(end)

    # Entries

    def keep(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return what is stored for entries of the replay, each compared with the recorded one."""
        return [kept for entry in entries for kept in self._kept(entry)]

    def _kept(self, entry: Entry) -> Sequence[Entry]:
        if self._host.has_stopped:
            return [entry]
        match entry:
            case kinds.Requested() | kinds.SnapshotEntry():
                return []  # those of the log are copied
            case kinds.Decided(question=question):
                return [entry] if question else []
            case kinds.Asked(call_id=call, waits=waits):
                known = self.tape.asked[call]
                same = [each for each in known if each.id == entry.id] or [
                    each for each in known if each.waits == waits
                ]
                return same[:1] or [entry]
            case kinds.Intent(call_id=call, name=name):
                return self._of_call(entry, self.tape.intents.get(call), f"call {name}")
            case kinds.CallResult(result=result):
                recorded = self.tape.results.get(result.tool_use_id)
                return self._of_call(entry, recorded, f"result of {self._name(result.tool_use_id)}")
        return self._step(entry) if is_step(entry) else [entry]

    def _of_call(self, entry: Entry, recorded: Entry | None, about: str) -> Sequence[Entry]:
        """Compare what a call did. If the tools do not run, it is what the log says."""
        if recorded is None:
            self._differ(about, ("", None, entry))
            return [entry]
        is_ours = self._host.runs_tools and not (isinstance(recorded, kinds.CallResult) and recorded.result.is_unknown)
        if is_ours and (found := entry_difference(_unhooked(recorded), _unhooked(entry))):
            self._differ(about, found)
        return [recorded]

    def _name(self, call: str) -> str:
        calls = self.session._record.state.calls
        return next((each.name for each in calls if each.id == call), call)

    def _step(self, entry: Entry) -> Sequence[Entry]:
        wanted = self.tape.next
        if wanted is None or type(wanted) is not type(entry) or _role(wanted) != _role(entry):
            self._differ(about(entry), ("", about(wanted), about(entry)))
            return [entry]
        entry = _with_recorded(entry, wanted)
        if found := entry_difference(wanted, entry):
            self._differ(about(wanted), found)
            return [entry]
        before = self.tape.take()
        return [*before, wanted, *self.tape.during_calls()]


class PlayedWaits(Waits):
    """Lets a session wait for the answers that its tape has, and for no others."""

    async def take(self) -> None:
        """Take nothing: the answers come with the tape."""

    async def _keep(self, questions: Sequence[kinds.Asked]) -> None:
        """Show the questions to no one."""


class PlayedModel:
    """The model of a session that is replayed."""

    passes_assertions = True

    def __init__(self, player: Player, name: str, window: int | None = None) -> None:
        self.name = name
        self.window = window
        self.stream = player.stream
        self._player = player

    def enforces(self, schema: Mapping[str, Any], *, with_tools: bool) -> bool:
        """Return whether the recorded API held the next answer to a schema."""
        return bool(self._player.tape.requested().output_schema)


class PlayedTool(Tool, frozen=True):
    """A tool that asks the tape first."""

    play: Callable[[ToolContext[Any]], Awaitable[bool]] | None = None

    async def invoke(self, arguments: dict[str, Any], context: ToolContext[Any]) -> ToolResult:
        """Run the function, unless its results come from the log."""
        if self.play is None or await self.play(context):
            return await super().invoke(arguments, context)
        return ToolResult("")


class PlayedCompactor(Compactor):
    """Shortens the conversation where the recorded session did, with the same summary."""

    def __init__(self, record: Any, model: Any, cwd: Any, tape: Tape) -> None:
        super().__init__(record, model, cwd)
        self._tape = tape

    async def make_room(self) -> None:
        """Take the recorded shortenings that come before the next reply, and the requests that failed for them."""
        while self._is_shortened():
            await self._shorten()

    def _is_shortened(self) -> bool:
        following = self._tape.following(kinds.AttemptFailed)
        is_compacted = isinstance(following, kinds.CompactionEntry) and following.reason != "manual"
        return is_compacted or isinstance(following, kinds.ResultsClearedEntry)

    async def _shorten(self) -> kinds.Entry:
        await self._record.load()
        while isinstance(entry := self._tape.next, kinds.AttemptFailed):
            await self._record.append(entry)
        assert entry is not None
        await self._record.append(entry)
        self._view_changed()
        return entry

    async def compact(self, reason: CompactionReason, focus: str = "") -> Compacted:
        """Take the recorded summary."""
        entry = await self._shorten()
        assert isinstance(entry, kinds.CompactionEntry)
        return Compacted(reason, entry.tokens_before, entry.tokens_after, entry.summary.text, entry.usage)


def _unhooked(entry: Entry) -> Entry:
    """Return an entry without what hooks have added to the result of a call: they are not called again."""
    if not isinstance(entry, kinds.CallResult):
        return entry
    content = entry.result.content
    kept = tuple(each for each in content if not (isinstance(each, TextBlock) and each.text.startswith(HOOK_SAYS)))
    return msgspec.structs.replace(entry, result=msgspec.structs.replace(entry.result, content=kept))


def _role(entry: Entry) -> str:
    return entry.message.role if isinstance(entry, kinds.MessageEntry) else ""


def _with_recorded(entry: Entry, wanted: Entry) -> Entry:
    """Return an entry with what only the world could know: how long a run may take, what a failed request said."""
    match entry, wanted:
        case kinds.RunStarted(limits=limits), kinds.RunStarted(limits=recorded) if "max_seconds" in recorded:
            return msgspec.structs.replace(entry, limits={**limits, "max_seconds": recorded["max_seconds"]})
        case kinds.RunStopped(status="error"), kinds.RunStopped(status="error", error=error):
            return msgspec.structs.replace(entry, error=error)
        case kinds.RunStopped(status="cancelled"), kinds.RunStopped(status="cancelled", turns=0):
            return wanted  # it was cancelled before its first request, or is the end of a fork
        case kinds.MessageEntry(stop_reason=""), kinds.MessageEntry(stop_reason="", usage=usage):
            return msgspec.structs.replace(entry, usage=usage)
        case kinds.AttemptFailed(), _:
            return wanted
        case kinds.SessionSettings(agent=agent), kinds.SessionSettings(agent=recorded) if agent == recorded:
            return wanted
    return entry
