"""Files of sessions: stored once, readable only through their sessions, kept while a session refers to them."""

from __future__ import annotations

import asyncio
import base64
import os
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.conversation.attachments import Attachment, sha256
from outrider.conversation.messages import AttachmentBlock, Message
from outrider.errors import AttachmentError, LogError
from outrider.log.entries import AttachmentStored, MessageEntry
from outrider.log.log import Log
from outrider.log.session_files import UNREFERENCED_SECONDS
from outrider.runtime.agent import Agent
from outrider.runtime.events import Event, Notice
from outrider.runtime.session import Session
from outrider.testing import call
from outrider.tools.result import ToolResult
from tests.adapters import ONE_EACH, Case, each
from tests.conversations import PNG, STORE
from tests.log import Process, change, entries_of, is_postgres, kinds_of, open_session
from tests.modelserver import ModelServer
from tests.streams import Answer

NOTES = Attachment(b"the notes of the third quarter", name="notes.txt")
OLD = UNREFERENCED_SECONDS + 60


@pytest.fixture
def log(place: str) -> Iterator[Log]:
    with Log(place) as log:
        yield log


def stored(log: Log) -> list[Path]:
    """The files in the store, the unfinished ones too."""
    return sorted(path for path in (log.folder / "attachments").rglob("*") if path.is_file())


def path_of(log: Log, reference: AttachmentBlock) -> Path:
    return log.folder / "attachments" / reference.sha256[:2] / reference.sha256


