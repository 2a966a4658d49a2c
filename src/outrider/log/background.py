"""How a sub-agent in the background ended, in words for the model."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from outrider.conversation.user_messages import REPORT
from outrider.text import clean, shorten

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from outrider.log.entries import BackgroundTask
    from outrider.log.log import Log
    from outrider.log.state import SessionState

ID_CHARACTERS = 8
"""Characters of a session's id by which the model and the user name a sub-agent."""
RESULT_CHARACTERS = 10_000
"""Characters of a report that the model reads, unless its agent says otherwise."""
INTERRUPTED = "interrupted"
"""The status of one whose process ended before it did."""
_ENDINGS = {"done": "has finished", "cancelled": "was stopped", INTERRUPTED: "was interrupted: the program ended"}
_CUT = "Task with agent_id and the action status shows the whole."
_GO_ON = "Nothing is lost: to let it go on, send it a message (Task with agent_id and prompt)."


def ended(
    task: BackgroundTask, status: str, words: str, *, most: int = RESULT_CHARACTERS, output: Any = UNSET
) -> BackgroundTask:
    """Return the task as it is once it has ended, with the report for the model and the data for programs."""
    how = _ENDINGS.get(status, "did not finish")
    head = f"{REPORT}{task.session[:ID_CHARACTERS]} ({task.name}: {task.title}) {how}. Not a message of the user.]"
    said, note = within(clean(words).strip(), most), f"[{task.note}]" if task.note else ""
    more = _GO_ON if status == INTERRUPTED else ""
    if more and task.isolation:
        more += f" What it had changed in its worktree is kept in the branch outrider/{task.session[:ID_CHARACTERS]}."
    report = "\n\n".join(filter(None, (task.report, head, said, note, more)))  # the model may not know an earlier one
    return msgspec.structs.replace(task, status=status, report=report, is_told=False, structured_output=output)


def within(words: str, most: int) -> str:
    """Return an answer that the model reads, shortened with a note on the rest. Data stay JSON."""
    if len(words) <= most:
        return words
    if words[0] in "{[":
        from outrider.conversation.json_text import shorten_json  # few answers are so long

        with suppress(ValueError, RecursionError):  # not JSON after all
            return clean(shorten_json(words, most, f"This is not all of it: {{total}} characters. {_CUT}"))
    return shorten(words, most, f"[{{left_out}} of {{total}} characters left out. {_CUT}]")


def answer_of(child: SessionState) -> tuple[str, Any]:
    """Return the answer of a sub-agent, whole, and its data; UNSET if it has none."""
    if child.run and child.run.answer:  # its reply may have more than the data
        return _json(child.run.answer.output), child.run.answer.output
    if not (final := child.final):
        return child.run.text if child.run else "", UNSET
    data = final.details.get("structured_output", UNSET) if isinstance(final.details, Mapping) else UNSET
    return final.result.text if final.result.whole is None or data is UNSET else _json(data), data


def _json(data: Any) -> str:
    return msgspec.json.encode(data).decode()


def told(task: BackgroundTask) -> BackgroundTask:
    """Return the task as it is once the model was told."""
    return msgspec.structs.replace(task, report="", is_told=True, structured_output=UNSET)


def interrupted(log: Log, id: str, state: SessionState, at_work: Collection[str] = ()) -> Iterator[BackgroundTask]:
    """Yield the end of each sub-agent that a process has left at work in the session with this id.

    One that had its answer, and whose process ended before that was stored, has finished. Changes in a worktree were
    not merged then, so such a sub-agent goes on first.
    """
    for task in state.working:
        if task.session in at_work:
            continue
        status, words, data = INTERRUPTED, "", UNSET
        known = log.summaries([task.session]).get(task.session)
        if known and known.parent == id:  # an imported entry must not name another session
            child = log.state(task.session)
            answer, found = answer_of(child)
            is_missing = task.output_schema is not None and found is UNSET  # it would have been asked for its report
            if child.run and child.run.status == "done" and not task.isolation and not is_missing:
                was_denied = child.final is not None and child.final.result.is_error
                status, words, data = "cancelled" if was_denied else "done", answer, found
        yield ended(task, status, words, output=data)
