"""What answers of the API have. The OpenAPI document is made from these types."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage as AllUsage
from outrider.evals.figures import Figures

Json = dict[str, Any]


def _either(name: str) -> Meta:
    forms = [{"$ref": f"#/components/schemas/{each}"} for each in (name, f"Shown{name}")]
    return Meta(extra_json_schema={"items": {"anyOf": forms}})


class Created(msgspec.Struct, frozen=True):
    """What was made."""

    id: str


class Links(msgspec.Struct, frozen=True):
    """Links that let one browser in, once each."""

    links: list[str]


class Tokens(msgspec.Struct, frozen=True):
    """Tokens, and their cost in US dollars where it is known."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost: float | None

    @classmethod
    def of(cls, usage: AllUsage) -> Tokens:
        """Return what a usage has of them."""
        return cls(*(getattr(usage, name) for name in cls.__struct_fields__))


class Passage(msgspec.Struct, frozen=True):
    """What a search has found in a session."""

    reference: str
    kind: str
    tool: str
    time: float
    seq: int
    snippet: str


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A session in a list."""

    id: str
    title: str
    model: str
    folder: str
    origin: str
    owner: str
    metadata: dict[str, str]
    created: float
    updated: float
    turns: int
    usage: Tokens
    size: int
    last: int
    """The number of its newest entry."""
    parent: str
    open: bool
    """Whether a program has it open, and which."""
    program: str
    found: list[Passage] | UnsetType = UNSET
    """What a search has found in it."""


class SessionPage(msgspec.Struct, frozen=True):
    """A page of the list."""

    sessions: list[SessionSummary]
    more: bool
    folders: tuple[str, ...] = ()
    """The folders of the repository in which the server was started; their sessions come first."""
    full: bool = False
    """Whether a search has found more than it shows."""


class Branch(SessionSummary, frozen=True, kw_only=True):
    """The session of a sub-agent, and those below it."""

    children: list[Branch]


class Ancestor(msgspec.Struct, frozen=True):
    """A session above that of a sub-agent."""

    id: str
    title: str


class ContextFill(msgspec.Struct, frozen=True):
    """The tokens of the newest request, and of the model's window."""

    used: int | None
    window: int | None


class Check(msgspec.Struct, frozen=True):
    """The newest check of a goal."""

    passed: bool
    last_line: str
    """The last line that the command printed."""


class SessionDetails(SessionSummary, frozen=True, kw_only=True):
    """One session: its state, its context, and its sub-agents."""

    working: bool
    listening: bool
    """Whether the program that has it open takes messages."""
    effort: str
    goal: str
    """The command that must succeed before a run is done."""
    check: Check | None
    """Its newest check."""
    tools: list[str]
    context: ContextFill
    shortened: int
    children: list[Branch]
    total: Tokens
    """With its sub-agents."""
    ancestors: list[Ancestor]


class Spent(msgspec.Struct, frozen=True):
    """What today has cost against one budget, in US dollars."""

    name: str
    """Of the budget in the settings: `day`, `folder_day` or `owner_day`."""
    cost: float
    budget: float
    text: str
    warned: bool
    """Whether it is nearly used up. When it is, no request is sent until midnight."""


class Budgets(msgspec.Struct, frozen=True):
    """The budgets that bound a session."""

    budgets: list[Spent]


class EntriesPage(msgspec.Struct, frozen=True):
    """A page of entries, oldest first."""

    entries: Annotated[list[Any], _either("Entry")]
    first: int
    last: int
    earlier: bool
    later: bool


class Messages(msgspec.Struct, frozen=True):
    """The newest messages, oldest first."""

    messages: list[Message]
    earlier: bool


class Questions(msgspec.Struct, frozen=True):
    """Questions that wait for a person."""

    questions: Annotated[list[Any], _either("Question")]


class Settled(msgspec.Struct, frozen=True):
    """Whether an answer counts. If another was first, the question names it."""

    first: bool
    question: Json | None


class Facets(msgspec.Struct, frozen=True):
    """The folders and models of all sessions."""

    folders: list[str]
    models: list[str]


class TurnRequest(msgspec.Struct, frozen=True):
    """The request of a turn. A long one is shown in pages: `earlier` is the `before` of the next."""

    model: str
    address: str
    body: str
    earlier: int | None
    lost: str = ""
    """Why it paid again for tokens that were cached, if it did."""


class ShownEntry(msgspec.Struct, frozen=True):
    """An entry in the form `view`. It has other fields, which may change with the page."""

    seq: int
    time: float
    kind: str


class ShownQuestion(msgspec.Struct, frozen=True):
    """A question in the form `view`. It has other fields, which may change with the page."""

    id: str
    session: str
    kind: str


class UsageRow(msgspec.Struct, frozen=True):
    """What one day, model or folder has used."""

    name: str
    requests: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cached_share: float | None
    cost: float | None
    """US dollars, of the requests whose price is known; null if there are none of them."""
    unpriced: int
    """The requests whose price is not known."""
    first_token: float | None
    """Seconds until the first token of a reply."""


class UsageReport(msgspec.Struct, frozen=True):
    """Sums by day, model or folder. Until they are complete, ask again."""

    rows: list[UsageRow]
    complete: bool


class TurnRow(msgspec.Struct, frozen=True):
    """The context after a turn."""

    turn: int
    seq: int
    time: float
    tokens: int
    compacted: bool
    cost: float | None


class ContextByTurn(msgspec.Struct, frozen=True):
    """How the context of a session grew: an outline for a plot, and the newest turns."""

    title: str
    window: int | None
    count: int
    points: list[tuple[int, int]]
    turns: list[TurnRow]


class EvalHead(msgspec.Struct, frozen=True, kw_only=True):
    """An eval with the figures of its models."""

    name: str
    title: str
    updated: float
    figures: list[Figures]


class EvalPage(msgspec.Struct, frozen=True):
    """The evals of a log, the newest first."""

    evals: list[EvalHead]


class EvalTrial(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a task."""

    model: str
    repeat: int
    reward: float
    solved: bool
    status: str
    turns: int
    seconds: float
    session: str


class EvalTask(msgspec.Struct, frozen=True):
    """A task of an eval with its trials."""

    task: str
    trials: list[EvalTrial]


class EvalDetails(EvalHead, frozen=True, kw_only=True):
    """An eval with its trials."""

    tasks: list[EvalTask]
    comparison: list[str]
    """Sentences that compare it with another."""