def aged(path: Path, seconds: float = OLD) -> Path:
    """The file as if it had been put so many seconds ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


async def shown(log: Log, attachment: Attachment = NOTES, **options: str) -> tuple[Session, AttachmentBlock]:
    """A session to which a person showed a file."""
    session = open_session(log, lambda request: "I see.", **options)
    await session.run(["Look.", attachment])
    (reference,) = [block for block in session.messages[-2].content if isinstance(block, AttachmentBlock)]
    return session, reference


# Who may read


async def test_a_file_can_be_read_through_the_session_that_it_came_into(log: Log) -> None:
    session, reference = await shown(log)
    assert reference.name == "notes.txt"
    assert session.store.read(reference) == NOTES.source
    assert b"".join(log.files(session.id).chunks(reference)) == NOTES.source
    session.close()
    assert Log(log.location).files(session.id).read(reference) == NOTES.source
    with open_session(log, id=session.id) as again:
        assert again.store.read(reference) == NOTES.source


async def test_another_sessions_file_cannot_be_read(log: Log) -> None:
    _, reference = await shown(log)
    other = open_session(log)
    for files in (other.store, log.files(other.id)):
        with pytest.raises(
            AttachmentError, match=r"notes\.txt was never added to this session, so the session may not"
        ):
            files.read(reference)
    with pytest.raises(AttachmentError, match="was never added to this session"):
        log.files(other.id).chunks(reference)
    with pytest.raises(AttachmentError, match="was never added to this session"):
        log.files(other.id).read(AttachmentBlock("../../log.db", "text/plain", 1))


async def test_to_mention_another_sessions_file_is_not_to_have_it(log: Log) -> None:
    _, reference = await shown(log)
    other = open_session(log, ["ok", "ok"])
    await other.run(["Look at this.", reference])
    with pytest.raises(AttachmentError, match="was never added to this session"):
        other.store.read(reference)
    other.close()
    with open_session(log, ["ok"], id=other.id) as again, pytest.raises(AttachmentError):
        again.store.read(reference)


@each(*ONE_EACH)
async def test_another_sessions_file_is_a_note_to_the_model_and_the_turn_goes_on(log: Log, case: Case) -> None:
    _, reference = await shown(log, Attachment(STORE.read(PNG), name="secret.png"))
    async with ModelServer([Answer("I cannot see it.")]) as server:
        session = Session.open(log, agent=Agent(model=case.adapter(server.url, key="k"))).now()
        result = await session.run(["What is this?", reference])
        assert (result.status, result.text) == ("done", "I cannot see it.")
        (request,) = server.requests
        assert b"secret.png" in request.body
        assert b"was never added to this session" in request.body
        assert base64.b64encode(STORE.read(PNG))[:100] not in request.body


async def test_another_sessions_file_is_an_event_to_the_observer_too(log: Log) -> None:
    _, reference = await shown(log)
    events: list[Event] = []
    async with ModelServer([Answer("I cannot see it.")]) as server:
        model = ONE_EACH[0].adapter(server.url, key="k")
        with Session.open(log, agent=Agent(model=model), observer=events.append) as session:
            assert (await session.run(["What is this?", reference])).status == "done"
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert any("notes.txt" in notice for notice in notices)


async def test_who_looks_on_can_read_what_came_after_the_first_look(log: Log) -> None:
    session, first = await shown(log)
    files = log.files(session.id)
    assert files.read(first) == NOTES.source
    await session.run(["And this.", Attachment(b"more notes", name="more.txt")])
    second = session.messages[-2].content[1]
    assert isinstance(second, AttachmentBlock)
    assert files.read(second) == b"more notes"


@pytest.mark.folder_only
async def test_putting_the_same_bytes_makes_the_file_ones_own(log: Log) -> None:
    _, reference = await shown(log)
    other, same = await shown(log)
    assert same == reference
    assert other.store.read(reference) == NOTES.source
    assert len(stored(log)) == 1


@pytest.mark.folder_only
async def test_a_fork_may_read_what_came_before_it_was_made(log: Log) -> None:
    session, reference = await shown(log)
    seqs = {type(record.entry): record.seq for record in reversed(list(log.records(session.id)))}
    with_file, without = log.fork(session.id), log.fork(session.id, at=seqs[AttachmentStored] - 1)
    assert log.files(with_file).read(reference) == NOTES.source
    with pytest.raises(AttachmentError, match="was never added to this session"):
        log.files(without).read(reference)
    session.close()
    log.delete(session.id)
    aged(path_of(log, reference))
    assert log.remove_unreferenced_files() == (0, 0)
    with open_session(log, id=with_file) as fork:
        assert fork.store.read(reference) == NOTES.source


async def test_a_fork_does_not_give_what_its_source_could_not_read(log: Log) -> None:
    _, reference = await shown(log)
    thief = log.create()
    thief.write_now(AttachmentStored(reference))
    change(log, "DELETE FROM reference WHERE session = (SELECT number FROM session WHERE id = ?)", thief.id)
    thief.close()
    with pytest.raises(AttachmentError):
        log.files(log.fork(thief.id)).read(reference)


# In the log


async def test_a_file_is_recorded_before_what_mentions_it(log: Log) -> None:
    session, reference = await shown(log)
    assert kinds_of(log, session.id)[2:] == [
        "attachment",
        "run_started",
        "message",
        "requested",
        "message",
        "run_stopped",
    ]
    assert AttachmentStored(reference) in entries_of(log, session.id)


async def test_a_file_of_a_tool_is_recorded_before_its_result_and_another_process_can_read_it(log: Log) -> None:
    async def draw() -> ToolResult:
        return ToolResult("A chart.", attachments=[Attachment(STORE.read(PNG), name="chart.png")])

    session = open_session(log, [call("draw"), "Done."], [draw])
    await session.run("Draw a chart.")
    kinds = kinds_of(log, session.id)
    assert kinds.index("attachment") < kinds.index("tool_finished")
    script = """
        log = Log(arguments[0])
        (result,) = log.messages(arguments[1])[2].tool_results
        say(len(log.files(arguments[1]).read(result.attachments[0])))
    """
    with Process(script, log.location, session.id) as process:
        assert process.hear() == str(PNG.size)


async def test_what_was_too_long_for_a_result_can_be_read_later(log: Log) -> None:
    async def shout() -> str:
        return "loud " * 100_000

    session = open_session(log, [call("shout"), "Done."], [shout])
    await session.run("Shout.")
    session.close()
    (result,) = log.messages(session.id)[2].tool_results
    assert result.whole
    assert log.files(session.id).read(result.whole) == b"loud " * 100_000


async def test_a_file_whose_entry_could_not_be_written_is_recorded_with_the_next(log: Log) -> None:
    journal = log.create()
    reference = journal.files.put(NOTES)
    change(log, "UPDATE session SET fence = fence + 1")
    with pytest.raises(LogError):
        await journal.write(MessageEntry(Message.user(reference))).finished()
    with pytest.raises(LogError):
        journal.write_now(MessageEntry(Message.user(reference)))
    change(log, "UPDATE session SET fence = fence - 1")
    journal.write_now(MessageEntry(Message.user("again", reference)))
    assert kinds_of(log, journal.id) == ["began", "attachment", "message"]
    assert Log(log.location).files(journal.id).read(reference) == NOTES.source


async def test_a_file_that_is_put_twice_in_a_session_is_recorded_once(log: Log) -> None:
    session, _ = await shown(log)
    await session.run(["And again.", NOTES])
    assert kinds_of(log, session.id).count("attachment") == 1


async def test_the_size_of_a_session_counts_its_files(log: Log) -> None:
    session, _ = await shown(log, Attachment(bytes(100_000), name="zeros.bin"))
    assert log.session(session.id).size > 100_000


# Damage


@pytest.mark.parametrize(
    "content", [b"", b"the notes of the third quartet", b"the notes"], ids=["empty", "other", "cut"]
)
@pytest.mark.folder_only
async def test_bytes_that_were_changed_on_disk_are_refused(log: Log, content: bytes) -> None:
    session, reference = await shown(log)
    path_of(log, reference).write_bytes(content)
    for files in (session.store, log.files(session.id)):
        with pytest.raises(AttachmentError, match=r"notes\.txt was changed in the attachment store"):
            files.read(reference)
    with pytest.raises(AttachmentError, match="was changed"):
        log.files(session.id).chunks(reference)
    await session.run(["Here it is again.", NOTES])
    assert session.store.read(reference) == NOTES.source, "the damage is mended when the file comes again"


@pytest.mark.folder_only
async def test_a_file_that_is_gone_is_named(log: Log) -> None:
    session, reference = await shown(log)
    path_of(log, reference).unlink()
    with pytest.raises(AttachmentError, match=r"notes\.txt is not in the attachment store"):
        session.store.read(reference)
    with pytest.raises(AttachmentError, match="is not in the attachment store"):
        log.files(session.id).chunks(reference)


# Large files


def test_a_large_file_is_given_piece_by_piece_and_never_held_whole(log: Log, tmp_path: Path) -> None:
    size = 40 * 1024 * 1024
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(size)
    journal = log.create()
    tracemalloc.start()
    try:
        reference = journal.files.put(Attachment.from_path(large), size)
        journal.write_now(MessageEntry(Message.user(reference)))
        total = sum(len(piece) for piece in log.files(journal.id).chunks(reference))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == reference.size == size
    assert peak < 8 * 1024 * 1024


# Forgotten files


@pytest.mark.folder_only
async def test_only_old_files_that_no_session_refers_to_are_removed(log: Log) -> None:
    keeper, kept = await shown(log)
    loser, lost = await shown(log, Attachment(b"of no more use", name="lost.txt"))
    young_one, young = await shown(log, Attachment(b"not yet", name="young.txt"))
    for session in (keeper, loser, young_one):
        session.close()
    log.delete(loser.id)
    log.delete(young_one.id)
    for reference in (kept, lost):
        aged(path_of(log, reference))
    assert log.remove_unreferenced_files() == (1, len(b"of no more use"))
    assert stored(log) == sorted([path_of(log, kept), path_of(log, young)])
    assert log.files(keeper.id).read(kept) == NOTES.source
    assert log.remove_unreferenced_files() == (0, 0)


@pytest.mark.folder_only
async def test_a_file_of_two_sessions_stays_until_both_are_gone(log: Log) -> None:
    one, reference = await shown(log)
    two, _ = await shown(log)
    one.close()
    two.close()
    for session, removed in ((one, 0), (two, 1)):
        log.delete(session.id)
        aged(path_of(log, reference))
        assert log.remove_unreferenced_files()[0] == removed
    assert stored(log) == []


@pytest.mark.folder_only
async def test_copies_that_were_broken_off_are_removed_when_they_are_old(log: Log) -> None:
    session, reference = await shown(log)
    folder = log.folder / "attachments"
    old, young = folder / "incoming-0123", folder / "incoming-4567"
    for path in (old, young):
        path.write_bytes(b"half a fi")
    aged(old)
    log.remove_unreferenced_files()
    assert stored(log) == sorted([path_of(log, reference), young])
    session.close()


@pytest.mark.folder_only
async def test_a_file_that_was_put_again_just_now_is_not_forgotten(log: Log) -> None:
    session, reference = await shown(log)
    session.close()
    log.delete(session.id)
    aged(path_of(log, reference))
    journal = log.create()
    assert journal.files.put(NOTES) == reference  # and the log will be told of it in a moment
    assert log.remove_unreferenced_files() == (0, 0)
    journal.write_now(MessageEntry(Message.user(reference)))
    aged(path_of(log, reference))
    assert log.remove_unreferenced_files() == (0, 0)
    assert log.files(journal.id).read(reference) == NOTES.source


@pytest.mark.folder_only
async def test_a_file_that_is_put_while_it_is_being_removed_stays(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process needs it between the look at its age and its removal."""
    _, file = await shown(log)
    stray = aged(path_of(log, log.files(log.sessions()[0].id).put(Attachment(b"stray"))))
    rename = Path.rename

    def needed_just_now(path: Path, target: Path) -> Path:
        if path == stray:
            os.utime(path)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", needed_just_now)
    assert log.remove_unreferenced_files() == (0, 0)
    assert stored(log) == sorted([stray, path_of(log, file)])


