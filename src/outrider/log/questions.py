"""Questions of sessions to a person, their answers, and what a person tells a session from another process."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from outrider.errors import ValidationError
from outrider.text import clean

LONGEST_TEXT = 100_000
"""Characters of a message or of the words of a denial."""


class Option(msgspec.Struct, frozen=True):
    """A way to answer a question."""

    id: str
    """Of a permission `once`, `edits`, `always` or `no`; of an elicitation `accept`, `decline` or `cancel`; of a plan
    `go`, `edits`, `change` or `no`."""
    label: str
    allows: bool
    """Whether the call runs with this answer, or the server gets what it asks for."""
    takes_words: bool = False
    """Whether words for the model can go with it."""


class PermissionQuestion(msgspec.Struct, frozen=True, kw_only=True, tag="permission", tag_field="kind"):
    """A call that needs approval, with everything that the user must see before deciding."""

    tool: str
    input: dict[str, Any]
    title: str
    """The call in one line."""
    reason: str = ""
    """Why the call needs approval."""
    access: str = ""
    """The access level of a command: `read`, `write`, `network` or `full`."""
    diff: str = ""
    """The lines that an Edit removes (`-`) and adds (`+`). Those of a Write follow from its input."""
    always: tuple[str, ...] = ()
    """The rules that the answer `always` stores."""
    asker: str = ""
    """The caller, if it is a sub-agent or a tool that attaches a file."""
    facts: tuple[str, ...] = ()
    """What a command may do and how it runs, such as in the background."""
    options: tuple[Option, ...] = ()


class ElicitationQuestion(msgspec.Struct, frozen=True, kw_only=True, tag="elicitation", tag_field="kind"):
    """A question of an MCP server: a form to fill in, or a page to open."""

    server: str
    message: str
    schema: dict[str, Any] | None = None
    """The JSON Schema of the content of an answer; None if `url` is set."""
    url: str = ""
    options: tuple[Option, ...] = ()


class PlanQuestion(msgspec.Struct, frozen=True, kw_only=True, tag="plan", tag_field="kind"):
    """Whether to carry out a plan, and with which permissions."""

    title: str
    """The call in one line."""
    plan: str
    """The plan in Markdown."""
    options: tuple[Option, ...] = ()


Body: TypeAlias = PermissionQuestion | ElicitationQuestion | PlanQuestion


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer to a question."""

    option: str
    """The id of an option that the question offers."""
    words: str = ""
    """What the model reads with a denial."""
    content: dict[str, Any] | None = None
    """The values of the form, if the answer accepts an elicitation."""


class Question(msgspec.Struct, frozen=True):
    """A question in the log."""

    id: str
    session: str
    call_id: str
    """The call that it is about; of an elicitation "", because servers do not say it."""
    asked: float
    body: Body
    answer: Answer | None = None
    """None while it waits."""
    answered_by: str = ""
    """Where it was answered, as in `on the web page`."""


class Say(msgspec.Struct, frozen=True, tag="say", tag_field="kind"):
    """A message of the user. The run that goes on takes it at its next boundary; between runs it begins one."""

    text: str


class Stop(msgspec.Struct, frozen=True, tag="stop", tag_field="kind"):
    """Cancel the run that goes on."""


Signal: TypeAlias = Say | Stop
SignalKind: TypeAlias = Literal["say", "stop"]


def check_answer(body: Body, answer: Answer) -> None:
    """Raise ValidationError if the question does not offer this answer."""
    option = next((each for each in body.options if each.id == answer.option), None)
    if option is None:
        offered = ", ".join(each.id for each in body.options)
        raise ValidationError([f"option: {answer.option[:40]!r} is not offered; choose one of: {offered}"])
    if answer.words and not option.takes_words:
        raise ValidationError([f"words: the option {option.id!r} takes none"])
    if len(answer.words) > LONGEST_TEXT:
        raise ValidationError([f"words: at most {LONGEST_TEXT:,} characters"])
    wanted = body.schema if isinstance(body, ElicitationQuestion) and option.allows else None
    if wanted is None:
        if answer.content is not None:
            raise ValidationError([f"content: the option {option.id!r} takes none"])
    elif violations := _violations(wanted, answer.content or {}):
        raise ValidationError(violations)


def check_signal(signal: Signal) -> None:
    """Raise ValidationError if a message is empty or too long."""
    if isinstance(signal, Say) and not clean(signal.text).strip():
        raise ValidationError(["text: the message is empty"])
    if isinstance(signal, Say) and len(signal.text) > LONGEST_TEXT:
        raise ValidationError([f"text: at most {LONGEST_TEXT:,} characters"])


def _violations(schema: dict[str, Any], content: dict[str, Any]) -> list[str]:
    from outrider.tools.schema import Schema  # few questions have a form

    return Schema.of(schema).violations(content)
