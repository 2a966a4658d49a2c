"""Ways to break the promises about sub-agents, so that it can be seen that the judge notices."""

from __future__ import annotations

import os
from typing import Any

from outrider.log.entries import SubagentLinked
from outrider.log.journal import Journal
from outrider.log.log import Log
from outrider.runtime import structured_output as reports
from outrider.runtime.agent_loop import AgentLoop
from outrider.subagents import task
from outrider.tools import context
from tests.crash.sabotage import begins_anew_what_may_not_be_repeated as begins_anew_what_may_not_be_repeated


def sends_out_another_one() -> None:
    """A call that is carried out again does not know whom it had sent out."""
    context.sha256 = lambda data: os.urandom(32).hex()  # type: ignore[attr-defined]


def links_it_again() -> None:
    """A sub-agent that is taken up is linked from its call once more."""
    open_child = Log.open_child

    def open_and_link(self: Log, id: str, settings: Any, parent: Journal, call_id: str) -> Journal:
        is_known = any(child.id == id for child in self.children(parent.id))
        journal = open_child(self, id, settings, parent, call_id)
        if is_known:
            parent.write_now(SubagentLinked(call_id, id))
        return journal

    Log.open_child = open_and_link  # type: ignore[method-assign]


def says_the_prompt_again() -> None:
    """A sub-agent that is taken up is told again what to do."""
    task._Assignment.prompt_for = lambda self, child: self.prompt  # type: ignore[method-assign]


def reminds_again() -> None:
    """Nobody knows that the model was reminded of its report."""
    reports._was_reminded = lambda messages: False


def forgets_the_report() -> None:
    """A report that an earlier process took is not found again."""
    reports.Report.recall = lambda self, messages: False  # type: ignore[method-assign]


def gives_all_turns_again() -> None:
    """A sub-agent that is taken up has the limits of one that begins."""
    AgentLoop.continues = property(lambda self: False, lambda self, value: None)  # type: ignore[assignment]
