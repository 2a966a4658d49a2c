"""The messages between a session and its hands, and how they are written to a stream of bytes.

After a first line, each message is a frame: four bytes with its length, then MessagePack. The session sends a `Hello`,
requests, cancels and changes of its permissions. The hands answer each request once, in any order. Before the answer
come progress and the bytes of its files. Neither side trusts the other: a frame that is too long or is no message ends
the connection.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from outrider.coding.access import Access
from outrider.coding.permissions.approver import Preview
from outrider.coding.permissions.decision import Decision
from outrider.coding.permissions.question import Mode
from outrider.conversation.attachments import MAX_BYTES
from outrider.errors import HandsError
from outrider.log.entries import RewindEntry, SnapshotEntry
from outrider.log.working_folder import FileChange
from outrider.struct_types import described
from outrider.text import clean_value

VERSION = 2
PREAMBLE = b"\0outrider-hands\n"
"""The first bytes of the hands, in every version. What a login shell prints before them is skipped."""
LONGEST_FRAME = 16 * 1024 * 1024
CHUNK = 256 * 1024
"""Bytes of a file in one frame."""
HANDS_TOOLS = ("Read", "Write", "Edit", "Glob", "Grep", "Bash")
"""The tools that work where the files are. The others stay with the session."""
MOST_FILES = 64
"""Files of one answer."""

T = TypeVar("T")


class Stance(msgspec.Struct, frozen=True, kw_only=True):
    """The session's permissions, as far as they change."""

    mode: Mode = "ask"
    allow: tuple[tuple[str, bool], ...] = ()
    """The rules, and whether each holds for the whole repository."""
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    """The doubts about the sandbox that the user has accepted."""


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the session that hold for its hands. Nothing else of the settings goes there."""

    folders: tuple[str, ...] = ()
    """More working folders."""
    secrets: tuple[str, ...] | None = None
    sandbox: Literal["auto", "off", "require"] = "auto"
    pass_env: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    attachment_bytes: int = MAX_BYTES
    """The size of the largest file that a result may have."""


class CallToDo(msgspec.Struct, frozen=True):
    """A call of a tool, and where it is made."""

    id: str
    tool: str
    input: dict[str, Any]
    workspace: str = ""
    """The workspace of a sub-agent; empty for that of the session."""
    cwd: str = ""
    """Where the shell of the workspace was, for hands that were started anew."""

    def is_same(self, other: CallToDo) -> bool:
        """Return whether it is the same call, wherever the shell was."""
        return (self.id, self.tool, self.input) == (other.id, other.tool, other.input)

    @property
    def only_looks(self) -> bool:
        """Whether the call changes nothing: a tool that reads, or a command that ends with the call, at `read`."""
        if self.tool == "Bash":
            goes_on = any(self.input.get(name) for name in ("run_in_background", "terminal", "session"))
            return self.input.get("access", "read") == "read" and not goes_on
        return self.tool in ("Read", "Glob", "Grep")


# Requests, each with the type of its answer.


class Judge(msgspec.Struct, frozen=True, tag=True):
    """Decide whether a call may run: `Judged`. `stance` replaces the session's for this decision."""

    call: CallToDo
    stance: Stance | None = None


class Judged(msgspec.Struct, frozen=True):
    """A decision, and what a question would show."""

    decision: Decision
    preview: Preview = Preview()


class Run(msgspec.Struct, frozen=True, tag=True):
    """Run a call that the session has allowed, or that its rules allow: `Done`."""

    call: CallToDo
    session: str = ""
    reply: str = ""
    key: str = ""
    characters: int | None = None
    """The most characters of the result that the model reads."""
    agreed: tuple[str, ...] = ()
    """The resolved paths that the user agreed to."""
    unasked: bool = False
    """Whether a command is allowed by the names of its programs alone."""
    if_allowed: bool = False
    """Whether the hands decide: the call runs if it only looks, and the rules allow it without a question."""


class FileInfo(msgspec.Struct, frozen=True):
    """A file whose bytes came before, by its place among the files of the answer."""

    number: int
    mime_type: str = ""
    name: str = ""
    description: str = ""
    problem: str = ""
    """Why there are no bytes."""


