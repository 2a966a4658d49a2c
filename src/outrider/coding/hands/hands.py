"""`Hands`: all that a workbench uses of hands elsewhere."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec

from outrider.coding.commands import Command, FoundCommands
from outrider.coding.config.settings import PermissionSettings, SandboxSettings, Settings
from outrider.coding.found_skills import FoundSkill, FoundSkills
from outrider.coding.hands.connection import HandsConnection
from outrider.coding.hands.link import Exchange
from outrider.coding.hands.place import Place
from outrider.coding.hands.protocol import Welcome
from outrider.coding.hands.requests import (
    CommandFound,
    DiffSinceCommit,
    Fetch,
    FileInfo,
    Leave,
    ListFiles,
    Look,
    PlanRestore,
    Restore,
    Setup,
    SkillText,
    SnapshotRecord,
    SnapshotTaken,
    Stance,
    Survey,
    Surveyed,
    TakeSnapshot,
)
from outrider.coding.hands.starter import Starter
from outrider.coding.hands.tools import CommandsElsewhere, Forwarding, JudgeElsewhere, received, stance_of
from outrider.coding.named_files import Kind, NamedFiles
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.question import PendingCall
from outrider.coding.toolbox.workspace import Workspace
from outrider.coding.user_policy import NOWHERE
from outrider.conversation.attachments import Attachment
from outrider.errors import HandsError, LogError
from outrider.log.entries import RewindEntry, SnapshotEntry
from outrider.log.log import Log
from outrider.log.working_folder import FileChange, Timeline
from outrider.skills.skill import Skill
from outrider.text.visible import safe_line

LONGEST_SITUATION, LONGEST_TEXT = 2_000, 512 * 1024
"""Characters of what the hands say about a project that go into the system prompt."""
MOST_NAMED = 1_000
"""Skills, and commands, of a project."""
_SECONDS = 60.0


class Hands:
    """The hands of one session: its workspace there, its permissions, and what the project says."""

    def __init__(
        self,
        starter: Starter | None,
        settings: Settings,
        policy: Callable[[], Policy],
        notice: Callable[[str], None] | None = None,
    ) -> None:
        """Without a starter, the settings say where the hands are. Raises ConfigError.

        `policy` returns the session's, which may change. `notice` is told about lost connections."""
        starter = starter or Place.parse(settings.workspace or "", settings.container_program or "")
        wanted, sandbox = settings.permissions, settings.sandbox
        setup = Setup(
            folders=tuple(wanted.folders),
            secrets=None if wanted.secrets is None else tuple(wanted.secrets),
            sandbox=sandbox.use,
            pass_env=tuple(sandbox.pass_env),
            allow_hosts=tuple(sandbox.allow_hosts),
            attachment_bytes=settings.limits.attachment_bytes,
        )
        self._policy = policy
        self._known: tuple[Policy, Stance] | None = None
        self.connection = HandsConnection(starter, setup, self._stance, notice=notice or (lambda _: None))
        self._numbers = itertools.count(1)
        self._workspaces: dict[str, WorkspaceElsewhere] = {}
        self.background = CommandsElsewhere(self.connection)
        """The background commands."""
        self.workspace = self._new_workspace("")
        self.judge = JudgeElsewhere(self.connection, policy, self._forwarding)

    @property
    def place(self) -> str:
        """Where the hands are, for people."""
        return self.connection.place

    def open(self) -> Welcome:
        """Connect, unless that was done. Raises HandsError, with what to do."""
        return self.connection.open()

    def close(self) -> None:
        self.connection.close()

    def _stance(self) -> Stance:
        policy = self._policy()
        if self._known is None or self._known[0] is not policy:
            self._known = policy, stance_of(policy)
        return self._known[1]

    # Workspaces

    def _new_workspace(self, name: str) -> WorkspaceElsewhere:
        made = self._workspaces[name] = WorkspaceElsewhere(self, name)
        return made

    def subagent_workspace(self) -> WorkspaceElsewhere:
        return self._new_workspace(str(next(self._numbers)))

    def leave(self, name: str) -> None:
        """Close the workspace of a sub-agent there."""
        self._workspaces.pop(name, None)
        self.connection.send(Leave(name))

    def _forwarding(self, call: PendingCall) -> Forwarding:
        return self._workspaces.get(call.workspace, self.workspace).forwarding

    # The project

    @cached_property
    def surveyed(self) -> Surveyed:
        """What the project says to agents. Raises HandsError."""
        found = self.connection.ask_now(Survey(), Surveyed, seconds=_SECONDS)
        return msgspec.structs.replace(
            found,
            situation=found.situation[:LONGEST_SITUATION],
            instructions=found.instructions[:LONGEST_TEXT],
            skills_section=found.skills_section[:LONGEST_TEXT],
            notes=tuple(safe_line(each[:1_000]) for each in found.notes[:20]),
        )

    @property
    def skills(self) -> FoundSkills:
        """The skills of the project, and of the user there."""
        return FoundSkills(
            tuple(
                FoundSkill(
                    _SkillElsewhere(each.name, each.description, Path(each.path), read=self._skill_text),
                    each.origin,
                    each.is_project,
                )
                for each in self.surveyed.skills[:MOST_NAMED]
            )
        )

    def _skill_text(self, name: str) -> str:
        return self.connection.ask_now(SkillText(name), str, seconds=_SECONDS)[:LONGEST_TEXT]

    @property
    def skills_section(self) -> str:
        return self.surveyed.skills_section

    @property
    def instructions(self) -> str:
        return self.surveyed.instructions

    @property
    def situation(self) -> str:
        return self.surveyed.situation

    @property
    def notes(self) -> tuple[str, ...]:
        return self.surveyed.notes

    @property
    def sandbox_note(self) -> str:
        note = self.open().sandbox_note
        return f"{safe_line(self.place)}: {safe_line(note[:1_000])}" if note else ""

    @property
    def is_sandboxed(self) -> bool:
        return self.open().is_sandboxed

    @property
    def files(self) -> NamedFiles:
        return self

    def commands_with(self, own: FoundCommands) -> FoundCommands:
        by_name = {each.name: each for each in (*own.commands, *map(_command, self.surveyed.commands[:MOST_NAMED]))}
        return FoundCommands(tuple(by_name.values()), own.refused)

    def changes_since_commit(self) -> str:
        return self.connection.ask_now(DiffSinceCommit(), str, seconds=_SECONDS)

    def working_folder(self, log: Log, session: str) -> FolderElsewhere:
        return FolderElsewhere(self.connection, log, session)

    # Files that the user names

    def kinds(self, names: Sequence[str]) -> list[Kind]:
        kinds = self.connection.ask_now(Look(tuple(names)), list[Kind], seconds=_SECONDS)
        if len(kinds) != len(names):
            raise HandsError("an answer has the wrong length")
        return kinds

    def located(self, name: str) -> str:
        """Return the name: the hands follow links."""
        return name

    def attach(self, name: str) -> Attachment:
        """Return a file as an attachment, with its bytes on disk here. Raises HandsError."""
        exchange: Exchange[FileInfo] = self.connection.exchange_now(Fetch(name), FileInfo)
        if file := received(exchange.value, exchange.files):
            return file
        raise HandsError(safe_line(exchange.value.problem or f"{name} did not come"))

    def names(self) -> list[str]:
        """Return the files of the folder without those that git ignores; none if the hands do not answer."""
        try:
            return self.connection.ask_now(ListFiles(), list[str], seconds=10.0)
        except HandsError:
            return []


