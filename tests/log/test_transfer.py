"""Export and import: a session round-trips as JSON lines; broken or crafted input leaves nothing behind."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outrider
from outrider.conversation.attachments import Attachment, sha256
from outrider.conversation.history import violations
from outrider.conversation.messages import AttachmentBlock, Message
from outrider.conversation.store import MemoryStore
from outrider.conversation.usage import Usage
from outrider.errors import AttachmentError, ConversationError, LogError, NewerLogError, UnknownSessionError
from outrider.log.entries import (
    AttachmentStored,
    Entry,
    MessageEntry,
    Record,
    SessionSettings,
    SessionStarted,
    UnknownEntry,
)
from outrider.log.log import Log
from outrider.log.rows import encode
from outrider.log.sqlite.recovery import recover
from outrider.log.transfer import Imported, export, import_conversation, import_session
from outrider.runtime.agent import Agent
from outrider.runtime.agent_settings import kept_limits
from outrider.runtime.limits import Limits
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, Step, call
from outrider.tools.result import ToolResult
from tests.lengths import examples
from tests.log import change, is_postgres
from tests.log import look as look_into

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
NAME = "0123456789abcdef" * 2
HEADER = b'{"outrider_session":1,"id":"%s","title":""}\n' % NAME.encode()
ODD = rb'{"z": 1,  "a":[1.50, 1e5, 123456789012345678901234567890, "\u00e9\/", null ] ,"a":2}'


def look(size: int) -> str:
    """Look at something."""
    return "so it is\n" * size


def picture() -> ToolResult:
    """Take a picture."""
    return ToolResult("a picture", [Attachment(PNG, "image/png", "shot.png", "what it shows")], details={"shown": [1]})


def agent(steps: Sequence[Step]) -> Agent:
    model = ScriptedModel(steps, usage=Usage(100, 10, 5, 4, 3, cost=0.25))
    return Agent(model=model, system="Be brief.", tools=[look, picture], limits=Limits(result_characters=500))


def run(session: Session, *prompts: Any) -> None:
    async def runs() -> None:
        for prompt in prompts:
            assert (await session.run(prompt)).status == "done"

    asyncio.run(runs())


@pytest.fixture
def log(place: str) -> Iterator[Log]:
    with Log(place) as log:
        yield log


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Log]:
    with Log(tmp_path / "there") as log:
        yield log


@pytest.fixture
def talk(log: Log) -> str:
    """A session with all kinds of entries in it."""
    steps: list[Step] = [
        ["One. ", call("picture"), call("look", size=3)],
        "Two.",
        call("look", size=900),
        "Three.",
        "Four.",
    ]
    with Session.open(log, agent=agent(steps)) as session:
        run(session, "Begin. \u2028 \x85 Zwei\nZeilen.", "And a long one.", ["See", Attachment(b"notes", name="n.txt")])
    journal = log.open(session.id)
    journal.write_now(UnknownEntry("hologram", msgspec.Raw(ODD)), SessionSettings(title="A talk"))
    journal.close()
    return session.id


def stored(log: Log, name: str) -> list[AttachmentBlock]:
    return [record.entry.attachment for record in log.records(name) if isinstance(record.entry, AttachmentStored)]


def after_the_first(log: Log, name: str) -> list[Record]:
    return list(log.records(name))[1:]


def rows(log: Log, table: str = "event") -> list[tuple[Any, ...]]:
    return look_into(log, f"SELECT * FROM {table}") if log._backend.exists() else []


def bodies(log: Log, name: str) -> list[tuple[int, str, bytes]]:
    query = "SELECT seq, kind, body FROM event, session WHERE session = number AND id = ? ORDER BY seq"
    return look_into(log, query, name)


def line(seq: int, entry: Entry) -> bytes:
    kind, body = encode(entry)
    return b'{"seq":%d,"time":1.5,"kind":"%s","body":%s}\n' % (seq, kind.encode(), body)


BEGAN = line(1, SessionStarted("", ""))


def file_line(content: bytes, name: str = "", mime_type: str = "text/plain", **fields: Any) -> bytes:
    block = AttachmentBlock(name or sha256(content), mime_type, len(content), "file.txt")
    return msgspec.json.encode(
        {"file": msgspec.to_builtins(block), "data": base64.b64encode(content).decode(), **fields}
    )


# There and back


@pytest.mark.folder_only
def test_a_session_with_its_files_comes_back_as_it_was(log: Log, other: Log, talk: str) -> None:
    imported = import_session(other, export(log, talk, attachments=True))
    assert imported == Imported(talk, len(list(log.records(talk))))
    assert other.messages(talk) == log.messages(talk)
    assert after_the_first(other, talk) == after_the_first(log, talk)
    assert len(stored(log, talk)) == 3
    for file in stored(log, talk):
        assert other.files(talk).read(file) == log.files(talk).read(file)


@pytest.mark.folder_only
def test_without_its_files_it_names_those_that_are_missing(log: Log, other: Log, talk: str) -> None:
    imported = import_session(other, export(log, talk))
    assert imported == Imported(talk, len(list(log.records(talk))), tuple(file.label for file in stored(log, talk)))
    assert other.messages(talk) == log.messages(talk)
    assert after_the_first(other, talk) == after_the_first(log, talk)
    for file in stored(log, talk):
        with pytest.raises(AttachmentError, match="was never added to this session"):
            other.files(talk).read(file)


def test_the_summary_is_the_same(log: Log, other: Log, talk: str) -> None:
    import_session(other, export(log, talk, attachments=True))
    for field in ("id", "title", "model", "turns", "usage", "last", "parent", "holder"):
        assert getattr(other.session(talk), field) == getattr(log.session(talk), field)
    assert [summary.id for summary in other.sessions()] == [talk]
    assert other.session(talk).title == "A talk"


def test_it_begins_anew_under_its_id(log: Log, other: Log, talk: str) -> None:
    import_session(other, export(log, talk))
    first = next(other.records(talk))
    assert first.seq == 1
    assert first.entry == SessionStarted(talk, outrider.__version__)


def test_the_entries_are_stored_byte_for_byte_as_they_were(log: Log, other: Log, talk: str) -> None:
    import_session(other, export(log, talk))
    assert bodies(other, talk)[1:] == bodies(log, talk)[1:]


def test_an_unknown_kind_survives_byte_for_byte(log: Log, other: Log, talk: str) -> None:
    import_session(other, export(log, talk))
    import_session(other, export(other, talk))
    for summary in other.sessions():
        assert [body for _, kind, body in bodies(other, summary.id) if kind == "hologram"] == [ODD]
    assert len(other.sessions()) == 2


@pytest.mark.folder_only
def test_a_taken_id_is_not_taken_again(log: Log, talk: str) -> None:
    before = bodies(log, talk)
    imported = import_session(log, export(log, talk, attachments=True))
    assert imported.id != talk
    assert len(imported.id) == 32
    assert next(log.records(imported.id)).entry == SessionStarted(imported.id, outrider.__version__)
    assert after_the_first(log, imported.id) == after_the_first(log, talk)
    assert bodies(log, talk) == before
    for file in stored(log, talk):
        assert log.files(imported.id).read(file) == log.files(talk).read(file)


@pytest.mark.parametrize(
    "name", ["", "abc", NAME.upper(), NAME + "0", "../../etc/passwd", "%", NAME[:-1] + "\n", "é" * 32]
)
def test_an_id_that_is_none_is_replaced(log: Log, name: str) -> None:
    header = msgspec.json.encode({"outrider_session": 1, "id": name})
    imported = import_session(log, [header, BEGAN, line(2, MessageEntry(Message.user("Hi.")))])
    assert imported.id != name
    assert set(imported.id) <= set("0123456789abcdef")
    assert [summary.id for summary in log.sessions()] == [imported.id]


def test_fields_that_a_newer_version_added_survive(log: Log, other: Log) -> None:
    newer = b'{"title":"A talk","colour":"green"}'
    import_session(log, [HEADER, BEGAN, b'{"seq":2,"time":1,"kind":"settings","body":%s}' % newer])
    import_session(other, export(log, NAME))
    assert bodies(other, NAME)[1:] == [(2, "settings", newer)]
    assert other.session(NAME).title == "A talk"


def test_an_export_is_json_lines(log: Log, talk: str) -> None:
    lines = list(export(log, talk, attachments=True))
    assert b"".join(lines).splitlines(keepends=True) == lines
    first, *rest = map(json.loads, lines)
    assert first == {"outrider_session": 1, "id": talk, "title": "A talk"}
    files = [each for each in rest if "file" in each]
    assert rest[: len(files)] == files
    assert [each["seq"] for each in rest[len(files) :]] == [record.seq for record in log.records(talk)]


def test_the_lines_are_read_as_a_file_has_them(log: Log, other: Log, talk: str, tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(b"\n".join(export(log, talk, attachments=True)) + b"\r\n\n")
    with path.open("rb") as lines:
        import_session(other, lines)
    assert other.messages(talk) == log.messages(talk)


def test_a_session_is_exported_by_the_beginning_of_its_id_while_it_is_held(log: Log, other: Log, talk: str) -> None:
    with Session.open(log, talk, agent(["Five."])) as session:
        run(session, "One more.")
        assert import_session(other, export(log, talk[:8])).id == talk
    assert other.messages(talk) == log.messages(talk)


def test_an_unknown_session_is_not_exported(log: Log, talk: str) -> None:
    with pytest.raises(UnknownSessionError, match="there is no session 'nobody'"):
        next(export(log, "nobody"))


def test_an_imported_session_goes_on(log: Log, other: Log, talk: str) -> None:
    import_session(other, export(log, talk, attachments=True))
    who = agent(["Five."])
    with Session.open(other, talk, who) as session:
        run(session, "Go on.")
        assert session.messages[:-2] == log.messages(talk)
    assert violations(who.provider.requests[0].messages) == []  # type: ignore[attr-defined]
    assert other.session(talk).usage == log.session(talk).usage + Usage(100, 10, 5, 4, 3, cost=0.25)


def test_the_session_of_a_sub_agent_is_imported_as_one_of_its_own(log: Log, other: Log, talk: str) -> None:
    child = log.create(parent=talk)
    child.write_now(MessageEntry(Message.user("Go and see.")))
    child.close()
    import_session(other, export(log, child.id))
    assert [(summary.id, summary.parent) for summary in other.sessions()] == [(child.id, "")]


def test_a_log_that_an_import_makes_is_for_the_owner_alone(tmp_path: Path) -> None:
    with Log(tmp_path / "new" / "folder") as log:
        import_session(log, [HEADER, file_line(b"x"), BEGAN])
        paths = [*(tmp_path / "new").rglob("*"), tmp_path / "new"]
        assert len(paths) > 4
        assert [path for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


@pytest.mark.folder_only
def test_a_file_that_is_mentioned_twice_comes_back_once(log: Log, other: Log) -> None:
    """Its pieces must not be put together twice: the hash would be another."""
    journal = log.create()
    file = journal.files.put(Attachment(b"the same", name="n.txt"))
    journal.write_now(MessageEntry(Message.user("Look.", file)))
    journal.write_now(AttachmentStored(file), MessageEntry(Message.user("Look again.", file)))
    journal.close()
    assert len(stored(log, journal.id)) == 2
    imported = import_session(other, export(log, journal.id, attachments=True))
    assert imported.missing == ()
    assert other.files(journal.id).read(file) == b"the same"


@pytest.mark.folder_only
def test_an_empty_file_comes_back(log: Log, other: Log) -> None:
    with Session.open(log, agent=agent(["It is empty."])) as session:
        run(session, ["Look", Attachment(b"", "text/plain", "empty.txt")])
    imported = import_session(other, export(log, session.id, attachments=True))
    assert imported.missing == ()
    assert other.files(session.id).read(stored(log, session.id)[0]) == b""


def test_a_session_that_lost_its_files_can_still_be_exported(log: Log, other: Log, talk: str) -> None:
    import_session(other, export(log, talk))
    lines = list(export(other, talk, attachments=True))
    third = Log(other.folder.with_name("third"))
    assert len(import_session(third, lines).missing) == 3
    assert third.messages(talk) == log.messages(talk)
    third.close()


@pytest.mark.folder_only
def test_a_session_that_lost_its_beginning_keeps_all_the_rest(log: Log, other: Log) -> None:
    journal = log.create()
    journal.write_now(MessageEntry(Message.user("The very first words.")))
    journal.close()
    log.close()
    path = log.folder / "log.db"
    data = path.read_bytes()
    path.write_bytes(data.replace(b'{"session":"' + journal.id.encode(), b'{"Session":"' + journal.id.encode()))
    assert recover(log.folder).lost == {journal.id: 1}
    assert log.messages(journal.id) == [Message.user("The very first words.")]
    import_session(other, export(log, journal.id))
    assert other.messages(journal.id) == [Message.user("The very first words.")]


# Large files


def test_a_large_file_is_never_held_whole(tmp_path: Path, log: Log, other: Log) -> None:
    size = 30_000_000
    (tmp_path / "large.bin").touch()
    with (tmp_path / "large.bin").open("r+b") as large:
        large.truncate(size)
        large.seek(size // 2)
        large.write(b"in the middle")
    journal = log.create()
    file = journal.files.put(Attachment.from_path(tmp_path / "large.bin"), size)
    journal.write_now(MessageEntry(Message.user("A large one.", file)))
    journal.close()
    path = tmp_path / "large.jsonl"
    tracemalloc.start()
    try:
        with path.open("wb") as lines:
            lines.writelines(export(log, journal.id, attachments=True))
        exported = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        with path.open("rb") as lines:
            imported = import_session(other, lines)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > size
    assert exported < 8_000_000
    assert taken < 8_000_000
    assert imported.missing == ()
    assert sum(map(len, other.files(imported.id).chunks(file))) == size


# All or nothing


def check_nothing_came(log: Log) -> None:
    assert log.sessions() == []
    assert [rows(log, table) for table in ("session", "event", "reference")] == [[], [], []]


def test_a_broken_line_anywhere_leaves_nothing(log: Log, other: Log, talk: str) -> None:
    lines = list(export(log, talk, attachments=True))
    for number, whole in enumerate(lines, 1):
        broken = [*lines[: number - 1], whole[: len(whole) // 2] + b"\n", *lines[number:]]
        with pytest.raises(LogError, match=f"line {number} is not a line of an exported session: "):
            import_session(other, broken)
    check_nothing_came(other)
    import_session(other, lines)
    assert other.messages(talk) == log.messages(talk)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([b"hello"], "line 1 is not a line of an exported session: JSON is malformed"),
        ([b"[]"], "line 1 .*Expected `object`, got `array`"),
        ([b'{"id":"x"}'], "line 1 .*missing required field `outrider_session`"),
        ([BEGAN], "line 1 .*missing required field `outrider_session`"),
        ([HEADER, HEADER], "line 2 .*missing required field `seq`"),
        ([HEADER, b"\n", BEGAN, b"{}"], "line 4 .*missing required field `seq`"),
        ([HEADER, BEGAN, BEGAN], "line 3 .*the number of entry 1 is repeated"),
        (
            [HEADER, BEGAN, line(3, SessionSettings()), line(2, SessionSettings())],
            "line 4 .*the number of entry 2 is repeated",
        ),
        ([HEADER, line(0, SessionSettings())], "line 2 .*the number of entry 0 is repeated"),
        ([HEADER, line(-1, SessionSettings())], "line 2 .*the number of entry -1 is repeated"),
        ([HEADER, b'{"seq":"1","time":1,"kind":"x","body":{}}'], "line 2 .*Expected `int`, got `str`"),
        ([HEADER, b'{"seq":1.5,"time":1,"kind":"x","body":{}}'], "line 2 .*Expected `int`, got `float`"),
        ([HEADER, b'{"seq":1,"time":null,"kind":"x","body":{}}'], "line 2 .*Expected `float`, got `null`"),
        ([HEADER, b'{"seq":1,"time":1,"kind":7,"body":{}}'], "line 2 .*Expected `str`, got `int`"),
        ([HEADER, b'{"seq":1,"time":1,"kind":"message","body":{}}'], "line 2 .*'message'"),
        ([HEADER, b'{"seq":1,"time":1,"kind":"x","body":' + b"[" * 100_000], "line 2 "),
        ([HEADER, BEGAN, b"\xff\xfe"], "line 3 "),
        ([HEADER, BEGAN, b'{"seq":2,"time":1,"kind":"\\ud800","body":{}}'], "line 3 "),
        ([HEADER, BEGAN, b'{"seq":2,"time":1e999,"kind":"x","body":{}}'], "line 3 "),
        ([], "there is nothing to import: the input has no entries"),
        ([b"", b"\n", b" \n"], "there is nothing to import: the input has no entries"),
        ([HEADER], "there is nothing to import: the input has no entries"),
        ([HEADER, file_line(b"x")], "there is nothing to import: the input has no entries"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(log: Log, lines: list[bytes], said: str) -> None:
    with pytest.raises(LogError, match=said):
        import_session(log, lines)
    check_nothing_came(log)


@pytest.mark.parametrize("seq", [2**62 + 1, 2**63 - 1, 2**63, 10**30])
def test_a_number_that_no_log_can_hold_is_refused(log: Log, seq: int) -> None:
    with pytest.raises(LogError, match="line 3 "):
        import_session(log, [HEADER, BEGAN, line(seq, MessageEntry(Message.user("Hi.")))])
    check_nothing_came(log)


def test_a_newer_export_is_refused(log: Log) -> None:
    with pytest.raises(LogError, match=r"line 1 .*it was written by a newer version of Outrider; upgrade to import it"):
        import_session(log, [b'{"outrider_session":2,"id":"","parts":[]}', BEGAN])
    check_nothing_came(log)


def test_an_entry_that_only_a_newer_version_can_read_is_refused(log: Log) -> None:
    newer = b'{"message":{"role":"user","content":[{"type":"smell","of":"roses"}]}}'
    with pytest.raises(LogError, match=r"line 3 .*newer version of Outrider .*upgrade"):
        import_session(log, [HEADER, BEGAN, b'{"seq":2,"time":1,"kind":"message","body":%s}' % newer])
    check_nothing_came(log)


def test_lines_that_break_off_leave_nothing(log: Log) -> None:
    def lines() -> Iterator[bytes]:
        yield HEADER
        yield BEGAN
        raise OSError("the pipe broke")

    with pytest.raises(OSError, match="the pipe broke"):
        import_session(log, lines())
    check_nothing_came(log)


def test_an_import_is_refused_by_a_log_of_a_newer_version(log: Log) -> None:
    import_session(log, [HEADER, BEGAN])
    log.close()
    change(log, "INSERT INTO format VALUES (99)" if is_postgres(log) else "PRAGMA user_version=99")
    log = Log(log.location)
    with pytest.raises(NewerLogError, match="upgrade Outrider"):
        import_session(log, [HEADER, BEGAN])


# Crafted files


@pytest.mark.folder_only
def test_a_file_of_another_session_cannot_be_read_by_mentioning_it(log: Log, talk: str) -> None:
    file = stored(log, talk)[0]
    mentions = [line(2, AttachmentStored(file)), line(3, MessageEntry(Message.user("Show it.", file)))]
    imported = import_session(log, [HEADER, BEGAN, *mentions])
    assert imported.missing == (file.label,)
    with pytest.raises(AttachmentError, match="was never added to this session"):
        log.files(imported.id).read(file)
    session = Session.open(log, imported.id, agent(["No."])).now()
    with session, pytest.raises(AttachmentError, match="was never added to this session"):
        session.store.read(file)
    fork = log.fork(imported.id)
    with pytest.raises(AttachmentError, match="was never added to this session"):
        log.files(fork).read(file)


@pytest.mark.folder_only
def test_other_bytes_under_the_hash_of_a_file_do_not_make_it_readable(log: Log, talk: str) -> None:
    file = stored(log, talk)[0]
    with pytest.raises(LogError, match=r"the bytes of file\.txt do not match their SHA-256"):
        import_session(log, [HEADER, file_line(b"other bytes", file.sha256), BEGAN, line(3, AttachmentStored(file))])
    assert len(log.sessions()) == 1


@pytest.mark.folder_only
def test_other_bytes_under_a_hash_are_never_read(log: Log, talk: str) -> None:
    file = stored(log, talk)[0]
    lines = [
        HEADER,
        file_line(b"other bytes", file.sha256),
        BEGAN,
        line(3, AttachmentStored(file)),
        line(4, MessageEntry(Message.user("x"))),
    ]
    try:
        name = import_session(log, lines).id
    except LogError:
        return
    with pytest.raises(AttachmentError):
        log.files(name).read(file)
    assert log.files(talk).read(file) == PNG


def test_a_piece_that_is_not_base64_is_refused(log: Log) -> None:
    for data in ("AAA", "!!!!", "AA=A", "é", "AAAA AAAA", "AAAA\n"):
        with pytest.raises(LogError, match="line 2 is not a line of an exported session"):
            import_session(log, [HEADER, file_line(b"x", data=data), BEGAN])
    for data in (None, 7, ["AAAA"]):
        with pytest.raises(LogError, match=r"line 2 .*Expected `str`"):
            import_session(log, [HEADER, file_line(b"x", data=data), BEGAN])
    check_nothing_came(log)


@pytest.mark.parametrize(
    "name", ["../../escape", "/tmp/outrider-escape", "..", "a" * 63, "A" * 64, "a" * 63 + "/", "a" * 64 + "\n", "."]
)
def test_a_path_in_place_of_a_hash_is_refused(log: Log, tmp_path: Path, name: str) -> None:
    before = set(tmp_path.rglob("*"))
    with pytest.raises(LogError, match=r"line 2 .*is not a SHA-256"):
        import_session(log, [HEADER, file_line(b"x", name), BEGAN])
    check_nothing_came(log)
    assert set(tmp_path.rglob("*")) - before <= {log.folder}
    assert not Path("/tmp/outrider-escape").exists()


def test_a_path_in_place_of_a_hash_in_an_entry_is_never_opened(log: Log, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    file = AttachmentBlock(f"../../../{tmp_path}/secret", "text/plain", 6, "secret")
    imported = import_session(log, [HEADER, BEGAN, line(2, AttachmentStored(file))])
    with pytest.raises(AttachmentError):
        log.files(imported.id).read(file)


def test_a_file_that_is_not_what_its_label_says_is_refused(log: Log) -> None:
    with pytest.raises(LogError):
        import_session(log, [HEADER, file_line(b"no picture", mime_type="image/png"), BEGAN])
    check_nothing_came(log)


# A conversation


CONVERSATION = [
    Message.user("Look.", AttachmentBlock(sha256(b"notes"), "text/plain", 5, "n.txt")),
    Message.assistant("I'll look.", msgspec.structs.replace(call("look", size=1), id="c1")),
    Message.user(
        msgspec.convert({"type": "tool_result", "tool_use_id": "c1", "content": []}, outrider.ToolResultBlock)
    ),
    Message.assistant("There."),
]


def test_a_conversation_with_its_files_comes_in(log: Log) -> None:
    store = MemoryStore()
    store.put(Attachment(b"notes", name="n.txt"))
    imported = import_conversation(log, outrider.dumps(CONVERSATION, inline=True, store=store).encode())
    assert imported == Imported(imported.id, 4)
    assert log.messages(imported.id) == CONVERSATION
    assert log.files(imported.id).read(CONVERSATION[0].content[1]) == b"notes"  # type: ignore[arg-type]
    assert log.session(imported.id).title == "Look."
    who = agent(["Yes."])
    with Session.open(log, imported.id, who) as session:
        run(session, "Go on.")
    assert violations(who.provider.requests[0].messages) == []  # type: ignore[attr-defined]


@pytest.mark.folder_only
def test_a_conversation_without_its_files_cannot_read_those_of_others(log: Log, talk: str) -> None:
    file = stored(log, talk)[0]
    conversation = [Message.user("Show it.", file), Message.assistant("No.")]
    imported = import_conversation(log, outrider.dumps(conversation).encode())
    assert log.messages(imported.id) == conversation
    with pytest.raises(AttachmentError, match="was never added to this session"):
        log.files(imported.id).read(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"hello", "is not valid JSON"),
        (b"{}", "a conversation is a list of messages"),
        (b'[{"role":"user","content":"Hi."},{"role":"tool","content":"x"}]', "message 2 has the role 'tool'"),
        (
            b'[{"role":"user","content":[{"type":"attachment","sha256":"x","mime_type":"a","size":1,"data":"!"}]}]',
            "base64",
        ),
    ],
)
def test_a_broken_conversation_leaves_nothing(log: Log, text: bytes, said: str) -> None:
    with pytest.raises(ConversationError, match=said):
        import_conversation(log, text)
    check_nothing_came(log)


# Anything


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
blocks = st.fixed_dictionaries(
    {
        "type": st.just("attachment"),
        "sha256": st.sampled_from([sha256(b""), sha256(b"x"), ".."]) | st.text(max_size=70),
        "mime_type": st.sampled_from(["image/png", "text/plain", "", "\0"]),
        "size": st.integers(0, 2) | st.integers(),
    },
    optional={"name": st.text(max_size=8) | values},
)
pieces = st.fixed_dictionaries({"file": blocks, "data": st.sampled_from(["", "eA==", "AAAA", "="]) | values})
messages = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant"]),
        "content": st.lists(blocks, max_size=2) | st.text(max_size=3) | values,
    }
)
bodies_by_kind = {
    "began": st.fixed_dictionaries(
        {"session": st.text(max_size=3), "version": st.just(""), "parent": st.text(max_size=3)}
    ),
    "settings": st.fixed_dictionaries({}, optional=dict.fromkeys(("title", "model", "tools", "limits"), values)),
    "message": st.fixed_dictionaries({"message": messages}),
    "attachment": st.fixed_dictionaries({"attachment": blocks}),
    "cancelled": values,
    "": values,
    "novelty": values,
}
entries = st.sampled_from(sorted(bodies_by_kind)).flatmap(
    lambda kind: st.fixed_dictionaries(
        {
            "seq": st.integers(2, 9) | st.integers() | st.sampled_from([2**62, 2**63 - 1, 2**63]),
            "time": st.floats(allow_nan=False, allow_infinity=False) | st.integers(),
            "kind": st.just(kind),
            "body": bodies_by_kind[kind],
        }
    )
)
objects = (entries | pieces | entries | pieces | values).map(msgspec.json.encode)
lines_of_anything = st.lists(objects | st.binary(max_size=40), min_size=1, max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(150))
@given(first=st.sampled_from([[HEADER, BEGAN], [HEADER], []]), rest=lines_of_anything)
def test_whatever_comes_is_imported_or_refused(log: Log, first: list[bytes], rest: list[bytes]) -> None:
    before = len(rows(log))
    try:
        imported = import_session(log, [*first, *rest])
    except LogError:
        assert len(rows(log)) == before
    else:
        assert len(rows(log)) - before in (imported.entries, imported.entries + 1), (
            "a beginning is added if there is none"
        )
        with suppress(NewerLogError):
            log.messages(imported.id)
        list(export(log, imported.id))
        log.delete(imported.id)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(100))
@given(data=st.data())
def test_a_damaged_export_is_imported_as_far_as_it_is_true_or_refused(log: Log, data: st.DataObject) -> None:
    if not log._backend.exists():
        journal = log.create(SessionSettings(model="scripted"))
        journal.files.put(Attachment(b"notes", name="n.txt"))
        journal.write_now(MessageEntry(Message.user("Hello.")), MessageEntry(Message.assistant("Hi.")))
        journal.close()
    source = log.sessions()[-1].id
    text = bytearray(b"".join(export(log, source, attachments=True)))
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    before = len(rows(log))
    try:
        imported = import_session(log, bytes(text).splitlines(keepends=True))
    except LogError:
        assert len(rows(log)) == before
    else:
        with suppress(NewerLogError):
            log.messages(imported.id)
        log.delete(imported.id)
    assert len(rows(log)) == before


@pytest.mark.parametrize("limits", [{"max_turns": -1}, {"turns": "many"}, {"max_seconds": None, "tokens": [1]}])
def test_limits_that_make_no_sense_are_refused_in_a_sentence_or_left_out(log: Log, limits: dict[str, Any]) -> None:
    imported = import_session(log, [HEADER, BEGAN, line(2, SessionSettings(model="demo", limits=limits))])
    with suppress(LogError), Session.open(log, imported.id) as session:
        assert session.agent.limits == Limits()


def test_limits_with_the_names_of_earlier_versions_are_read(log: Log) -> None:
    stored = {
        "turns": 7,
        "tokens": 900,
        "cost": 0.5,
        "seconds": None,
        "repeats": 3,
        "subagents": 2,
        "tool_seconds": 9.0,
    }
    journal = log.create(SessionSettings(model="demo", limits=stored))
    journal.close()
    assert kept_limits(log.settings(journal.id)) == {
        "limits.max_turns": 7,
        "limits.max_total_tokens": 900,
        "limits.max_cost": 0.5,
    }
    with Session.open(log, journal.id) as session:
        assert session.agent.limits == Limits(
            max_turns=7, max_total_tokens=900, max_cost=0.5, max_repeats=3, max_subagents=2, tool_seconds=9.0
        )