class Done(msgspec.Struct, frozen=True):
    """The result of a call."""

    text: str
    is_error: bool = False
    is_json: bool = False
    details: Any = None
    note: str = ""
    files: tuple[FileInfo, ...] = ()
    whole: FileInfo | None = None
    instructions: tuple[tuple[str, str], ...] = ()
    """Paths and texts of the instructions for the folder that the call was about."""
    cwd: str = ""
    """Where the shell of the workspace is now."""
    did_run: bool = True
    """Whether the call ran. One that is sent with `if_allowed` may not."""


class Survey(msgspec.Struct, frozen=True, tag=True):
    """Look at the project: `Surveyed`."""


class SkillFound(msgspec.Struct, frozen=True):
    """A skill of the project, or of the user there."""

    name: str
    description: str
    path: str
    origin: str
    is_project: bool


class CommandFound(msgspec.Struct, frozen=True):
    """A command of the project, or of the user there."""

    name: str
    text: str
    description: str
    hint: str
    path: str
    origin: str


class Surveyed(msgspec.Struct, frozen=True):
    """What the system prompt says about a project, and what a person can call by name there."""

    situation: str
    instructions: str = ""
    skills_section: str = ""
    skills: tuple[SkillFound, ...] = ()
    commands: tuple[CommandFound, ...] = ()
    notes: tuple[str, ...] = ()


class SkillText(msgspec.Struct, frozen=True, tag=True):
    """Read the instructions of a skill: a text."""

    name: str


class Look(msgspec.Struct, frozen=True, tag=True):
    """Say which of these names are files or folders: a list with `file`, `folder` or an empty string for each."""

    names: tuple[str, ...]


class Fetch(msgspec.Struct, frozen=True, tag=True):
    """Send a file that the user names: `FileInfo`."""

    name: str


class ListFiles(msgspec.Struct, frozen=True, tag=True):
    """List the files of the folder, without those that git ignores: a list of names."""


class DiffSinceCommit(msgspec.Struct, frozen=True, tag=True):
    """Show what has changed since the last commit: a text."""


class SnapshotRecord(msgspec.Struct, frozen=True):
    """A snapshot or a rewind in the log, with its number there."""

    seq: int
    snapshot: SnapshotEntry | None = None
    rewind: RewindEntry | None = None


class TakeSnapshot(msgspec.Struct, frozen=True, tag=True):
    """Record what changed in the folder: `SnapshotTaken`. `records` are what the log has."""

    session: str
    records: tuple[SnapshotRecord, ...]
    opens: bool = False
    anew: bool = False
    """Whether the last snapshot was not stored in the log."""


class SnapshotTaken(msgspec.Struct, frozen=True):
    """The entry for the log; None for a folder that is too large. Sentences for the user."""

    entry: SnapshotEntry | None
    notices: tuple[str, ...] = ()


class PlanRestore(msgspec.Struct, frozen=True, tag=True):
    """Say what restoring a point would change: a list of `FileChange`."""

    session: str
    records: tuple[SnapshotRecord, ...]
    point: int
    diffs: bool = False


class Restore(msgspec.Struct, frozen=True, tag=True):
    """Restore these files: a mapping of those that could not be restored to the reasons."""

    session: str
    records: tuple[SnapshotRecord, ...]
    point: int
    paths: tuple[str, ...]


class ReadOutput(msgspec.Struct, frozen=True, tag=True):
    """Return the newest output of a background command: bytes."""

    number: int
    size: int


class FollowOutput(msgspec.Struct, frozen=True, tag=True):
    """Return the lines that a background command has printed since the last request of this follower: a text."""

    number: int
    follower: str
    rest: bool = False


class EndCommand(msgspec.Struct, frozen=True, tag=True):
    """End a background command, for the user: None."""

    number: int


class MoveRunning(msgspec.Struct, frozen=True, tag=True):
    """Move the commands that calls wait for to the background: None."""


class Leave(msgspec.Struct, frozen=True, tag=True):
    """Close the workspace of a sub-agent: None."""

    workspace: str