class WorkspaceElsewhere(Workspace):
    """The state that a session, or a sub-agent, keeps here for its tools there."""

    def __init__(self, hands: Hands, name: str) -> None:
        super().__init__(NOWHERE)
        self._hands = hands
        self.name = name
        self.forwarding = Forwarding(hands.connection, name, hands.background, lambda call: self.granted(call))
        self.forwarded = self.forwarding.around
        self.background = hands.background

    def open(self) -> None:
        self._hands.open()

    def for_subagent(self, folder: Path | None = None) -> WorkspaceElsewhere:
        """Return a workspace in the same folder without this one's state. There are no worktrees elsewhere."""
        return self._hands.subagent_workspace()

    def close(self) -> None:
        """End what the sub-agent still runs, or everything."""
        if self.name:
            self._hands.leave(self.name)
        else:
            self._hands.close()


def workspace_at(place: str) -> Workspace:
    """Return the workspace of an agent's tools in another place, written as for `outrider --in`.

    Like those of `Workspace`, its tools do what they are called for: `approve=` of the agent or the session decides.
    Raises ConfigError for what is no place.
    """
    everything = PermissionSettings(mode="all", secrets=())
    settings = Settings(permissions=everything, sandbox=SandboxSettings(use="off"))
    policy = Policy(folder=NOWHERE, mode="all")
    return Hands(Place.parse(place), settings, lambda: policy).workspace


