"""Going back to an earlier message of a session: its conversation, its files, or both. Nothing is lost from the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from outrider.conversation.messages import Message
from outrider.conversation.user_messages import user_messages
from outrider.errors import ConversationError, RewindConflictError
from outrider.log.entries import Entry, RewindEntry, SnapshotEntry
from outrider.log.working_folder import FileChange, WorkingFolder

if TYPE_CHECKING:
    from outrider.log.journal import Journal
    from outrider.log.log import Log
    from outrider.log.state import SessionState
    from outrider.log.working_folder import Timeline


class RewindPoint(msgspec.Struct, frozen=True):
    """A message of the user, to which a session can go back."""

    number: int
    """Its number among the messages of the user, from 1."""
    message: Message
    time: float = 0.0
    """When it was said, in seconds since 1970."""


class RewindPreview(msgspec.Struct, frozen=True):
    """What a rewind would do."""

    to: int
    message: Message | None
    """The message of the user to go back to; None when a rewind is taken back."""
    messages: int
    """How many messages would be left out of the conversation."""
    files: tuple[FileChange, ...] = ()
    """The files that would change."""

    @property
    def conflicts(self) -> tuple[str, ...]:
        """The paths of files that someone else changed since."""
        return tuple(file.path for file in self.files if file.is_conflict)

    @property
    def not_kept(self) -> tuple[str, ...]:
        """The paths of files that cannot be restored, because their content was not kept."""
        return tuple(file.path for file in self.files if not file.is_kept)


class Rewound(msgspec.Struct, frozen=True):
    """What a rewind did."""

    to: int
    message: Message | None
    """The message of the user that it went back to: it is no longer in the conversation, and can be sent again."""
    messages: int = 0
    """How many messages were left out of the conversation."""
    files: tuple[str, ...] = ()
    """The paths of the files that were restored."""
    not_restored: dict[str, str] = {}
    """The paths of files that were left as they are, with the reasons."""


class Rewinder:
    """Rewinds a held session. Its methods block. Raises ConversationError, RewindConflictError and LogError."""

    def __init__(self, log: Log, journal: Journal, folder: WorkingFolder | None) -> None:
        self._log = log
        self._journal = journal
        self._folder = folder

    def points(self) -> list[RewindPoint]:
        """Return the messages of the user."""
        state = self._state()
        times = {row[1]: row[2] for row in self._log.rows(self._journal.id)}
        found = enumerate(user_messages(state.messages), 1)
        return [RewindPoint(number, state.messages[at], times[state.seqs[at]]) for number, at in found]

    def preview(self, to: int) -> RewindPreview:
        """Return what a rewind to the message would do."""
        state = self._state()
        index = _index(state, to)
        self._record()
        timeline, point = self._point_after(state.seqs[index])
        files = self._changes(timeline, point, diffs=True)
        return RewindPreview(to, state.messages[index], len(state.messages) - index, tuple(files))

    def preview_undo(self) -> RewindPreview:
        """Return what `undo` would do."""
        rewind = self._last_rewind(self._state())
        self._record()
        timeline = self._folder.timeline() if self._folder else None
        files = self._changes(timeline, timeline.before_rewind if timeline else None, diffs=True)
        return RewindPreview(rewind.to, None, 0, tuple(files))

    def rewind(self, to: int, *, files: bool = True, conversation: bool = True, force: bool = False) -> Rewound:
        """Go back to before a message of the user."""
        if not files and not conversation:
            raise ConversationError("a rewind restores the files, the conversation, or both; both were switched off")
        state = self._state()
        index = _index(state, to)
        dropped = len(state.messages) - index if conversation else 0
        done = Rewound(to, state.messages[index], dropped)
        entry = RewindEntry(to, dropped, conversation, files and self._folder is not None)
        if not files or self._folder is None:
            self._journal.write_now(entry)
            return done
        self._record()
        return self._restored(done, entry, *self._point_after(state.seqs[index]), force)

    def undo(self, *, force: bool = False) -> Rewound:
        """Take back the newest rewind. What was said since is left out."""
        state = self._state()
        last = self._last_rewind(state)
        done, entry = Rewound(last.to, None), msgspec.structs.replace(last, undo=True)
        if not last.files or self._folder is None:
            self._journal.write_now(entry)
            return done
        self._record()
        timeline = self._folder.timeline()
        return self._restored(done, entry, timeline, timeline.before_rewind, force)

    def _restored(
        self, done: Rewound, entry: RewindEntry, timeline: Timeline | None, point: int | None, force: bool
    ) -> Rewound:
        """Restore the files, and record it together with the rewind."""
        changes = self._changes(timeline, point)
        if not force and (conflicts := [file.path for file in changes if file.is_conflict]):
            raise RewindConflictError(conflicts)
        possible = [file.path for file in changes if file.is_kept or (force and file.action == "delete")]
        left = {file.path: "its content was not kept" for file in changes if file.path not in set(possible)}
        failed: dict[str, str] = {}
        self._record(opens=True)  # also without changes: undo goes back to this point
        if self._folder and timeline and point is not None and possible:
            failed = self._folder.restore(timeline, point, possible)
        self._record(then=entry)
        restored = tuple(path for path in possible if path not in failed)
        return msgspec.structs.replace(done, files=restored, not_restored=left | failed)

    def _changes(self, timeline: Timeline | None, point: int | None, *, diffs: bool = False) -> Sequence[FileChange]:
        if self._folder is None or timeline is None or point is None:
            return ()
        return self._folder.changes(timeline, point, diffs=diffs)

    def _point_after(self, seq: int) -> tuple[Timeline | None, int | None]:
        timeline = self._folder.timeline() if self._folder else None
        return timeline, timeline.after(seq) if timeline else None

    def _record(self, *, opens: bool = False, then: Entry | None = None) -> None:
        """Write a snapshot of the folder as it is now, and another entry in the same commit."""
        snapshot = self._folder.snapshot(opens=opens) if self._folder else None
        if snapshot and opens:
            snapshot = msgspec.structs.replace(snapshot, restores=True)
        entries: list[Entry] = [each for each in (snapshot, then) if each is not None]
        if entries and not (then is None and self._is_needless(snapshot, opens)):
            self._journal.write_now(*entries)

    def _is_needless(self, snapshot: SnapshotEntry | None, opens: bool) -> bool:
        """Return whether a snapshot says nothing new."""
        if opens or snapshot is None or snapshot.changes or snapshot.is_whole:
            return False
        return self._folder is not None and not self._folder.timeline().is_open

    def _state(self) -> SessionState:
        return self._log.state(self._journal.id)

    @staticmethod
    def _last_rewind(state: SessionState) -> RewindEntry:
        if not state.rewinds:
            raise ConversationError("there is no rewind to undo")
        return state.rewinds[-1]


def _index(state: SessionState, to: int) -> int:
    """Return the index of a message of the user, by its number from 1."""
    found = user_messages(state.messages)
    if not 1 <= to <= len(found):
        there = f"the session has 1 to {len(found)}" if found else "the session has none"
        raise ConversationError(f"there is no user message {to} to go back to; {there}")
    return found[to - 1]