@pytest.mark.folder_only
async def test_a_list_of_files_that_cannot_be_read_is_an_error_that_says_so(log: Log) -> None:
    session, file = await shown(log)
    session.close()
    files = log.files(session.id)
    log.close()
    (log.folder / "log.db").write_bytes(b"not a database any more" * 1000)
    with pytest.raises(AttachmentError, match=r"cannot read the list of the session's files: .*is damaged"):
        files.read(file)


@pytest.mark.folder_only
async def test_a_clock_that_was_set_back_does_not_keep_files_for_ever(log: Log) -> None:
    session, reference = await shown(log)
    session.close()
    log.delete(session.id)
    aged(path_of(log, reference), -UNREFERENCED_SECONDS / 2)
    assert log.remove_unreferenced_files() == (0, 0)
    aged(path_of(log, reference), -OLD)
    assert log.remove_unreferenced_files()[0] == 1


def test_where_there_are_no_files_none_are_removed(log: Log) -> None:
    log.create().close()
    assert log.remove_unreferenced_files() == (0, 0)


# Another process, another provider


@pytest.mark.sampled(2)
@each(*ONE_EACH)
async def test_a_file_reaches_another_provider_after_a_reload_in_another_process(
    log: Log, case: Case, tmp_path: Path
) -> None:
    picture = tmp_path / "chart.png"
    picture.write_bytes(STORE.read(PNG))
    script = """
        from outrider.conversation.attachments import Attachment
        log = Log(arguments[0])
        session = talk(log)
        asyncio.run(session.run(["Look.", Attachment.from_path(arguments[1])]))
        say(session.id)
        hear()
    """
    with Process(script, log.location, picture) as process:
        name = process.hear()
        process.kill()
    picture.unlink()
    async with ModelServer([Answer("A chart.")]) as server:
        session = Session.open(log, name, Agent(model=case.adapter(server.url, key="k"))).now()
        result = await session.run("What does it show?")
        assert (result.status, result.text) == ("done", "A chart.")
        (request,) = server.requests
        assert base64.b64encode(STORE.read(PNG)) in request.body
        session.close()
    if not is_postgres(log):
        assert sha256(STORE.read(PNG)) in {path.name for path in await asyncio.to_thread(stored, log)}
