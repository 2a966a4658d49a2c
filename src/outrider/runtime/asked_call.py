"""What is asked about a call: hooks and the approver before it runs, a person for its tool, or later from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from outrider.conversation.messages import ToolUseBlock
from outrider.errors import ConversationError, LogError, ValidationError
from outrider.log.entries import Asked, CallResult, Decided, Intent
from outrider.log.open_questions import LATE, decided
from outrider.log.pending_write import PendingWrite
from outrider.log.questions import Answer, Body, Question, body_of, question_id, stored
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.background import Background
from outrider.runtime.call_environment import CallEnvironment
from outrider.runtime.call_results import described, error_result
from outrider.runtime.hooks import BeforeTool, run_hooks
from outrider.runtime.waits import Parked, approval_of, question_for, words_of
from outrider.text import clean, clean_value
from outrider.tools.approval import AnswerTaker, Defer, Verdict, verdict_of
from outrider.tools.context import ToolContext
from outrider.tools.tool import RESERVED_NAMES, Tool


class AskedCall:
    """A call with the questions about it. `Call` runs it."""

    use: ToolUseBlock
    around: CallEnvironment
    answer: CallResult | None = None
    written: PendingWrite | None = None
    """The write of the result."""
    decided: Decided | None = None
    """Whether the call may run: a decision that is not stored yet."""
    is_parked = False
    """Whether the call waits for an answer from outside: it has no result, and does not run."""
    ends_run = False
    """Whether the call was denied, and the run ends."""
    intent: Callable[[], Intent | None]
    """Returns the intent to store before the call starts, or None if it will not run."""
    _announce: Callable[[], None]
    _cancel_timers: Callable[[], None]
    _finish: Callable[[CallResult], None]
    _report: Callable[[str], None]
    _tool: Tool | None
    _context: ToolContext
    _key: str
    _is_edited: bool
    """Whether the approver changed the arguments."""
    _hook_context = ""
    """What hooks before the call have said to the model."""
    _asks = 0
    """How many questions the tool has asked."""

    @property
    def is_asked(self) -> bool:
        """Whether something is asked before the call runs: hooks, the approver, or a person."""
        around, tool = self.around, self._tool
        return around.approve is not None or bool(around.hooks.before_tool) or bool(tool and tool.approval)

    async def ask(self) -> None:
        """Ask the hooks, then the approver. A denial becomes the result; a decision that comes later parks the call."""
        tool, around = self._tool, self.around
        if tool is None or self.intent() is None or self._result_from_outside:
            return
        known = around.waits.about(self.use.id, "approval") if around.waits else None
        if known and known[1] and not isinstance(around.approve, AnswerTaker):
            self._take_approval(tool, known[1], known[0])
            return
        if around.hooks.before_tool and not self._is_edited:  # they saw the arguments before they were changed
            await self._ask_hooks(tool)
        # `report_back` gives the answer of a run and does nothing else. Where an API returns the answer without a call,
        # there is no question either.
        if self.answer or tool.name in RESERVED_NAMES or not (around.approve or tool.approval):
            return
        try:
            tool.check(self.use.input)
        except ValidationError:  # the call will not run: its error result names the violations
            self.decided = Decided(False, "the schema of the tool", self.use.id, answer="the arguments are not valid")
            return
        try:
            await self._ask_approver(tool, known)
        except Defer as defer:
            await self._ask_later(tool, defer)

    async def _ask_approver(self, tool: Tool, known: tuple[Asked, Decided | None] | None) -> None:
        """Ask the approver. Raises Defer if the decision comes later."""
        verdict = None
        if approve := self.around.approve:
            tool.expect(self._context)
            taker: object = approve
            if known and known[1] and isinstance(taker, AnswerTaker):
                approve = taker.answered(known[0].question, known[1].answer, known[1].words)
            try:
                verdict = await verdict_of(approve, self.use, tool, self.around.threads)
            except Defer:
                raise
            except Exception as error:  # noqa: BLE001 - whatever keeps it from deciding, the call does not run
                verdict = Verdict(f"the approver failed: {described(error)}")
        if verdict and (verdict.denial or not tool.approval):
            self._decide(tool, verdict)
        elif known and known[1]:
            self._take_approval(tool, known[1], known[0])
        else:
            raise Defer

    async def _ask_later(self, tool: Tool, defer: Defer) -> None:
        """Ask a person whether the call may run: one who is there, or whoever answers later."""
        asked = approval_of(self.use, self._key, defer)
        if self.around.person and (body := body_of(asked.question)):
            self._take_approval(tool, decided(asked, await self.around.person(asked, body), "the user", 0.0), asked)
        elif self.around.waits is None:
            self._decide(tool, Verdict("it has to be approved later, and this call is not part of a session", "nobody"))
        else:
            await self._park([asked])

    def _take_approval(self, tool: Tool, answer: Decided, asked: Asked) -> None:
        """Take the decision of a person, which the log has. What runs is what was shown, with the changes of hooks."""
        late = "nobody has allowed it in time" if answer.answer == LATE else "the user does not want this"
        denial = "" if answer.allowed else f"{late}: {answer.words}" if answer.words else late
        allowed = answer.input if answer.input is not None else asked.question.get("input")
        self._decide(tool, Verdict(denial, answer.by, allowed), is_stored=True)

    async def _park(self, questions: Sequence[Asked]) -> None:
        """Let the call wait for an answer. It has no result then, and another process may go on with it."""
        self._cancel_timers()
        self._context.close()
        self.is_parked = True
        try:
            assert self.around.waits
            await self.around.waits.ask(questions)
        except LogError as error:
            self.written = PendingWrite.failed(error)
        self._announce()

    @property
    def _result_from_outside(self) -> Decided | None:
        """The result that has come for a call whose tool had none."""
        known = self.around.waits.about(self.use.id, "result") if self.around.waits else None
        return known[1] if known else None

    async def pose(self, body: Body) -> Answer:
        """Ask for the tool: a person who is there, or whoever answers later. Raises Parked."""
        self._asks += 1
        question = stored(body)
        name = question_id(self._key, str(self._asks), question)
        if self.around.waits and (known := self.around.waits.answer_to(name)):
            return Answer(known.answer, known.words, known.content)
        asked = Asked(name, self.use.id, question, "" if self.around.is_subagent else "call")
        if self.around.person:
            self._cancel_timers()  # a person needs time
            return await self.around.person(asked, body)
        if self.around.waits is None:
            raise ConversationError("there is nobody to ask: this call is not part of a session")
        raise Parked([msgspec.structs.replace(asked, waits="call")])

    async def ask_person(
        self, text: str, choices: Sequence[str], schema: Mapping[str, Any] | None, multiple: bool, seconds: float | None
    ) -> Any:
        """Ask for the tool, in words. Return what was answered; None if nothing was."""
        body = question_for(self.use.name, text, choices, schema, multiple, seconds)
        return words_of(body, await self.pose(body))

    def sends(self, text: str) -> bool:
        """Return whether a result has a text, in the conversation as it is sent."""
        return self.around.sends(text)

    @property
    def agent(self) -> AgentSpec[Any] | None:
        """The agent of the session."""
        return self.around.agent

    @property
    def background(self) -> Background:
        """The sub-agents of the session that work in the background. Raises ConversationError in a sub-agent."""
        if self.around.background is None:
            raise ConversationError("a sub-agent cannot start sub-agents")
        return self.around.background

    def put_off(self, questions: Sequence[Question]) -> None:
        """Let the call wait for the questions of a sub-agent's session. Raises Parked."""
        asked = [Asked(each.id, self.use.id, stored(each.body), "call", each.session) for each in questions]
        raise Parked(asked)

    def _decide(self, tool: Tool, verdict: Verdict, *, is_stored: bool = False) -> None:
        """Take a decision. It is stored with what follows from it: the intent, or the result that denies the call."""
        if self.answer:
            return
        denial, edited = clean(verdict.denial), verdict.input
        if edited is not None and not _is_same(edited, self.use.input):
            self.use, self._is_edited = msgspec.structs.replace(self.use, input=clean_value(edited)), True
        given = self.use.input if self._is_edited and not denial else None
        if not is_stored:
            self.decided = Decided(not denial, clean(verdict.by), self.use.id, answer=denial, input=given)
        if denial:
            self.ends_run = verdict.ends_run
            self._finish(error_result(self.use.id, f"{tool.name} was not run: {denial}", final=self.ends_run))

    def take_decision(self) -> list[Decided]:
        """Return the decision to store, if there is one that is not stored yet."""
        decided, self.decided = self.decided, None
        return [decided] if decided else []

    async def _ask_hooks(self, tool: Tool) -> None:
        """Ask the hooks. They may block the call, or change its arguments; the approver sees those."""
        around, use = self.around, self.use
        event = BeforeTool(session=around.session, cwd=around.cwd, call_id=use.id, tool=tool.name, input=use.input)
        wanted = await run_hooks(around.hooks.before_tool, event, self._report)
        if wanted.block:
            self._decide(tool, Verdict(f"a hook blocked it: {wanted.block}", "a hook"))
        elif wanted.input is not None:
            self.use = msgspec.structs.replace(use, input=wanted.input)
        if wanted.context:
            self._hook_context = clean(wanted.context)


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether arguments are the same JSON: 1 is not true."""
    first, second = (msgspec.json.encode(each, order="deterministic") for each in (one, other))
    return first == second