class _SkillElsewhere(Skill, frozen=True, kw_only=True):
    """A skill whose files are in the hands. Its path is text: it is never opened here."""

    read: Callable[[str], str]

    def text(self) -> str:
        return self.read(self.name)


def _command(found: CommandFound) -> Command:
    return Command(found.name, found.text, found.description, found.hint, Path(found.path), found.origin)


T = TypeVar("T")


class FolderElsewhere:
    """A `WorkingFolder` in the hands. The log here has the names of snapshots, the store there their contents."""

    def __init__(self, connection: HandsConnection, log: Log, session: str) -> None:
        self._connection = connection
        self._log = log
        self._session = session
        self._is_stale = False
        self._notices: list[str] = []

    def snapshot(self, *, opens: bool = False) -> SnapshotEntry | None:
        """Record what changed, and return the entry to write; None if the hands cannot."""
        request = TakeSnapshot(self._session, self._records(), opens, self._is_stale)
        try:
            taken = self._connection.ask_now(request, SnapshotTaken)
        except HandsError as error:
            self._is_stale = True
            self._notices.append(f"The files were not recorded for a rewind: {error}")
            return None
        self._is_stale = False
        self._notices += [safe_line(each[:1_000]) for each in taken.notices[:5]]
        entry = taken.entry
        if entry is None or not re.fullmatch("([0-9a-f]{64})?", entry.changes):
            return None
        return msgspec.structs.replace(entry, folder=self._label, opens=opens, restores=False)

    def forget(self) -> None:
        self._is_stale = True

    def take_notices(self) -> list[str]:
        taken, self._notices = self._notices, []
        return taken

    def timeline(self) -> Timeline:
        """Return the snapshots in the log. Their contents cannot be read here."""
        return Timeline(self._log.snapshots(self._session), self._label, self._log.snapshot_store)

    def changes(self, timeline: Timeline, point: int, *, diffs: bool = False) -> Sequence[FileChange]:
        return self._asked(PlanRestore(self._session, self._records(), point, diffs), list[FileChange])

    def restore(self, timeline: Timeline, point: int, paths: Sequence[str]) -> dict[str, str]:
        request = Restore(self._session, self._records(), point, tuple(paths))
        return self._asked(request, dict[str, str], repeats=False)

    def _asked(self, request: PlanRestore | Restore, kind: type[T], *, repeats: bool = True) -> T:
        try:
            return self._connection.ask_now(request, kind, repeats=repeats)
        except HandsError as error:
            raise LogError(f"the files cannot be restored: {error}") from None

    @property
    def _label(self) -> str:
        """The name of the folder in the log. It is no path of this machine, whatever the hands call it."""
        return f"{self._connection.place} {self._connection.open().folder}"

    def _records(self) -> tuple[SnapshotRecord, ...]:
        """Return the snapshots of this folder, and the rewinds, as the hands know them."""
        records, folder, label = [], self._connection.open().folder, self._label
        for record in self._log.snapshots(self._session):
            match record.entry:
                case SnapshotEntry(folder=name) as entry if name == label:
                    records.append(SnapshotRecord(record.seq, msgspec.structs.replace(entry, folder=folder)))
                case RewindEntry() as rewind:
                    records.append(SnapshotRecord(record.seq, rewind=rewind))
        return tuple(records)
