"""What requests and answers of the API have. The OpenAPI document is made from these types."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from outrider.coding.permissions.question import Mode
from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage as AllUsage
from outrider.evals.figures import Figures
from outrider.log.session_filter import SessionFilter

Json = dict[str, Any]
Form: TypeAlias = Literal["data", "view"]
"""`data`: as the log has it. `view`: for people, with Markdown as a tree, long texts cut, hidden characters visible."""
MAX_COUNT = 1_000
Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Text: TypeAlias = Annotated[str, Meta(max_length=500_000)]
Name: TypeAlias = Annotated[str, Meta(max_length=4_000)]


def _either(name: str) -> Meta:
    forms = [{"$ref": f"#/components/schemas/{each}"} for each in (name, f"Shown{name}")]
    return Meta(extra_json_schema={"items": {"anyOf": forms}})


# Requests


class Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message to a session."""

    text: Text
    mode: Mode | None = None
    """The permission mode of the run, if the message begins one."""


class NewSession(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A session to begin."""

    text: Text = ""
    """The first message. Without it, the session waits for one."""
    folder: Name = ""
    """The working folder of a coding session; left out where the server has an agent of its own."""
    model: Name = ""
    mode: Mode | None = None
    """The permission mode; that of the settings if left out."""
    owner: Annotated[str, Meta(max_length=1_000)] = ""
    """Whose it is. A request of an owner makes only sessions of this owner."""
    metadata: dict[str, str] = {}


class Goal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a session works for."""

    command: Text
    """The command that must succeed before a run is done. An empty one ends the goal."""


class Fork(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of a session to copy."""

    at: Number | None = None
    """The last entry that the fork has."""


class EvalQuery(msgspec.Struct, frozen=True):
    """With which eval to compare."""

    against: Name = ""


class FormQuery(msgspec.Struct, frozen=True):
    """How entries or questions are shown."""

    form: Form = "data"


class QuestionsQuery(msgspec.Struct, frozen=True):
    """Whose questions."""

    session: Name = ""
    form: Form = "data"


class PageQuery(msgspec.Struct, frozen=True):
    """Which entries: those before or after one, those around one, or the newest."""

    before: Number | None = None
    after: Number | None = None
    around: Number | None = None
    limit: Limit = 80
    form: Form = "data"


class MessagesQuery(msgspec.Struct, frozen=True):
    """Which messages: the newest, at least so many if there are."""

    limit: Limit = 100


class EventsQuery(msgspec.Struct, frozen=True):
    """Which events. The header `Last-Event-ID` counts more than `after`."""

    session: Name = ""
    after: Annotated[str, Meta(pattern=r"^[0-9]{1,15}(\.[0-9]{1,18})?$")] = "0"
    """The id of the last event that the client has."""
    form: Form = "data"


class ListQuery(msgspec.Struct, frozen=True):
    """Which sessions."""

    search: Name = ""
    """Words that are all in the title, or in one message, call or result."""
    folder: Name = ""
    model: Name = ""
    owner: Annotated[str, Meta(max_length=1_000)] = ""
    since: float | None = None
    until: float | None = None
    min_cost: float | None = None
    metadata: Name = ""
    """`key=value`: a pair that the sessions have."""
    offset: Number = 0
    limit: Limit = 50
    chats: bool = False
    """Only conversations of people: not those of -p, batches and programs, nor those without an answer."""

    @property
    def filter(self) -> SessionFilter:
        """The filter of the sessions."""
        key, _, value = self.metadata.partition("=")
        pairs = {key: value} if key else {}
        return SessionFilter(self.folder, self.model, self.since, self.until, self.min_cost, self.owner, pairs)


class FileQuery(msgspec.Struct, frozen=True):
    """How a file is sent: `type` shows a picture; with a `name`, and all other files, it is a download."""

    type: Name = ""
    name: Name = ""


class FiguresQuery(msgspec.Struct, frozen=True):
    """Of which time."""

    days: Annotated[float, Meta(gt=0, le=100_000)] | None = None


class WireQuery(msgspec.Struct, frozen=True):
    """Which request: `as` is another model, `before` a page of a long one."""

    model: Name = msgspec.field(default="", name="as")
    before: Number | None = None


# Answers


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
