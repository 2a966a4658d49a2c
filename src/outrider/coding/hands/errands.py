"""What a session asks of its hands beside calls: the project's texts, files that the user names, snapshots, output."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

from outrider.coding.git_commands import changes_since_commit
from outrider.coding.hands.hand import Hand, Reply
from outrider.coding.hands.requests import (
    CommandFound,
    DiffSinceCommit,
    EndCommand,
    Fetch,
    FollowOutput,
    Leave,
    ListFiles,
    Look,
    MoveRunning,
    PlanRestore,
    ReadOutput,
    Request,
    Restore,
    SkillFound,
    SkillText,
    SnapshotRecord,
    SnapshotTaken,
    Survey,
    Surveyed,
    TakeSnapshot,
)
from outrider.coding.named_files import kind_of
from outrider.coding.snapshots.folder import FolderSnapshots
from outrider.coding.system_prompt import as_prompt, project_instructions, situation
from outrider.coding.toolbox.background_commands import BackgroundCommand, OutputReader
from outrider.coding.user_policy import secret_patterns
from outrider.conversation.attachments import Attachment
from outrider.environment import data_folder
from outrider.errors import HandsError
from outrider.log.entries import Record
from outrider.log.snapshot_store import SnapshotStore

MOST_NAMES = 50_000
MOST_COMMANDS = 200
MOST_FOLLOWERS = 8
KEPT_DAYS = 30
"""After so many days without use, contents of files in snapshots are removed."""


class Errands:
    """Does what is not a call. Its methods block, except for `fetch`, and may be called in several threads."""

    def __init__(self, hand: Hand) -> None:
        self._hand = hand
        self._snapshots: dict[str, FolderSnapshots] = {}
        self._log = _GivenLog()
        self._readers: OrderedDict[str, OutputReader] = OrderedDict()
        self._extensions: Any = None

    def do(self, request: Request) -> Any:
        """Return the answer to a request. Raises OutriderError and OSError."""
        match request:
            case Survey():
                return self._survey()
            case SkillText(name):
                skill = self._found.skills.get(name)
                if skill is None:
                    raise HandsError(f"there is no skill {name[:80]!r} any more")
                return skill.text()
            case Look(names):
                return [kind_of(self._hand.folder, name) for name in names]
            case ListFiles():
                return self._names()
            case DiffSinceCommit():
                tools, workspace = self._hand.session_tools, self._hand.workspace
                return changes_since_commit(
                    workspace.folder, workspace.programs, lambda argv: tools.at_read(argv, workspace)
                )
            case TakeSnapshot() | PlanRestore() | Restore():
                return self._with_snapshots(request)
            case _:
                return self._with_commands(request)

    async def fetch(self, request: Fetch, reply: Reply) -> Any:
        """Send a file that the user has named."""
        return await self._hand.send_file(Attachment.from_path(self._hand.workspace.path(request.name)), 0, reply)

    # The project

    @property
    def _found(self) -> Any:
        if self._extensions is None:
            from outrider.coding.extensions import Extensions

            self._extensions = Extensions(self._hand.folder)
        return self._extensions

    def _survey(self) -> Surveyed:
        from outrider.coding.found_skills import index_folder, readable_rules, skills_section

        folder, found = self._hand.folder, self._found
        section = ""
        if found.skills.found:
            section = skills_section(found.skills.skills, data_folder())
            self._hand.allow_reading(readable_rules(found.skills, folder, index_folder(data_folder())))
        return Surveyed(
            situation(folder),
            as_prompt(project_instructions(folder, home=Path.home())),
            section,
            tuple(
                SkillFound(each.skill.name, each.skill.description, str(each.skill.path), each.origin, each.is_project)
                for each in found.skills.found
            ),
            tuple(
                CommandFound(each.name, each.text, each.description, each.hint, str(each.path or ""), each.origin)
                for each in found.commands.commands[:MOST_COMMANDS]
            ),
            (*found.skills.refused, *found.commands.refused),
        )

    def _names(self) -> list[str]:
        from outrider.coding.toolbox.search.ripgrep import file_names

        return file_names(self._hand.workspace.programs, self._hand.folder)[:MOST_NAMES]

    # Snapshots

    def _with_snapshots(self, request: TakeSnapshot | PlanRestore | Restore) -> Any:
        self._log.records = [_record(each) for each in request.records]
        secrets = secret_patterns(self._hand.settings)
        made = FolderSnapshots(self._hand.folder, self._log, request.session, secrets=secrets)
        folder = self._snapshots.setdefault(request.session, made)
        match request:
            case TakeSnapshot(opens=opens, anew=anew):
                self._log.remove_old()
                if anew:
                    folder.forget()
                return SnapshotTaken(folder.snapshot(opens=opens), tuple(folder.take_notices()))
            case PlanRestore(point=point, diffs=diffs):
                return list(folder.changes(folder.timeline(), point, diffs=diffs))
            case Restore(point=point, paths=paths):
                return folder.restore(folder.timeline(), point, paths)

    # Background commands

    def _with_commands(self, request: Request) -> Any:
        commands = self._hand.workspace.background
        match request:
            case ReadOutput(number, size):
                return self._command(number).newest_output(max(0, min(size, OutputReader.MOST)))
            case FollowOutput(number, follower, rest):
                return self._reader(self._command(number), follower).lines(rest=rest)
            case EndCommand(number):
                self._command(number).end()
            case MoveRunning():
                commands.move_running()
            case Leave(workspace):
                self._hand.leave(workspace)
            case _:
                raise HandsError("the hands do not know this request")
        return None

    def _command(self, number: int) -> BackgroundCommand:
        if command := self._hand.workspace.background.find(number):
            return command
        raise HandsError(f"there is no background command {number} any more")

    def _reader(self, command: BackgroundCommand, follower: str) -> OutputReader:
        if follower not in self._readers:
            while len(self._readers) >= MOST_FOLLOWERS:
                self._readers.popitem(last=False)[1].__exit__()
            self._readers[follower] = command.follow()
        return self._readers[follower]


class _GivenLog:
    """What snapshots need of the session's log, which is elsewhere. The contents of files are kept here."""

    def __init__(self) -> None:
        self.folder = data_folder() / "hands"
        self.snapshot_store = SnapshotStore(self.folder / "snapshots")
        self.records: list[Record] = []
        self._is_clean = False

    def snapshots(self, _: str, /) -> list[Record]:
        return self.records

    def remove_old(self) -> None:
        """Remove what no session has used for long, once in a process."""
        if self._is_clean:
            return
        self._is_clean = True
        oldest = time.time() - KEPT_DAYS * 24 * 3600
        for above, _, names in os.walk(self.snapshot_store.folder):
            for name in names:
                with suppress(OSError):
                    if os.lstat(path := os.path.join(above, name)).st_mtime < oldest:
                        os.unlink(path)


def _record(given: SnapshotRecord) -> Record:
    entry = given.snapshot or given.rewind
    if entry is None:
        raise HandsError("a record has no entry")
    return Record(given.seq, 0.0, entry)
