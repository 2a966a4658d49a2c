"""What requests to the API have. The OpenAPI document is made from these types."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from outrider.coding.permissions.question import Mode
from outrider.log.session_filter import SessionFilter

Form: TypeAlias = Literal["data", "view"]
"""`data`: as the log has it. `view`: for people, with Markdown as a tree, long texts cut, hidden characters visible."""
MAX_COUNT = 1_000
Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Text: TypeAlias = Annotated[str, Meta(max_length=500_000)]
Name: TypeAlias = Annotated[str, Meta(max_length=4_000)]


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
