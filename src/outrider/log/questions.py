"""Questions of sessions to a person, their answers, and what a person tells a session from another process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, TypeAlias

import msgspec

from outrider.conversation.attachments import sha256
from outrider.errors import ValidationError
from outrider.text import clean, clean_value

LONGEST_TEXT = 100_000
"""Characters of a message or of the words of a denial."""
LONGEST_WORDS = 10_000
"""Characters of an answer in a person's own words."""


RESULT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "is_error": {"type": "boolean"},
        "final": {"type": "boolean"},
        "is_json": {"type": "boolean"},
        "details": {},
        "files": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["text"],
    "additionalProperties": False,
}
"""A result that comes from outside, as JSON Schema. `files` are references to stored ones."""


class Option(msgspec.Struct, frozen=True):
    """A way to answer a question."""

    id: str
    """Of a permission `once`, `edits`, `always`, `prefix` or `no`; of an elicitation `accept`, `decline` or `cancel`;
    of choices `answer` or `decline`; of a plan `go`, `edits`, `change` or `no`."""
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
    """What an Edit or a Write changes, as a unified diff without file names; without line numbers and the lines around
    if the file could not be compared. Without it, all lines of a Write are new."""
    always: tuple[str, ...] = ()
    """The rules that the answer `always` stores."""
    prefix: tuple[str, ...] = ()
    """The rules that the answer `prefix` stores: for commands that begin as this one does."""
    asker: str = ""
    """The caller, if it is a sub-agent or a tool that attaches a file."""
    facts: tuple[str, ...] = ()
    """What a command may do and how it runs, such as in the background."""
    options: tuple[Option, ...] = ()
    deadline: float | None = None
    """When it is too late for an answer, in seconds since the epoch: the call is denied then."""
    schema: ClassVar[None] = None


class ElicitationQuestion(msgspec.Struct, frozen=True, kw_only=True, tag="elicitation", tag_field="kind"):
    """A question of an MCP server: a form to fill in, or a page to open."""

    server: str
    message: str
    schema: dict[str, Any] | None = None
    """The JSON Schema of the content of an answer; None if `url` is set."""
    url: str = ""
    options: tuple[Option, ...] = ()
    deadline: float | None = None


class Choice(msgspec.Struct, frozen=True):
    """An answer that a question proposes."""

    label: str
    """What the answer's content has if it is chosen."""
    description: str = ""