Request: TypeAlias = (
    Judge
    | Run
    | Survey
    | SkillText
    | Look
    | Fetch
    | ListFiles
    | DiffSinceCommit
    | TakeSnapshot
    | PlanRestore
    | Restore
    | ReadOutput
    | FollowOutput
    | EndCommand
    | MoveRunning
    | Leave
)
Changes: TypeAlias = list[FileChange]


# Messages to the hands.


class Hello(msgspec.Struct, frozen=True, tag=True):
    """The first message."""

    version: int
    setup: Setup
    stance: Stance
    first_command: int = 1
    """The number of the next background command."""


class Ask(msgspec.Struct, frozen=True, tag=True):
    """A request."""

    id: int
    request: Request


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """End a request. It is still answered, perhaps with what was done."""

    id: int


class Change(msgspec.Struct, frozen=True, tag=True):
    """The session's permissions have changed. This holds for the requests that follow."""

    stance: Stance


ToHands: TypeAlias = Hello | Ask | Cancel | Change


# Messages of the hands.


class Welcome(msgspec.Struct, frozen=True, tag=True):
    """The answer to a hello."""

    version: int
    folder: str
    is_sandboxed: bool = False
    sandbox_note: str = ""


class Refusal(msgspec.Struct, frozen=True, tag=True):
    """Why the hands do not work here."""

    reason: str


class Answer(msgspec.Struct, frozen=True, tag=True):
    """The answer to a request."""

    id: int
    body: msgspec.Raw


class Failure(msgspec.Struct, frozen=True, tag=True):
    """A request that failed, or was cancelled."""

    id: int
    text: str
    is_cancelled: bool = False


class Progress(msgspec.Struct, frozen=True, tag=True):
    """The progress of a call."""

    id: int
    content: msgspec.Raw


class Chunk(msgspec.Struct, frozen=True, tag=True):
    """The next bytes of a file of an answer."""

    id: int
    file: int
    data: bytes


class CommandState(msgspec.Struct, frozen=True):
    """A background command."""

    number: int
    command: str
    access: Access
    seconds: float
    running: bool
    exit_code: int | None = None
    ended_by_user: bool = False


class Commands(msgspec.Struct, frozen=True, tag=True):
    """The background commands, all of them."""

    commands: tuple[CommandState, ...]


FromHands: TypeAlias = Welcome | Refusal | Answer | Failure | Progress | Chunk | Commands

to_hands: msgspec.msgpack.Decoder[ToHands] = msgspec.msgpack.Decoder(described(ToHands))
from_hands: msgspec.msgpack.Decoder[FromHands] = msgspec.msgpack.Decoder(described(FromHands))


def frame(message: object) -> bytes:
    """Return a message as a frame. Raises HandsError if it is too long or no data."""
    try:
        body = encoded(message)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise HandsError(f"a message cannot be sent: {error}") from None
    if len(body) > LONGEST_FRAME:
        raise HandsError(f"a message of {len(body):,} bytes is too long to be sent; {LONGEST_FRAME:,} are the most")
    return len(body).to_bytes(4) + body


def encoded(message: object) -> bytes:
    """Return data as MessagePack. Lone surrogates, such as in the name of a file, are replaced."""
    try:
        return msgspec.msgpack.encode(message, enc_hook=str)
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(clean_value(msgspec.to_builtins(message, enc_hook=str, builtin_types=(bytes,))))


async def read_frame(reader: asyncio.StreamReader, decoder: msgspec.msgpack.Decoder[T]) -> T | None:
    """Return the next message; None at the end of the stream. Raises HandsError for one that is none."""
    try:
        length = int.from_bytes(await reader.readexactly(4))
        if length > LONGEST_FRAME:
            raise HandsError(f"a frame of {length:,} bytes was announced; {LONGEST_FRAME:,} are the most")
        return decoder.decode(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HandsError(f"a frame is no message: {error}") from None


def decoded(body: msgspec.Raw, kind: Any) -> Any:
    """Return the answer to a request. Raises HandsError if it is of another type."""
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HandsError(f"an answer cannot be read: {error}") from None
