"""The log of all sessions in one place: open, fork, import, rename and delete them. `LogReader` reads them.

Most programs that import `Log` keep no log. What only an open log needs is imported where it is used.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from outrider.conversation.attachments import Attachment
from outrider.conversation.usage import Usage
from outrider.errors import AnsweredError, LogError, SessionHeldError, install_extra
from outrider.log.entries import SessionSettings, SessionStarted, SubagentLinked
from outrider.log.key import foreign_note
from outrider.log.reader import LogReader
from outrider.log.rows import Extent
from outrider.log.session_id import shown_id
from outrider.text import clean
from outrider.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.conversation.messages import AttachmentBlock
    from outrider.log.append import Append
    from outrider.log.backend import Backend
    from outrider.log.copying import ImportedEntry
    from outrider.log.holder import Holder
    from outrider.log.inbox import Inbox
    from outrider.log.journal import Journal
    from outrider.log.questions import Question
    from outrider.log.snapshot_store import SnapshotStore
    from outrider.log.summary import SessionRow

ID = "[0-9a-f]{32}"
OWN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""An id that a program gives a session. It becomes a part of a file's name."""
POSTGRES = ("postgresql://", "postgres://")


class Log(LogReader):
    """Durable sessions in a folder, or in a Postgres database by its URL.

    In a folder they are in `log.db`, with `attachments/` beside it, and only the owner has access. Any process can read
    a session. One process at a time can hold it open for writing.

    >>> import asyncio, tempfile
    >>> from outrider import Agent, Session
    >>> log = Log(tempfile.mkdtemp())
    >>> with Session.open(log, agent=Agent(model="demo")) as session:
    ...     asyncio.run(session.run("What is 2+2?")).text
    '4'
    >>> [summary.title for summary in log.sessions()]
    ['What is 2+2?']
    """

    def __init__(self, place: str | os.PathLike[str]) -> None:
        self._held: dict[int, int] = {}
        """The fence of each session that is open here, by session number."""
        self._token = os.urandom(8).hex()
        super().__init__(_backend(place, self._held))

    def close(self) -> None:
        """Release all sessions and disconnect. The next use of the log connects again."""
        for number, fence in list(self._held.items()):
            self._release(number, fence, wait=False)
        if "inbox" in vars(self):
            self.inbox.close()
        self._backend.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Opening

    def create(self, settings: SessionSettings | None = None, *, parent: str = "", id: str = "") -> Journal:
        """Create a session and hold it. Its id is random unless one is given, which must be new.

        Raises ValueError unless that is 1 to 64 letters, digits, underscores, dots and hyphens.
        """
        if id and not OWN_ID.fullmatch(id):
            raise ValueError(
                f"{id!r:.80} is no id of a session: write 1 to 64 letters, digits, underscores, dots or hyphens, "
                "and begin with a letter or a digit"
            )
        return self._create(SessionStarted(id or os.urandom(16).hex(), __version__, parent=parent), settings)

    def open_child(self, id: str, settings: SessionSettings, parent: Journal, call_id: str) -> Journal:
        """Open the session of a sub-agent that a call of the parent starts. One commit creates and links a new one."""
        known = self.summaries([id]).get(id)
        if known and known.parent == parent.id:
            return self.open(id)
        name = os.urandom(16).hex() if known else id  # an import may have taken the id
        started = SessionStarted(name, __version__, parent=parent.id)
        return self._create(started, settings, parent.appending(SubagentLinked(call_id, name)))

    def _create(self, started: SessionStarted, settings: SessionSettings | None, link: Append | None = None) -> Journal:
        from outrider.log.append import Append
        from outrider.log.chain import Chain

        if settings:
            # Signed: no entry is another's, so each must be chained.
            settings = settings.merged(SessionSettings(elsewhere=0))
            settings = self._seal.entry(started.session, SessionSettings(), settings)
        entries = [started, settings] if settings else [started]
        append = Append(0, 1, entries, SessionSettings(), Chain(self._key, started.session))
        number = self._backend.create(started, append, self._new_holder(), link)
        extent = Extent(number, len(entries))
        journal = self._hold(started.session, extent, 1, settings or SessionSettings(), Usage())
        journal.is_new = True
        return journal

    def open(self, id: str) -> Journal:
        """Open a session and hold it. Raise SessionHeldError, which names the holder, if another process holds it."""
        while True:
            found = self._find(id)
            self._check_free(found)
            if self._backend.acquire(found, self._new_holder()):
                name = found.summary.id
                settings = self._seal.own(name, found.settings, found.summary.last)
                journal = self._hold(name, found.extent, found.fence + 1, settings, found.summary.usage)
                journal.note = "" if settings.seal else foreign_note(name, found.settings)
                return journal

    # Changing

    def fork(self, id: str, at: int | None = None) -> str:
        """Copy entries of a session, up to one, into a new session, where open calls do not run. Return the new id."""
        from outrider.log.copying import Fork

        source = self._find(id)
        if at is not None and not 1 <= at <= source.summary.last:
            raise LogError(f"there is no entry {at} to fork at; the session has entries 1 to {source.summary.last}")
        cut = at or source.summary.last
        fork = Fork(source, cut, self._backend.rows(source.extent, cut), self._seal, self._key)
        self._backend.fork(fork)
        return fork.started.session

    def add(
        self,
        id: str,
        entries: Sequence[ImportedEntry],
        files: Iterable[Attachment],
        *,
        parent: str = "",
        is_dated: bool = False,
    ) -> str:
        """Store an imported session with its files. Return its id, which is new if the given one is taken.

        With `is_dated`, the lists of sessions show it where it belongs by the times of its entries.
        """
        from outrider.log.copying import Import

        name = id if re.fullmatch(ID, id) else os.urandom(16).hex()
        stored = {self._backend.store.put(file, sys.maxsize).sha256 for file in files}
        incoming = Import(name, entries, stored, parent)
        incoming.is_dated = is_dated
        self._backend.add(incoming)
        return incoming.started.session

    def rename(self, id: str, title: str) -> None:
        """Set the title of a session."""
        title = " ".join(clean(title).split())
        if not title:
            raise LogError("a title must not be empty")
        self._change(id, SessionSettings(title=title))

    def annotate(self, id: str, *, owner: str | None = None, metadata: Mapping[str, str] | None = None) -> None:
        """Set the owner of a session, or its metadata, all of it. Raises SessionHeldError if it is open elsewhere."""
        from outrider.log.session_filter import labels

        self._change(id, labels(owner, metadata))

    def _change(self, id: str, new: SessionSettings) -> None:
        journal = self.open(id)
        try:
            journal.write_now(new)
        finally:
            journal.close()

    def delete(self, id: str) -> None:
        """Delete a session and those of its sub-agents. `remove_unreferenced_files` then deletes its files."""
        doomed = self._with_children(self._find(id))
        for each in doomed:
            self._check_free(each)
        self._backend.delete(doomed)
        for each in doomed:
            self.live_socket(each.summary.id).unlink(missing_ok=True)
        self._index.forget(doomed)
        self._usage.forget(doomed)

    def remove_unreferenced_files(self) -> tuple[int, int]:
        """Delete the files that no session refers to. Return how many, and their size in bytes."""
        return self._backend.remove_unreferenced(self.snapshot_store) if self._backend.exists() else (0, 0)

    @cached_property
    def inbox(self) -> Inbox:
        """The questions of open sessions that wait for a person, and messages to those sessions."""
        from outrider.log.inbox import Inbox  # few programs use it

        return Inbox(self._backend, self._find, self._held, self._key)

    def questions(self, session: str | None = None) -> list[Question]:
        """Return the questions that wait for an answer, also those without a process, the oldest first."""
        return self.inbox.questions(session)

    def answer(self, id: str, answer: Any, *, by: str = "") -> None:
        """Answer a question: a call with Allow() or Deny("…"), others with the choice, the text or a mapping.

        The first answer counts. The session goes on with it where somebody runs it: `Session.open(log, …).run()`. `by`
        says who answers, for the log. Raises AnsweredError if it has its answer already or nobody asks it any more, and
        ValidationError if it cannot be answered so.
        """
        found = self.inbox.question(id)
        if found is None:
            raise AnsweredError(f"nobody asks the question {id[:40]!r} any more; log.questions() has those that wait")
        files: list[AttachmentBlock] = []

        def keep(file: Attachment) -> AttachmentBlock:
            files.append(self._backend.store.put(file))
            return files[-1]

        from outrider.log.answers import answer_from

        given = answer_from(found.body, answer, keep)
        by = by or getattr(answer, "by", "") or "a program"
        if found.answer or not self.inbox.answer(id, given, by, [each.sha256 for each in files]):
            raise AnsweredError(_no_more(id, self.inbox.question(id)))

    def resolve(self, key: str, result: Any, *, by: str = "") -> None:
        """Give the result of a call whose tool raised Defer. `key` was the `context.key` of the call.

        The result is what a tool could return: text, data, a ToolResult, files. Raises AnsweredError.
        """
        from outrider.log.questions import result_question

        self.answer(result_question(key), result, by=by)

    def live_socket(self, id: str) -> Path:
        """Return where a process that has a session open may show its events live."""
        return self.folder / "run" / f"{id}.sock"

    # Internals

    @cached_property
    def snapshot_store(self) -> SnapshotStore:
        """The contents of files in snapshots of working folders."""
        from outrider.log.snapshot_store import SnapshotStore  # most sessions have none

        return SnapshotStore(self.folder / "snapshots")

    def _with_children(self, row: SessionRow) -> list[SessionRow]:
        return [row, *(each for child in self._children(row) for each in self._with_children(child))]

    def _check_free(self, row: SessionRow) -> None:
        holder = row.summary.holder
        if holder and holder.log == self._token and row.number not in self._held:
            return  # this log released it, but the release was not written
        if self._backend.is_held(row):
            raise SessionHeldError(
                f"the session {shown_id(row.summary.id)} is open elsewhere: {holder}. Close it there, read it with "
                f"`outrider sessions show {shown_id(row.summary.id)}`, or continue in a copy: "
                f"`outrider sessions fork {shown_id(row.summary.id)}`"
            )

    def _hold(self, id: str, extent: Extent, fence: int, settings: SessionSettings, usage: Usage) -> Journal:
        from outrider.log.chain import Chain
        from outrider.log.journal import Holding, Journal

        self._held[extent.session] = fence
        release = partial(self._release, extent.session, fence)
        holding = Holding(id, extent, fence, settings, usage, Chain(self._key, id))
        return Journal(holding, self._files(extent.session), self._backend, self._seal, release)

    def _release(self, number: int, fence: int, *, wait: bool) -> None:
        if self._held.get(number) == fence:
            del self._held[number]
            self._backend.release(number, fence, wait=wait)

    def _new_holder(self) -> Holder:
        from outrider.log.holder import Holder

        return Holder.current(self._token)


def _backend(place: str | os.PathLike[str], held: dict[int, int]) -> Backend:
    if isinstance(place, str) and place.startswith(POSTGRES):
        try:
            import asyncpg  # noqa: F401  (whether it is installed)
        except ModuleNotFoundError:
            raise LogError(f"a log in Postgres needs asyncpg: {install_extra('postgres')}") from None
        from outrider.log.postgres.backend import PostgresBackend

        return PostgresBackend(place, held)
    from outrider.log.sqlite.backend import SqliteBackend

    return SqliteBackend(place, held)


def _no_more(id: str, question: Question | None) -> str:
    """Return why a question cannot be answered."""
    if question and question.answer:
        return f"the question {id[:8]} was answered before, by {question.answered_by or 'someone'}"
    late = question is not None and question.deadline is not None
    why = "its deadline has passed" if late else "its session was closed or goes on without it"
    return f"the question {id[:8]} cannot be answered any more: {why}"
