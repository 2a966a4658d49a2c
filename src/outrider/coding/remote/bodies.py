"""Questions as the log stores them, with everything that the user must see before deciding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.coding.permissions.question import ALL_EDITS, APPROVING, PLAN_ANSWERS, Mode, Question
from outrider.coding.toolbox import EXIT_PLAN
from outrider.coding.toolbox.titles import title
from outrider.log.questions import ElicitationQuestion, Option, PermissionQuestion, PlanQuestion

if TYPE_CHECKING:
    from outrider.mcp.elicitation import Elicitation

EDIT_TOOLS = ("Edit", "Write")
MOST_COMPARED = 1_000_000
"""Pairs of lines that are compared for a diff. More could take minutes, and all else would wait."""


def permission_body(question: Question, folder: Path, mode: Mode) -> PermissionQuestion:
    is_command, call = question.tool == "Bash", (question.tool, question.input)
    return PermissionQuestion(
        tool=question.tool,
        input=question.input,
        title=title(question.tool, question.input, folder),
        reason=question.reason,
        access=str(question.input.get("access") or "read") if is_command else "",
        # The content of a new file is in the input already, and may be large.
        diff=question.diff or ("" if question.tool == "Write" else "\n".join(changed_lines(*call))),
        always=question.always,
        prefix=question.prefix,
        asker=question.asker,
        facts=question.facts,
        options=tuple(_permission_options(question, mode)),
    )


def plan_body(plan: str) -> PlanQuestion:
    return PlanQuestion(
        title=title(EXIT_PLAN, {"plan": plan}),
        plan=plan,
        options=tuple(
            Option(name, label, allows=name in APPROVING, takes_words=name == "change")
            for name, label in PLAN_ANSWERS.items()
        ),
    )


def elicitation_body(question: Elicitation) -> ElicitationQuestion:
    accept = "I have opened the page" if question.url else "Send"
    return ElicitationQuestion(
        server=question.server,
        message=question.message,
        schema=question.schema,
        url=question.url,
        options=(Option("accept", accept, allows=True), Option("decline", "Decline", allows=False)),
    )


def offers_edits(question: Question, mode: Mode) -> bool:
    """Return whether the mode `edits` would change the answer to questions like this."""
    return question.tool in EDIT_TOOLS and mode == "ask"


def shown_diff(body: PermissionQuestion) -> str:
    """Return all lines that the call removes and adds, or ""."""
    return body.diff or "\n".join(changed_lines(body.tool, body.input))


def changed_lines(tool: str, input: Mapping[str, Any], shown: Callable[[str], str] = str) -> list[str]:
    """Return the lines that a call removes and adds; none for other calls. `shown` changes the texts first.

    >>> changed_lines("Edit", {"old_string": "a = 1", "new_string": "a = 2"})
    ['-a = 1', '+a = 2']
    """
    if tool == "Write":
        return [f"+{line}" for line in _lines(input.get("content"), shown)]
    if tool != "Edit":
        return []
    old, new = (_lines(input.get(name), shown) for name in ("old_string", "new_string"))
    if len(old) * len(new) > MOST_COMPARED:
        return [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    import difflib  # few questions show a diff

    # Drop the file names and line numbers of the diff: the place in the file is not known yet.
    return [line for line in list(difflib.unified_diff(old, new, lineterm="", n=1))[2:] if not line.startswith("@@")]


def json_text(value: Any) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value, enc_hook=repr), indent=2).decode()
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return repr(value)


def _permission_options(question: Question, mode: Mode) -> Iterator[Option]:
    yield Option("once", "Allow in this session" if question.is_for_session else "Allow once", allows=True)
    if offers_edits(question, mode):
        yield Option("edits", ALL_EDITS.capitalize(), allows=True)
    for name, meaning in question.lasting.items():
        yield Option(name, f"{meaning[0].upper()}{meaning[1:]}", allows=True)
    yield Option("no", "Deny", allows=False, takes_words=True)


def _lines(value: Any, shown: Callable[[str], str]) -> list[str]:
    text = shown("" if value is None else str(value))
    return text.removesuffix("\n").split("\n") if text else []
