"""The tools of a session whose calls run in the hands, decisions about these calls, and background commands there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import msgspec

from outrider.coding.hands.connection import Begun, HandsConnection
from outrider.coding.hands.link import Exchange, ReceivedFile
from outrider.coding.hands.protocol import CommandState
from outrider.coding.hands.requests import (
    HANDS_TOOLS,
    CallToDo,
    Done,
    EndCommand,
    FileInfo,
    FollowOutput,
    Judge,
    Judged,
    MoveRunning,
    ReadOutput,
    Run,
    Stance,
)
from outrider.coding.permissions.decision import Decision
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.question import Grant, PendingCall, Preview
from outrider.coding.permissions.rules import Rule
from outrider.coding.project_texts import MAX_BYTES, ProjectText
from outrider.coding.system_prompt import NewInstructions
from outrider.coding.toolbox.background_commands import BackgroundCommand, BackgroundCommands, OutputReader
from outrider.conversation.attachments import Attachment, OpenFile
from outrider.errors import ConfigError, HandsError, HandsLostError
from outrider.processes.processes import Process
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool

_SECONDS = 30.0


class CommandElsewhere(BackgroundCommand):
    """One command. Its state is what the hands said last."""

    def __init__(self, connection: HandsConnection, state: CommandState) -> None:
        super().__init__(state.number, state.command, cast(Process, None), Path(os.devnull), state.access)
        self._connection = connection
        self.exit_code, self.running, self.ended_by_user = state.exit_code, state.running, state.ended_by_user
        age = time.monotonic() - connection.commands_at if state.running else 0.0
        self._seconds = state.seconds + age

    def end(self) -> None:
        self._connection.ask_now(EndCommand(self.number), type(None), seconds=_SECONDS)

    def follow(self) -> OutputReader:
        return cast(OutputReader, _Follower(self._connection, self.number))

    def newest_output(self, size: int) -> bytes:
        try:
            return self._connection.ask_now(ReadOutput(self.number, size), bytes, seconds=_SECONDS)
        except HandsError:
            return b""


class _Follower:
    """Asks the hands for the lines that are new."""

    def __init__(self, connection: HandsConnection, number: int) -> None:
        self._connection = connection
        self._number = number
        self._name = os.urandom(8).hex()

    def __enter__(self) -> _Follower:
        self.lines()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def lines(self, *, rest: bool = False) -> str:
        try:
            request = FollowOutput(self._number, self._name, rest)
            return self._connection.ask_now(request, str, seconds=_SECONDS)
        except HandsError:
            return ""


class CommandsElsewhere(BackgroundCommands):
    """The background commands of a session and of its sub-agents."""

    def __init__(self, connection: HandsConnection) -> None:
        super().__init__()
        self._connection = connection
        self.waiting = 0
        """How many calls wait for a command, which could be moved to the background."""

    def __iter__(self) -> Iterator[BackgroundCommand]:
        return iter([CommandElsewhere(self._connection, each) for each in self._connection.commands])

    def move_running(self) -> int:
        if self.waiting:
            self._connection.ask_now(MoveRunning(), type(None), seconds=_SECONDS)
        return self.waiting


class Forwarding:
    """Makes the tools of one workspace run in the hands."""

    def __init__(
        self,
        connection: HandsConnection,
        workspace: str,
        commands: CommandsElsewhere,
        granted: Callable[[str], Grant | None],
    ) -> None:
        """`granted` returns how a call was allowed, by its id."""
        self._granted = granted
        self._connection = connection
        self._workspace = workspace
        self._commands = commands
        self.cwd = ""
        """Where the shell of the workspace was last."""
        self._instructions = NewInstructions()
        self._expected: ToolContext[Any] | None = None
        self._begun: tuple[CallToDo, Begun[Done]] | None = None

    def around(self, tool: Tool) -> Tool:
        """Return a tool that runs in the hands, if it works on files or runs commands."""
        if tool.name not in HANDS_TOOLS:
            return tool
        return _ForwardedTool(**{name: getattr(tool, name) for name in tool.__struct_fields__}, forwarding=self)

    def call(self, id: str, tool: str, input: dict[str, Any]) -> CallToDo:
        """Return a call in this workspace."""
        return CallToDo(id, tool, input, self._workspace, self.cwd)

    # A call that only looks is sent before it is decided on. Of several calls, the one before has started by then.

    def expect(self, context: ToolContext[Any]) -> None:
        """Learn about a call that is decided on next."""
        self._expected = context

    def begin(self, call: CallToDo) -> None:
        """Send a call that only looks, to run if the rules allow it. Raises HandsError."""
        self.drop()
        context, self._expected = self._expected, None
        if context and context.call_id == call.id and call.only_looks and not _is_stored(call.input):
            run = Run(call, context.session, context.reply, context.key, context.result_characters, if_allowed=True)
            self._begun = call, self._connection.begin(run, Done, repeats=call.tool != "Bash")

    def drop(self) -> None:
        """Forget a call that was sent before it was decided on, and will not start."""
        if self._begun:
            self._connection.cancel(self._begun[1])
        self._begun = None

    async def run(self, tool: Tool, arguments: dict[str, Any], context: ToolContext[Any]) -> ToolResult:
        """Run a call in the hands."""
        call, grant = self.call(context.call_id, tool.name, arguments), self._granted(context.call_id) or Grant()
        request = Run(
            call, context.session, context.reply, context.key, context.result_characters, grant.paths, grant.unasked
        )
        is_command = tool.name == "Bash"
        self._commands.waiting += is_command
        try:
            exchange = await self._result_of_begun(call, context)
            if exchange is None:
                exchange = await self._connection.ask(
                    request, Done, repeats=tool.effect == "read", progress=context.progress
                )
        except HandsError as error:
            is_unknown = isinstance(error, HandsLostError)
            return ToolResult(f"{_sentence(error)}.", is_error=True, is_unknown=is_unknown)
        finally:
            self._commands.waiting -= is_command
        done = exchange.value
        self.cwd = done.cwd
        texts = [ProjectText(Path(path), text[:MAX_BYTES]) for path, text in done.instructions[:20]]
        return self._instructions.added(texts, context, result_of(exchange))

    async def _result_of_begun(self, call: CallToDo, context: ToolContext[Any]) -> Exchange[Done] | None:
        """Return the result of the call if it was sent before it was decided on, and has run."""
        if self._begun is None or not self._begun[0].is_same(call):
            self.drop()
            return None
        (_, begun), self._begun = self._begun, None
        begun.exchange.progress = context.progress
        exchange = await self._connection.answered(begun)
        return exchange if exchange.value.did_run else None


class _ForwardedTool(Tool[..., Any], frozen=True, kw_only=True):
    forwarding: Forwarding

    def expect(self, context: ToolContext[Any]) -> None:
        self.forwarding.expect(context)

    async def invoke(self, arguments: dict[str, Any], context: ToolContext[Any]) -> ToolResult:
        if _is_stored(arguments):
            return await super().invoke(arguments, context)
        self.check(arguments)
        return await self.forwarding.run(self, arguments, context)


def _is_stored(arguments: dict[str, Any]) -> bool:
    """Return whether a call reads what is stored here."""
    return str(arguments.get("file_path")).startswith("attachment:")


def result_of(exchange: Exchange[Done]) -> ToolResult:
    """Return the result of a call, with files that are on disk here."""
    done, files = exchange.value, exchange.files
    text = done.text
    attachments: list[Attachment] = []
    for info in done.files:
        if file := received(info, files):
            attachments.append(file)
        else:
            text += f"\n[A file could not be attached: {info.problem or 'it did not come'}.]"
    whole = received(done.whole, files) if done.whole else None
    if done.whole and whole is None:
        text += f"\n[The whole could not be stored: {done.whole.problem or 'it did not come'}.]"
    return ToolResult(
        text, attachments, done.is_error, details=done.details, whole=whole, is_json=done.is_json, note=done.note
    )


def received(info: FileInfo, files: Sequence[ReceivedFile]) -> Attachment | None:
    """Return a file whose bytes have come; None if they have not. Its name is text: it is never opened here."""
    if info.problem or not 0 <= info.number < len(files):
        return None
    file = files[info.number]
    file.seek(0)
    return OpenFile(b"", info.mime_type, info.name, info.description, file=cast(Any, file))


def _sentence(error: HandsError) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]


MOST_RULES = 20
LONGEST_REASON = 4_000


class JudgeElsewhere:
    """Asks the hands. What they allow runs there; they cannot allow anything that runs here."""

    def __init__(
        self, connection: HandsConnection, policy: Callable[[], Policy], forwarding: Callable[[PendingCall], Forwarding]
    ) -> None:
        """`policy` returns the session's; `forwarding` returns what sends calls of a call's workspace."""
        self._connection = connection
        self._policy = policy
        self._forwarding = forwarding
        self._previews: dict[str, Preview] = {}

    def decides(self, tool: str) -> bool:
        return tool in HANDS_TOOLS

    async def decide(self, policy: Policy, call: PendingCall) -> Decision:
        """Decide about a call. It is denied if the hands do not answer.

        A call that only looks is sent together with the question: the hands run it if the rules allow it.
        """
        stance = None if policy is self._policy() else stance_of(policy)
        forwarding, use = self._forwarding(call), call.use
        to_do = forwarding.call(use.id, use.name, use.input)
        decision: Decision | None = None
        try:
            judging = self._connection.begin(Judge(to_do, stance), Judged)
            if stance is None:
                forwarding.begin(to_do)
            judged = (await self._connection.answered(judging)).value
            decision = sound(judged.decision, policy)
        except HandsError as error:
            return Decision("deny", f"the call could not be checked: {error}")
        finally:
            if decision is None or decision.verdict != "allow":
                forwarding.drop()
        self._previews = {call.use.id: judged.preview}
        return decision

    async def preview(self, call: PendingCall) -> Preview:
        return self._previews.get(call.use.id) or Preview()


def sound(decision: Decision, policy: Policy) -> Decision:
    """Return a decision of the hands without what they must not say: rules for anything that runs here."""
    known = {rule.text for rule in policy.allow}
    return msgspec.structs.replace(
        decision,
        reason=decision.reason[:LONGEST_REASON],
        always=_rules_there(decision.always),
        prefix=_rules_there(decision.prefix),
        rules=tuple(rule for rule in decision.rules[:MOST_RULES] if rule in known),
        doubts=decision.doubts[:MOST_RULES],
    )


def _rules_there(rules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the rules if each is about a tool of the hands, or none."""
    try:
        are_there = all(Rule.parse(rule).tool in HANDS_TOOLS for rule in rules)
    except ConfigError:
        return ()
    return rules if are_there and len(rules) <= MOST_RULES else ()


def stance_of(policy: Policy) -> Stance:
    """Return what the hands must know of a policy: the mode, and rules for their tools."""
    return Stance(
        mode=policy.mode,
        allow=tuple((rule.text, rule.shared) for rule in policy.allow if rule.tool in HANDS_TOOLS),
        ask=tuple(rule.text for rule in policy.ask if rule.tool in HANDS_TOOLS),
        deny=tuple(rule.text for rule in policy.deny if rule.tool in HANDS_TOOLS),
        accepted=policy.accepted,
    )