class ChoiceField(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a person is asked."""

    key: str
    """Its name in the content of the answer."""
    text: str
    header: str = ""
    """The subject in a word or two."""
    choices: tuple[Choice, ...] = ()
    """Without any, the person answers in free text."""
    multiple: bool = False
    """Whether several choices can be taken. The answer is then a list."""
    own_words: bool = True
    """Whether the person may write something that is not among the choices."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the answer."""
        value: dict[str, Any] = {"type": "string", "pattern": r"\S", "maxLength": LONGEST_WORDS}
        if self.choices and not self.own_words:
            value = {"enum": [each.label for each in self.choices]}
        if not self.multiple:
            return value
        return {"type": "array", "items": value, "minItems": 1, "maxItems": len(self.choices) + 1, "uniqueItems": True}


class ChoiceQuestion(msgspec.Struct, frozen=True, kw_only=True, tag="choice", tag_field="kind"):
    """Something that only a person can say: choices, or free text."""

    questions: tuple[ChoiceField, ...]
    options: tuple[Option, ...] = (Option("answer", "Send", allows=True), Option("decline", "Decline", allows=False))
    deadline: float | None = None

    @property
    def title(self) -> str:
        """All questions in one line."""
        return " · ".join(each.text for each in self.questions)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the content of an answer: each key with the label, the labels or the words."""
        fields = {each.key: each.schema for each in self.questions}
        return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


class ResultQuestion(msgspec.Struct, frozen=True, kw_only=True, tag="result", tag_field="kind"):
    """A call whose result comes from outside. The content of the answer is the result."""

    tool: str
    input: dict[str, Any]
    title: str
    """What is awaited, in one line."""
    options: tuple[Option, ...] = (Option("result", "Give the result", allows=True),)
    deadline: float | None = None

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the content of an answer."""
        return RESULT


class PlanQuestion(msgspec.Struct, frozen=True, kw_only=True, tag="plan", tag_field="kind"):
    """Whether to carry out a plan, and with which permissions."""

    title: str
    """The call in one line."""
    plan: str
    """The plan in Markdown."""
    options: tuple[Option, ...] = ()
    deadline: float | None = None
    schema: ClassVar[None] = None


Body: TypeAlias = PermissionQuestion | ElicitationQuestion | ChoiceQuestion | PlanQuestion | ResultQuestion


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer to a question."""

    option: str
    """The id of an option that the question offers."""
    words: str = ""
    """What the model reads with a denial."""
    content: dict[str, Any] | None = None
    """The values of the form, if the answer accepts an elicitation; the answers to a question of choices; the result
    that came from outside."""
    input: dict[str, Any] | None = None
    """Other arguments for a call that is allowed, all of them."""


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

    @property
    def text(self) -> str:
        """What is asked, in one line or a few."""
        body = self.body
        if isinstance(body, ElicitationQuestion):
            return body.message
        return (body.reason if isinstance(body, PermissionQuestion) else "") or body.title

    @property
    def deadline(self) -> float | None:
        """When it is too late for an answer, in seconds since the epoch."""
        return self.body.deadline


class Say(msgspec.Struct, frozen=True, tag="say", tag_field="kind"):
    """A message of the user. The run that goes on takes it at its next boundary; between runs it begins one."""

    text: str


class Stop(msgspec.Struct, frozen=True, tag="stop", tag_field="kind"):
    """Cancel the run that goes on, or stop a sub-agent in the background."""

    agent: str = ""
    """The session of the sub-agent."""


class SetGoal(msgspec.Struct, frozen=True, tag="goal", tag_field="kind"):
    """Set the goal of the session, and let it work until it is reached."""

    command: str
    """The command that must succeed; "" ends the goal."""


Signal: TypeAlias = Say | Stop | SetGoal


_decode_body: Callable[[str], Body] = msgspec.json.Decoder(Body).decode


def question_id(key: str, what: str, question: dict[str, Any]) -> str:
    """Return the id of a question about the call with this key: the same when the call runs again and asks the same."""
    return _id(key, what, shown_text(question | {"deadline": None}))


def result_question(key: str) -> str:
    """Return the id of the question for the result of a call."""
    return _id(key, "result")


def _id(*parts: str) -> str:
    return sha256("/".join(parts).encode(errors="surrogatepass"))[:32]


def stored(body: Body) -> dict[str, Any]:
    """Return a question as an entry of the log has it."""
    found: dict[str, Any] = msgspec.json.decode(
        msgspec.json.encode(clean_value(msgspec.to_builtins(body, enc_hook=str)))
    )
    return found  # as it is read again: lists, not tuples


def shown_text(question: dict[str, Any]) -> str:
    """Return the text of a stored question that an answer is signed for."""
    return msgspec.json.encode(question).decode()


def body_of(question: dict[str, Any]) -> Body | None:
    """Return a stored question; None if this version does not know its kind."""
    return body_in(shown_text(question))


def body_in(text: str) -> Body | None:
    """Return the question of a text that was shown; None if it is damaged, or of a kind that is not known here."""
    with suppress(msgspec.MsgspecError):
        return _decode_body(text)
    return None


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
    if answer.input is not None and not (isinstance(body, PermissionQuestion) and option.allows):
        raise ValidationError([f"input: the option {option.id!r} takes none"])
    wanted = body.schema if option.allows else None
    if wanted is None:
        if answer.content is not None:
            raise ValidationError([f"content: the option {option.id!r} takes none"])
    elif violations := _violations(wanted, answer.content or {}):
        raise ValidationError(violations)


def check_signal(signal: Signal) -> None:
    """Raise ValidationError if a message is empty or too long, or the command of a goal is."""
    if isinstance(signal, SetGoal) and len(signal.command) > LONGEST_TEXT:
        raise ValidationError([f"command: at most {LONGEST_TEXT:,} characters"])
    if isinstance(signal, Say) and not clean(signal.text).strip():
        raise ValidationError(["text: the message is empty"])
    if isinstance(signal, Say) and len(signal.text) > LONGEST_TEXT:
        raise ValidationError([f"text: at most {LONGEST_TEXT:,} characters"])


def _violations(schema: dict[str, Any], content: dict[str, Any]) -> list[str]:
    from outrider.tools.schema import Schema  # few questions have a form

    return Schema.of(schema).violations(content)
