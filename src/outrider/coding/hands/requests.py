"""What a session asks of its hands, each request with the type of its answer, and the settings that hold there."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from outrider.coding.permissions.decision import Decision
from outrider.coding.permissions.question import Mode, Preview
from outrider.conversation.attachments import MAX_BYTES
from outrider.log.entries import RewindEntry, SnapshotEntry

HANDS_TOOLS = ("Read", "Write", "Edit", "Glob", "Grep", "Bash")
"""The tools that work where the files are. The others stay with the session."""
MOST_FILES = 64
"""Files of one answer."""


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
