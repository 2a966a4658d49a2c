"""The newest run of a session: its turns, its usage and its newest reply, as the entries tell them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

from outrider.conversation.messages import Citation, Message, ToolResultBlock, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.log.entries import GoalChecked, MessageEntry, RunStopped
from outrider.providers.base import StopReason


class RunState:
    """What a run has done so far."""

    def __init__(self, before: RunState | None = None) -> None:
        self.status = ""
        """How it ended; empty while it goes on, or if the process was killed."""
        self.turns: int = before.turns + before.earlier_turns if before else 0
        """The turns so far. A turn has several replies if the model pauses, or says nothing and is asked again."""
        self.usage: Usage = before.usage + before.earlier_usage if before else Usage()
        """What its requests have used, without those of sub-agents."""
        self.by_model: Mapping[str, Usage] = joined(before.by_model, before.earlier_by_model) if before else {}
        """The same for each model."""
        self.earlier_turns: int = 0
        """The turns of the runs before it in the session, which do not count for it."""
        self.earlier_usage: Usage = Usage()
        self.earlier_by_model: Mapping[str, Usage] = {}
        self.newest: Message | None = before.newest if before else None
        """The newest reply."""
        self.stop_reason: StopReason = before.stop_reason if before else StopReason.END
        """Why it ended."""
        self.answer: RunStopped | None = None
        """Its end, if that has the data of its newest reply."""
        self.replies = 0
        """The replies of the newest turn."""
        self.blanks = 0
        """Those of them that said nothing."""
        self.asked_after: Message | None = None
        """The message before the first reply of the newest turn: a prompt or results."""
        self.counts_repeats = True
        """Whether repetition is limited."""
        self.repeats = 0
        """Turns in a row in which every call had been made before, with the same result."""
        self.checks = 0
        """How often its goal was checked."""
        self.same_checks = 0
        """Failed checks in a row with the same output."""
        self._failure = ""
        """The digest of that output."""
        self._outcomes: set[int] = set()
        """The calls of the run with their results, by hash."""

    def followed(self, *, continues: bool) -> RunState:
        """Return a run that begins after this one, or continues it and those before it."""
        if continues:
            return RunState(self)
        then = RunState()
        then.earlier_turns, then.earlier_usage = self.turns + self.earlier_turns, self.usage + self.earlier_usage
        then.earlier_by_model = joined(self.by_model, self.earlier_by_model)
        return then

    def done_again(self, last: Message | None) -> RunStopped:
        """Return the end of a run after this one that has nothing to do: with the same data, if nothing was said."""
        if self.answer and self.newest is last:
            return RunStopped("done", text=self.answer.text, output=self.answer.output)
        return RunStopped("done")

    @property
    def text(self) -> str:
        """The text of the newest reply."""
        return self.newest.text if self.newest else ""

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The sources of the newest reply."""
        return self.newest.citations if self.newest else ()

    def with_reply(self, entry: MessageEntry, before: Message | None) -> RunState:
        """Return what the run is after a reply, with its usage. This one does not change."""
        then = copy(self)
        then.reply(entry, before)
        then.usage += entry.usage or Usage()
        return then

    def use(self, usage: Usage, model: str) -> None:
        """Count what a request has used."""
        self.usage += usage
        is_only = self.by_model.keys() <= {model}
        self.by_model = {model: self.usage} if is_only else joined(self.by_model, {model: usage})

    def reply(self, entry: MessageEntry, before: Message | None) -> None:
        """Count a reply that comes after a message. After another reply, it belongs to the same turn."""
        message = entry.message
        if self.replies and before is self.newest:
            self.replies += 1
        else:
            self.turns, self.replies, self.blanks, self.asked_after = self.turns + 1, 1, 0, before
        self.newest = message
        self.stop_reason = _STOP_REASONS.get(entry.stop_reason, StopReason.OTHER)
        if not message.has_tool_calls and self.stop_reason is not StopReason.PAUSE:
            self.repeats = 0
            self.blanks += self.stop_reason is StopReason.END and not message.text

    def count_check(self, check: GoalChecked) -> None:
        """Count a check of the goal."""
        self.checks, self.same_checks, self._failure = self.checks + 1, self.same_after(check), check.digest

    def same_after(self, check: GoalChecked) -> int:
        """Return how many failed checks in a row have the same output after this one."""
        if check.passed:
            return 0
        return self.same_checks + 1 if check.digest and check.digest == self._failure else 1

    def count_results(self, calls: Sequence[ToolUseBlock], results: Sequence[ToolResultBlock]) -> None:
        """Count the calls of a reply and their results. Polling is no repetition once its result changes."""
        if not self.counts_repeats:
            return
        outcomes = {
            hash((call.name, call.invalid_input or repr(call.input), result.content))
            for call, result in zip(calls, results, strict=False)
        }
        self.repeats = self.repeats + 1 if outcomes and outcomes <= self._outcomes else 0
        self._outcomes |= outcomes


def joined(first: Mapping[str, Usage], second: Mapping[str, Usage]) -> dict[str, Usage]:
    """Return the sum of the usage of each model."""
    return {**first, **{model: first.get(model, Usage()) + usage for model, usage in second.items()}}


_STOP_REASONS = {"": StopReason.END} | {each.value: each for each in StopReason}
