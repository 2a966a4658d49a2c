"""The calls of the newest reply: the one owner of what is known about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from outrider.conversation.messages import ToolResultBlock, ToolUseBlock
from outrider.log.entries import CallResult, Intent
from outrider.log.open_calls import OpenCalls
from outrider.runtime.call_environment import CallEnvironment
from outrider.runtime.calls import Call
from outrider.tools.tool import Tool


class ReplyCalls:
    """Remembers which calls of the newest reply have started, which have results, and which result ended the run.

    So a call is not run again because its result could not be stored, or because the process was killed.
    """

    def __init__(self, known: OpenCalls | None = None) -> None:
        self._known = known or OpenCalls()

    @property
    def final(self) -> CallResult | None:
        """The result that ended the run, if no message was added since."""
        return self._known.final

    @property
    def results(self) -> dict[str, ToolResultBlock]:
        """The results by call id, while other calls of the reply wait for theirs."""
        return {call_id: answer.result for call_id, answer in self._known.answers.items()}

    def forget(self) -> None:
        """Forget the calls of the last reply, because another message was added."""
        self._known = OpenCalls()

    def start(self, intents: Iterable[Intent]) -> None:
        """A reply was added whose first calls are recorded as started."""
        self._known = OpenCalls({intent.call_id: intent for intent in intents})

    def keep(self, calls: Sequence[Call]) -> None:
        """Keep the results of calls that ended, although not all of them could be stored."""
        results = {call.use.id: call.answer for call in calls if call.answer}
        recorded = frozenset(call.use.id for call in calls if call.recorded)
        self._known = OpenCalls(self._known.begun, results, recorded)

    def finish(self, final: CallResult | None) -> None:
        """All calls have results; `final` is the one that ends the run."""
        self._known = OpenCalls(final=final)

    def make(self, uses: Sequence[ToolUseBlock], tools: Mapping[str, Tool], environment: CallEnvironment) -> list[Call]:
        """Make a Call of each request; one that has its result already keeps it."""
        known = self._known
        reply = uses[0].id if uses else ""  # ids are unique in a conversation, so the first call names the reply
        calls = [Call(use, tools.get(use.name), environment, known.begun.get(use.id), reply) for use in uses]
        for call in calls:
            if answer := known.answers.get(call.use.id):
                call.recall(answer, recorded=call.use.id in known.recorded)
        return calls
