"""`outrider sessions`: what is stored, shown, copied, taken elsewhere and removed, as a user does it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from outrider import Attachment, Log, Message, ToolResultBlock, ToolUseBlock, Usage, dumps
from outrider.cli import main
from outrider.cli.options import resume_command
from outrider.conversation.messages import AttachmentBlock, TextBlock, ThinkingBlock
from outrider.errors import AttachmentError
from outrider.log.entries import (
    CallResult,
    Entry,
    Intent,
    MessageEntry,
    RunCancelled,
    SessionRecovered,
    SessionSettings,
    SessionStarted,
    SubagentLinked,
    UnknownEntry,
)
from outrider.log.journal import Journal
from outrider.log.rows import encode
from outrider.log.transfer import export, import_session
from outrider.stores import MemoryStore
from outrider.sync import default_log
from outrider.version import __version__
from tests.cli.program import clean_environment, outrider, start
from tests.log.test_other_agents import Project, rollout

Run: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]
COMMANDS = ("list", "show", "audit", "export", "import", "fork", "rewind", "rename", "delete", "gc", "recover")
HEADING = ["ID", "WHEN", "MODEL", "TURNS", "COST", "SIZE", "TITLE"]
NOTES = Attachment(b"The notes of the day.\n", "text/plain", "notes.txt")
RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What moves a cursor, rings a bell or changes a colour."""
EVIL = "\x1b[31m\x07\x9b2J"


def sessions(
    *arguments: str, input: bytes = b"", home: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command, in the data folder of the test or in another."""
    return outrider("sessions", *arguments, input=input, **environment | ({"OUTRIDER_HOME": str(home)} if home else {}))


def store(*entries: Entry, model: str = "demo", parent: str = "") -> str:
    """A session with these entries in the data folder, which nobody holds; its id."""
    with default_log() as log:
        return fill(log.create(SessionSettings(model=model), parent=parent), *entries)


def fill(journal: Journal, *entries: Entry) -> str:
    journal.write_now(*entries)
    journal.close()
    return journal.id


def exchange(asked: str = "What is 2+2?", answered: str = "4", usage: Usage | None = None) -> tuple[Entry, ...]:
    used = usage or Usage(10, 20, cost=0.0123)
    return MessageEntry(Message.user(asked)), MessageEntry(Message.assistant(answered), used, "end", "demo")


def store_with_file(file: Attachment = NOTES) -> tuple[str, AttachmentBlock]:
    """A session into which a file came."""
    with default_log() as log:
        journal = log.create(SessionSettings(model="demo"))
        block = journal.files.put(file)
        return fill(
            journal, MessageEntry(Message.user("Look at this.", block)), MessageEntry(Message.assistant("A file."))
        ), block


def exported(*lines: dict[str, Any], **header: Any) -> bytes:
    """The text of an exported session, written by hand."""
    first = {"outrider_session": 1, "id": "0123456789abcdef" * 2, "title": "By hand"} | header
    return b"".join(json.dumps(line).encode() + b"\n" for line in (first, *lines))


def line(seq: int, entry: Entry, **fields: Any) -> dict[str, Any]:
    kind, body = encode(entry)
    return {"seq": seq, "time": 1.7e9, "kind": kind, "body": json.loads(body)} | fields


BEGAN = line(1, SessionStarted("0123456789abcdef" * 2, "0.1.0"))


def store_under(id: str, said: str) -> str:
    """A session with an id of our choice."""
    text = exported(BEGAN, line(2, MessageEntry(Message.user(said))), id=id)
    with default_log() as log:
        return import_session(log, text.splitlines(keepends=True)).id


def all_of(id: str, home: Path | None = None) -> list[Message]:
    with default_log() if home is None else Log(home / "sessions") as log:
        return log.messages(id)


def listed() -> list[str]:
    """The ids in the list, in order."""
    with default_log() as log:
        return [summary.id for summary in log.sessions()]


def at_terminal(
    *arguments: str, typed: str, outside: bool = False, interrupt: bool = False, before: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the command with a keyboard at which a line is typed at each question, and something `before` the first.

    `outside` has the output on the terminal too.
    """
    master, slave = pty.openpty()
    os.write(master, before.encode())
    asked = b""
    try:
        process = start(
            *("sessions", *arguments),
            stdin=slave,
            stdout=slave if outside else subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(),
            bufsize=0,
        )
        with process:
            if interrupt:
                assert process.stderr
                process.stderr.read(1)  # the question is being asked
                process.send_signal(signal.SIGINT)
            for line in typed.splitlines(keepends=True):
                asked += _until_asked(process)
                os.write(master, line.encode())
            out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess([], process.returncode, (out or b"").decode(), (asked + err).decode())
    finally:
        os.close(slave)
        os.close(master)


def _until_asked(process: subprocess.Popen[bytes]) -> bytes:
    """Return what the program writes up to its question, or up to its end."""
    assert process.stderr
    said = b""
    while not said.endswith(b"[y/N] ") and (more := process.stderr.read(1)):
        said += more
    return said


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Run:
    """The command within this process: for tables of cases, and for what leads up to one."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        code = main(["sessions", *arguments])
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What we start can be interrupted, also where the tests themselves cannot, as in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# The list


@pytest.mark.parametrize("command", [[], ["list"], ["list", "--all"], ["list", "--json"]])
def test_where_nothing_is_stored_the_list_is_empty_and_nothing_is_made(command: list[str], tmp_path: Path) -> None:
    ended = sessions(*command, home=tmp_path / "new")
    assert (ended.returncode, ended.stdout) == (0, "[]\n" if "--json" in command else "")
    said = f"There are no sessions yet in {tmp_path / 'new' / 'sessions'}.\n"
    assert ended.stderr == ("" if "--json" in command else said)
    assert not (tmp_path / "new").exists()


def test_a_line_has_the_title_when_the_model_turns_cost_and_size() -> None:
    more = (*exchange("And 3+3?", "6"), *exchange("And 4+4?", "8", Usage(1, 1, cost=234.5)))
    session = store(*exchange("What is\n 2+2?"), *more, model="anthropic/claude-sonnet-5-5-of-a-long-name")
    ended = sessions(TZ="UTC")
    heading, found = ended.stdout.splitlines()
    assert (ended.returncode, ended.stderr, heading.split()) == (0, "", HEADING)
    with default_log() as log:
        summary = log.session(session)
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(summary.updated))
    assert re.split(r"\s{2,}", found) == [
        session[:8],
        when,
        "demo",
        "3",
        "$234.52",
        f"{summary.size} bytes",
        "What is 2+2?",
    ]
    assert heading.index("TITLE") == found.index("What")


def test_an_id_of_your_own_is_shown_whole_and_finds_the_session(capsys: pytest.CaptureFixture[str]) -> None:
    random = store(*exchange("one"))
    with default_log() as log:
        fill(log.create(SessionSettings(model="demo"), id="order-17-refund"), *exchange("two"))
    assert main(["sessions"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["order-17-refund", random[:8]]
    assert {line.index(word) for line, word in zip([heading, *lines], ["TITLE", "two", "one"], strict=True)} == {
        heading.index("TITLE")
    }
    assert resume_command("order-17-refund", None) == "outrider --resume order-17-refund"


def test_a_model_that_is_too_long_for_the_list_is_cut_and_a_cost_that_nobody_knows_is_a_dash() -> None:
    store(MessageEntry(Message.user("Hello")), model="litellm/someone/a-model-of-a-very-long-name")
    ended = sessions()
    assert (ended.stdout, ended.stderr) == ("", f"There are no chats yet. {MORE}"), "it has no answer"
    assert "litellm/someone/a-model…      0         –  " in sessions("--all").stdout


MORE = "To list all sessions, also of -p, batches and programs: outrider sessions --all\n"


def test_the_session_that_was_used_last_comes_first() -> None:
    first, second, third = (store(*exchange(title)) for title in ("one", "two", "three"))
    with default_log() as log:
        log.open(second).close()
        fill(log.open(first), *exchange("once more"))
    assert [line.split()[0] for line in sessions().stdout.splitlines()[1:]] == [first[:8], third[:8], second[:8]]


def test_chats_of_this_repository_come_first_and_other_sessions_on_request(
    here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    (root / ".git").mkdir()
    monkeypatch.chdir(root / "src")
    for said, where, origin in (
        ("in the root", root, "chat"),
        ("for a batch", root, "batch"),
        ("in a script", root, "print"),
        ("in an editor", root / "src", "editor"),
        ("far away", tmp_path, None),
    ):
        with default_log() as log:
            fill(log.create(SessionSettings(model="demo", cwd=str(where), origin=origin)), *exchange(said))
    ended = here()
    _, *lines = ended.stdout.splitlines()
    assert [line[83:] for line in lines] == ["(editor) in an editor", "in the root", "", f"far away  in {tmp_path}"]
    assert (lines[2], ended.stderr) == ("In other folders:", MORE)
    ended = here("--all")
    assert [line[83:] for line in ended.stdout.splitlines()[1:]] == [
        "(editor) in an editor",
        "(print) in a script",
        "(batch) for a batch",
        "in the root",
        "",
        f"far away  in {tmp_path}",
    ]
    assert [each["title"] for each in json.loads(here("--json").stdout)] == ["in an editor", "in the root", "far away"]


def test_sessions_in_which_nothing_was_said_and_those_of_sub_agents_are_not_listed(here: Run) -> None:
    session = store(*exchange())
    child = store(*exchange("Count the files.", usage=Usage(1, 2, cost=0.5)), parent=session)
    store()
    assert [line.split()[0] for line in here("list").stdout.splitlines()[1:]] == [session[:8]]
    shown = here("show", session).stdout
    assert f"\n    └─ {child[:8]}  Count the files. · 1 turn, $0.5000\n    total 2 turns, $0.5" in shown


def test_the_list_has_the_newest_30_and_all_if_they_are_wanted(here: Run) -> None:
    with default_log() as log:
        ids = [fill(log.create(), *exchange(f"Number {number}")) for number in range(31)]
    ended = sessions("list")
    assert (ended.returncode, ended.stderr) == (0, MORE)
    assert len(ended.stdout.splitlines()) == 31
    assert ids[0][:8] not in ended.stdout
    whole = sessions("list", "--all")
    assert (len(whole.stdout.splitlines()), whole.stderr) == (32, "")
    assert len(json.loads(here("list", "--json").stdout)) == 31
    here("delete", ids[0], "--yes")
    assert here("list").stderr == "", "exactly 30 are all of them"


def test_as_json_the_list_is_one_array() -> None:
    first, second = store(*exchange("one\ntwo")), store(*exchange("zwei ü"))
    ended = sessions("list", "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    newest, oldest = json.loads(ended.stdout)
    assert (newest["id"], oldest["id"]) == (second, first)
    assert (newest["title"], newest["model"], newest["turns"], newest["last"]) == ("zwei ü", "demo", 1, 4)
    assert newest["usage"] == {"input_tokens": 10, "output_tokens": 20, "cost": 0.0123}
    assert abs(newest["updated"] - time.time()) < 120
    assert newest["holder"] is None


def test_a_session_that_is_open_is_marked_and_says_where() -> None:
    with default_log() as log:
        journal = log.create(SessionSettings(model="demo"))
        journal.write_now(*exchange())
        assert "  ● What is 2+2?\n" in sessions().stdout
        shown = sessions("show", journal.id)
        assert re.search(rf"\n  open in   .*process {os.getpid()} on ", shown.stdout)


# What one session holds

CALLS = (
    MessageEntry(Message.user("Read both.")),
    MessageEntry(
        Message.assistant(
            ThinkingBlock("I should look."),
            "I'll read them.",
            ToolUseBlock("c1", "read_file", {"path": "a.txt"}),
            ToolUseBlock("c2", "read_file", {"path": "b.txt"}),
        ),
        Usage(1200, 34, 1000, cost=0.25),
        "tool_use",
        "demo",
    ),
    Intent("c1", "read_file", "read", "k1", {"path": "a.txt"}),
    Intent("c2", "read_file", "read", "k2", {"path": "b.txt"}),
    CallResult(ToolResultBlock("c1", (TextBlock("first line\nsecond line"),))),
    CallResult(ToolResultBlock("c2", (TextBlock("there is no b.txt"),), is_error=True)),
    RunCancelled(),
    SubagentLinked("c3", "0123456789abcdef" * 2),
    SessionRecovered((11, 12), 2),
    UnknownEntry("spoken", b'{"words": 3}'),  # type: ignore[arg-type]
    CallResult(ToolResultBlock("c4", ())),
)


def test_a_session_is_shown_with_who_answered_what_it_cost_and_every_step_with_its_number() -> None:
    session = store(*CALLS)
    ended = sessions("show", session[:6], TZ="UTC")
    assert (ended.returncode, ended.stderr) == (0, "")
    head, _, entries = ended.stdout.partition("\n\n")
    with default_log() as log:
        summary = log.session(session)
    day = "%Y-%m-%d %H:%M"
    began, last = (time.strftime(day, time.gmtime(moment)) for moment in (summary.created, summary.updated))
    assert head.splitlines() == [
        "Read both.",
        f"  id        {session}",
        "  model     demo",
        f"  started   {began}, last entry {last}",
        "  used      1 turn, 1,200 tokens in (1,000 cached), 34 out, $0.2500",
        "  context   1,234 tokens",
        f"  size      {summary.size / 1024:.1f} KiB",
    ]
    assert re.sub(r" {2}\d\d:\d\d:\d\d ", "  --:--:-- ", entries).splitlines() == [
        f"     1  --:--:--  created    by Outrider {__version__}",
        "     2  --:--:--  settings   demo",
        "     3  --:--:--  you        Read both.",
        "     4  --:--:--  thought    I should look.",
        "                             I'll read them.",
        '                  calls      read_file {"path":"a.txt"}',
        '                  calls      read_file {"path":"b.txt"}',
        "     5  --:--:--  started    read_file (read) c1",
        "     6  --:--:--  started    read_file (read) c2",
        "     7  --:--:--  result     first line",
        "                             second line",
        "     8  --:--:--  failed     there is no b.txt",
        "     9  --:--:--  cancelled",
        "    10  --:--:--  sub-agent  01234567 for c3",
        "    11  --:--:--  recovered  2 of the entries before this one were lost",
        "    12  --:--:--  spoken     (written by a newer version; kept, but ignored)",
        "    13  --:--:--  result     (no output)",
    ]


def test_what_the_runtime_told_the_model_is_not_shown_as_words_of_the_user() -> None:
    told = (
        "[The reply above was interrupted here, before it was complete.]",
        "[Sub-agent 01234567 (a: b) has finished.]",
    )
    shown = sessions("show", store(*exchange(), *(MessageEntry(Message.user(text)) for text in told))).stdout
    assert re.search(r"  you        What is 2\+2\?\n", shown)
    for text in told:
        assert re.search(rf"  note       {re.escape(text)}\n", shown)


def test_files_are_shown_by_name_type_and_size(here: Run) -> None:
    session, _ = store_with_file()
    shown = here("show", session).stdout
    assert re.search(r"  stored     notes\.txt, text/plain, 22 bytes\n", shown)
    assert re.search(r"  you        Look at this\.\n +file       notes\.txt, text/plain, 22 bytes\n", shown)


def test_long_texts_are_cut_and_whole_if_that_is_wanted() -> None:
    many = "\n".join(f"line {number}" for number in range(1, 21))
    session = store(
        MessageEntry(Message.user("Hello")),
        MessageEntry(Message.assistant(many)),
        MessageEntry(Message.user("x" * 700)),
    )
    short = sessions("show", session).stdout
    assert re.search(r"line 8\n +… 12 more lines\n", short)
    assert "line 9" not in short
    assert re.search(r"x{600}…\n", short)
    whole = sessions("show", session, "--full").stdout
    assert "line 20" in whole
    assert "x" * 700 in whole
    assert "…" not in whole.partition("\n\n")[2]


def test_long_thoughts_are_whole_if_that_is_wanted() -> None:
    session = store(
        MessageEntry(Message.user("Hello")),
        MessageEntry(Message.assistant(ThinkingBlock("first\nsecond\nthird"), "Hi")),
    )
    assert re.search(r"thought    first\n +second\n +third\n", sessions("show", session, "--full").stdout)


@pytest.mark.parametrize(("more", "said"), [(1, "1 earlier entry"), (2, "2 earlier entries")])
def test_of_a_long_session_the_newest_60_entries_are_shown_and_all_if_that_is_wanted(
    more: int, said: str, here: Run
) -> None:
    session = store(*(MessageEntry(Message.user(f"number {number}")) for number in range(3, 61 + more)))
    ended = here("show", session)
    assert f"\n… {said}; to show all: --all\n{1 + more:>6}  " in ended.stdout
    assert f"\n{60 + more:>6}  " in ended.stdout
    whole = here("show", session, "--all").stdout
    assert "earlier" not in whole
    assert [int(line[:6]) for line in whole.partition("\n\n")[2].splitlines()] == list(range(1, 61 + more))


def store_evil() -> str:
    """A session in which all that came from elsewhere wants to move the cursor."""
    file = AttachmentBlock("a" * 64, f"text/{EVIL}", 3, f"na{EVIL}me", EVIL)
    return store(
        MessageEntry(Message.user(f"ti{EVIL}tle\rover it", file)),
        MessageEntry(
            Message.assistant(
                ThinkingBlock(EVIL), f"text{EVIL}", ToolUseBlock(f"c{EVIL}", "read", {EVIL: EVIL}, invalid_input=EVIL)
            )
        ),
        CallResult(ToolResultBlock(f"c{EVIL}", (TextBlock(f"output{EVIL}\0"), file))),
        Intent(f"c{EVIL}", "read", "read", EVIL, {EVIL: EVIL}),
        SubagentLinked(EVIL, "0" * 32),
        UnknownEntry(f"un{EVIL}", b"{}"),  # type: ignore[arg-type]
        SessionSettings(title=f"ti{EVIL}tle", system=EVIL, cwd=EVIL),
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", ["list", "list --json", "show", "show --full", "export"])
def test_what_was_said_cannot_do_anything_to_the_terminal(command: str) -> None:
    session = store_evil()
    name, *options = command.split()
    ended = sessions(name, *([] if name == "list" else [session]), *options)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "ti" in ended.stdout
    if command in ("list --json", "export"):  # data for programs, in which JSON escapes all but these
        ended.stdout = ended.stdout.replace("\x9b", "")
    assert not RAW.search(ended.stdout)


@pytest.mark.parametrize("command", ["delete", "delete and ask", "import"])
def test_a_title_cannot_do_anything_to_the_terminal_either(command: str, here: Run) -> None:
    session = store_evil()
    if command == "import":
        ended = sessions("import", input=here("export", session).stdout.encode())
    elif command == "delete":
        ended = sessions("delete", session, "--yes")
    else:
        ended = at_terminal("delete", session, typed="n\n")
    assert ended.returncode == 0
    assert "ti" in ended.stderr
    assert not RAW.search(ended.stderr)


def test_names_of_models_tools_and_files_that_were_imported_cannot_either(here: Run) -> None:
    file = AttachmentBlock("a" * 64, "text/plain", 3, f"na{EVIL}me")
    told: list[Entry] = [
        SessionSettings(model=f"mo{EVIL}del"),
        MessageEntry(Message.user("Hello")),
        Intent("c1", f"na{EVIL}me", f"re{EVIL}ad", "k", {}),
        SubagentLinked("c2", EVIL * 8),
    ]
    stored = {
        "attachment": {"type": "attachment", "sha256": file.sha256, "mime_type": "a/b", "size": 3, "name": file.name}
    }
    lines = [line(seq, entry) for seq, entry in enumerate(told, 2)]
    text = exported(BEGAN, *lines, {"seq": 9, "time": 1.7e9, "kind": "attachment", "body": stored})
    came = sessions("import", input=text)
    assert came.returncode == 0, came.stderr
    printed = {"import": came.stderr, "list": here().stdout, "show": here("show", "01234567").stdout}
    assert [name for name, text in printed.items() if RAW.search(text)] == []


def test_a_title_of_several_lines_takes_one_line_of_the_list(here: Run) -> None:
    session = store(*exchange())
    here("rename", session, "one\ntwo\tthree")
    assert len(here().stdout.splitlines()) == 2


# Elsewhere and back


def test_a_session_goes_to_another_machine_with_its_files(tmp_path: Path) -> None:
    session, file = store_with_file()
    out = sessions("export", session[:8], "--attachments")
    assert (out.returncode, out.stderr) == (0, "")
    (tmp_path / "session.jsonl").write_text(out.stdout)
    there = tmp_path / "there"
    came = sessions("import", str(tmp_path / "session.jsonl"), home=there)
    assert (came.returncode, came.stdout) == (0, f"{session}\n")
    assert came.stderr == "Imported 5 lines of “Look at this.”.\n"
    assert all_of(session, there) == all_of(session)
    with Log(there / "sessions") as log:
        assert log.files(session).read(file) == NOTES.source
        assert log.session(session).model == "demo"
        again = [entry.decode().rstrip("\n") for entry in export(log, session, attachments=True)]
    assert again[1] == out.stdout.splitlines()[1], "the file"
    assert again[3:] == out.stdout.splitlines()[3:], "all entries after the first, with their numbers and times"


def test_without_its_files_a_session_comes_in_and_says_which_are_missing(tmp_path: Path) -> None:
    session, file = store_with_file()
    out = sessions("export", session)
    assert [list(json.loads(line)) for line in out.stdout.splitlines()][1:] == [["seq", "time", "kind", "body"]] * 5
    came = sessions("import", "-", input=out.stdout.encode(), home=tmp_path)
    assert (came.returncode, came.stdout) == (0, f"{session}\n")
    assert came.stderr.splitlines()[1] == (
        "Its files are missing: notes.txt. To include them, export with --attachments."
    )
    assert all_of(session, tmp_path) == all_of(session)
    with Log(tmp_path / "sessions") as log, pytest.raises(AttachmentError, match="was never added to this session"):
        log.files(session).read(file)


def test_what_was_imported_goes_on(tmp_path: Path, here: Run) -> None:
    session = store(*exchange())
    sessions("import", input=here("export", session).stdout.encode(), home=tmp_path)
    ended = outrider("--continue", "-p", "What is 3+3?", "--model", "demo", OUTRIDER_HOME=str(tmp_path))
    assert (ended.returncode, ended.stdout) == (0, "6\n")
    assert [message.text for message in all_of(session, tmp_path)] == ["What is 2+2?", "4", "What is 3+3?", "6"]


def test_an_import_chooses_neither_the_server_nor_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as evil:
        evil.setblocking(False)
        target = tmp_path / "target"
        target.mkdir()
        with Log(tmp_path / "theirs") as log:
            settings = SessionSettings(
                model=f"http://127.0.0.1:{evil.getsockname()[1]}/v1#m", cwd=str(target), limits={"max_turns": None}
            )
            session = fill(log.create(settings), *exchange())
            lines = b"".join(export(log, session))
        mine = tmp_path / "mine"
        assert sessions("import", input=lines, home=mine).returncode == 0
        own = {"OUTRIDER_HOME": str(mine), "OUTRIDER_MODEL": "demo"}
        ended = outrider("--resume", session, "-p", "What is 3+3?", cwd=tmp_path, **own)
        assert (ended.returncode, ended.stdout) == (0, "6\n")
        assert "was imported" in ended.stderr
        assert str(target) in ended.stderr, "what is not used is named"
        with pytest.raises(BlockingIOError):
            evil.accept()
    with Log(mine / "sessions") as log:
        monkeypatch.setenv("OUTRIDER_HOME", str(mine))
        assert log.settings(session).cwd == str(tmp_path)
        assert log.settings(session).model == "demo"
    again = outrider("--resume", session, "-p", "What is 4+4?", cwd=target, **own)
    assert (again.returncode, again.stdout) == (0, "8\n")
    assert "imported" not in again.stderr, "it is the user's own now"


def test_a_session_that_is_there_already_comes_in_under_another_id(here: Run) -> None:
    session = store(*exchange())
    came = sessions("import", input=here("export", session).stdout.encode())
    assert came.returncode == 0
    assert came.stdout.strip() != session
    assert all_of(came.stdout.strip()) == all_of(session)


def test_an_export_to_the_terminal_says_how_to_keep_it() -> None:
    ended = at_terminal("export", store(*exchange()), typed="", outside=True)
    assert (ended.returncode, ended.stderr.count("> FILE")) == (0, 1)


def test_a_file_without_bytes_comes_along_too(tmp_path: Path, here: Run) -> None:
    session, file = store_with_file(Attachment(b"", "text/plain", "empty.txt"))
    came = sessions("import", input=here("export", session, "--attachments").stdout.encode(), home=tmp_path)
    assert (came.returncode, came.stderr) == (0, "Imported 5 lines of “Look at this.”.\n")
    with Log(tmp_path / "sessions") as log:
        assert log.files(session).read(file) == b""


def test_a_file_that_changed_on_the_way_is_not_lost_silently(tmp_path: Path, here: Run) -> None:
    session, _ = store_with_file()
    out = here("export", session, "--attachments").stdout.replace('"data":"VGhl', '"data":"VGhh')
    came = sessions("import", input=out.encode(), home=tmp_path)
    assert "notes.txt" in came.stderr


def test_a_conversation_that_dumps_wrote_comes_in_with_its_files(tmp_path: Path) -> None:
    files = MemoryStore()
    conversation = [Message.user("What is in it?", files.put(NOTES)), Message.assistant("Notes.")]
    (tmp_path / "conversation.json").write_text(dumps(conversation, inline=True, store=files))
    came = sessions("import", str(tmp_path / "conversation.json"))
    assert (came.returncode, came.stderr) == (0, "Imported 2 lines of “What is in it?”.\n")
    session = came.stdout.strip()
    assert all_of(session) == conversation
    with default_log() as log:
        assert log.files(session).read(conversation[0].content[1]) == NOTES.source  # type: ignore[arg-type]


def test_a_conversation_without_its_files_says_which_are_missing() -> None:
    conversation = [Message.user("What is in it?", MemoryStore().put(NOTES))]
    came = sessions("import", input=dumps(conversation).encode())
    assert came.returncode == 0
    assert "Its files are missing: notes.txt" in came.stderr


HELLO = line(2, MessageEntry(Message.user("Hello")))
BROKEN = {
    "nothing": (b"", "there is nothing to import"),
    "only a header": (exported(), "there is nothing to import"),
    "words": (b"Dear Sir or Madam\n", "line 1 is not a line of an exported session: JSON is malformed"),
    "another object": (b'{"version": 1}\n', "it is not a session of Outrider, Claude Code or Codex"),
    "a newer export": (
        exported(BEGAN, outrider_session=2),
        "line 1 is not a line of an exported session: it was written by",
    ),
    "half a line": (
        exported(BEGAN, HELLO)[:-9],
        "line 3 is not a line of an exported session: Input data was truncated",
    ),
    "after a blank line": (
        exported(BEGAN) + b"\n\nwell\n",
        "line 5 is not a line of an exported session: JSON is malf",
    ),
    "an entry that is not of its kind": (
        exported(BEGAN, HELLO | {"body": {"message": 3}}),
        "line 3 is not a line of an exported session: an entry of kind 'message' was written by a newer version",
    ),
    "twice the same": (
        exported(BEGAN, HELLO, HELLO),
        "line 4 is not a line of an exported session: the number of entry 2 is rep",
    ),
    "bytes that are no text": (
        exported(BEGAN) + b'{"seq": 2, "kind": "\xff"}\n',
        "line 3 is not a line of an exported",
    ),
    "a file that is none": (
        exported({"file": {"type": "attachment", "sha256": "../x", "mime_type": "a/b", "size": 1}, "data": ""}, BEGAN),
        "line 2 is not a line of an exported session: '../x' is not a SHA-256",
    ),
    "bytes that are no base64": (
        exported(
            {"file": {"type": "attachment", "sha256": "a" * 64, "mime_type": "a/b", "size": 1}, "data": "!"}, BEGAN
        ),
        "line 2 is not a line of an exported session: ",
    ),
    "half a conversation": (
        b'[{"role": "user", "content": "Hello"}',
        "not valid JSON: Expecting ',' delimiter: line 1",
    ),
    "no conversation": (b'[{"role": "user", "content": "Hi"},\n\n{"role": "king"}]', "message 2 has the role 'king'"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_session_is_refused_with_the_place_and_nothing_comes_in(
    case: str, tmp_path: Path, here: Run
) -> None:
    text, said = BROKEN[case]
    (tmp_path / "broken").write_bytes(text)
    ended = here("import", str(tmp_path / "broken"))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("outrider sessions: ")
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1, "a sentence"
    assert listed() == []


def test_broken_input_is_an_error_of_the_program() -> None:
    ended = sessions("import", input=exported(BEGAN, HELLO)[:-9])
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "outrider sessions: line 3 is not a line of an exported session: Input data was truncated\n"


def test_a_file_that_is_not_there_is_an_error_that_names_it(tmp_path: Path, here: Run) -> None:
    for name in (tmp_path / "nowhere.jsonl", tmp_path):
        ended = here("import", str(name))
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr.startswith(f"outrider sessions: {name}: ")


def test_the_first_entry_is_not_lost_where_the_beginning_is_missing() -> None:
    ended = sessions("import", input=exported(HELLO, line(3, MessageEntry(Message.assistant("Hi")))))
    if ended.returncode == 0:
        assert [message.text for message in all_of(ended.stdout.strip())] == ["Hello", "Hi"]
    else:
        assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize("strange", [{"time": 1e300}, {"time": -1e300}, {"seq": 2**63}, {"seq": 2**63 - 1}], ids=str)
def test_numbers_that_no_session_has_are_refused_or_do_no_harm(
    strange: dict[str, Any], tmp_path: Path, here: Run
) -> None:
    (tmp_path / "strange").write_bytes(exported(BEGAN, HELLO | strange))
    ended = here("import", str(tmp_path / "strange"))
    if ended.returncode == 0:
        assert here("show", ended.stdout.strip()).returncode == 0
        assert here("rename", ended.stdout.strip(), "Another").returncode == 0


# Copies


def test_a_fork_has_all_that_was_said_and_goes_on_alone(here: Run) -> None:
    session, file = store_with_file()
    ended = sessions("fork", session[:8])
    assert (ended.returncode, ended.stderr) == (0, "")
    copy = ended.stdout.strip()
    assert copy != session
    assert all_of(copy) == all_of(session)
    assert (
        f"  created    by Outrider {__version__}, copied from {session[:8]} up to entry 5\n"
        in here("show", copy).stdout
    )
    assert outrider("--resume", copy, "-p", "What is 2+2?", "--model", "demo").stdout == "4\n"
    assert (len(all_of(copy)), len(all_of(session))) == (4, 2)
    with default_log() as log:
        assert log.files(copy).read(file) == NOTES.source


def test_a_fork_up_to_an_entry_has_no_more_and_counts_no_cost_twice(here: Run) -> None:
    session = store(*exchange(), *exchange("And 3+3?", "6"))
    copy = sessions("fork", session, "--at", "4").stdout.strip()
    assert [message.text for message in all_of(copy)] == ["What is 2+2?", "4"]
    assert [int(line[:6]) for line in here("show", copy).stdout.partition("\n\n")[2].splitlines()] == [1, 2, 3, 4]
    with default_log() as log:
        assert log.session(copy).usage == Usage()
        assert log.session(session).usage.cost == pytest.approx(0.0246)


@pytest.mark.parametrize(
    ("at", "code"), [("0", 1), ("-1", 1), ("5", 1), ("99999999999999999999", 1), ("x", 2), ("", 2)]
)
def test_a_fork_at_an_entry_that_is_not_there_is_refused(at: str, code: int, here: Run) -> None:
    session = store(*exchange())
    ended = here("fork", session, "--at", at)
    assert (ended.returncode, ended.stdout) == (code, "")
    said = f"there is no entry {at} to fork at; the session has entries 1 to 4" if code == 1 else "argument --at"
    assert said in ended.stderr
    assert listed() == [session]


def test_a_session_that_is_open_elsewhere_can_be_looked_at_and_copied_but_not_changed() -> None:
    with default_log() as log:
        journal = log.create(SessionSettings(model="demo"))
        journal.write_now(*exchange())
        for command in (["rename", journal.id, "Mine"], ["delete", journal.id, "--yes"], ["recover"]):
            ended = sessions(*command)
            assert (ended.returncode, ended.stdout) == (1, "")
            assert f"process {os.getpid()}" in ended.stderr
        for command in (["show", journal.id], ["fork", journal.id]):
            assert sessions(*command).returncode == 0
        assert log.session(journal.id).title == "What is 2+2?"


# Titles


def test_a_session_gets_another_title(here: Run) -> None:
    session = store(*exchange())
    ended = sessions("rename", session[:8], "The sum – “ü”")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert here("list").stdout.splitlines()[1].endswith("  The sum – “ü”")
    assert here("show", session).stdout.startswith("The sum – “ü”\n")
    assert all_of(session)[0].text == "What is 2+2?"


def test_a_title_goes_along_to_another_machine(tmp_path: Path, here: Run) -> None:
    session = store(*exchange())
    here("rename", session, "The sum")
    came = sessions("import", input=here("export", session).stdout.encode(), home=tmp_path)
    assert "“The sum”" in came.stderr


def test_a_session_without_a_title_is_still_in_the_list(here: Run) -> None:
    session = store(*exchange())
    here("rename", session, "")
    assert session[:8] in here("list").stdout


# Removing


@pytest.mark.parametrize(("typed", "gone"), [("Yes\n", True), ("n\n", False), ("\n", False), ("\x04", False)])
def test_at_a_terminal_nothing_is_removed_without_a_yes(typed: str, gone: bool) -> None:
    session = store(*exchange())
    ended = at_terminal("delete", session[:8], typed=typed)
    assert (ended.returncode, ended.stdout) == (0, "")
    question = f"Delete {session[:8]} “What is 2+2?”, 1 turn permanently? [y/N] "
    name = f"{session[:8]} “What is 2+2?”, 1 turn"
    deleted = f"Deleted {name}. To delete its files, run after an hour: outrider sessions gc\n"
    assert ended.stderr == question + (deleted if gone else f"Kept {name}.\n")
    assert listed() == ([] if gone else [session])


def test_at_a_terminal_each_of_several_is_asked_about() -> None:
    first, second, third = (store(*exchange(title)) for title in ("one", "two", "three"))
    ended = at_terminal("delete", first, second, third, typed="y\nn\ny\n")
    assert ended.returncode == 0
    assert ended.stderr.count("[y/N]") == 3
    assert listed() == [second]


def test_what_was_typed_before_the_question_removes_nothing() -> None:
    session = store(*exchange())
    ended = at_terminal("delete", session, before="y\n", typed="n\n")
    assert "Kept" in ended.stderr
    assert listed() == [session]


def test_an_interrupt_at_the_question_removes_nothing(interruptible: None) -> None:
    session = store(*exchange())
    ended = at_terminal("delete", session, typed="", interrupt=True)
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr.endswith("\nInterrupted.\n")
    assert listed() == [session]


def test_where_nobody_can_be_asked_yes_must_be_said() -> None:
    ids = [store(*exchange()), store(*exchange())]
    ended = sessions("delete", *ids, input=b"y\ny\n")
    assert (ended.returncode, ended.stdout) == (1, "")
    said = "cannot ask for confirmation without a terminal; add --yes to delete without confirmation"
    assert ended.stderr == f"outrider sessions: {said}\n"
    assert sorted(listed()) == sorted(ids)
    ended = sessions("delete", *ids, "--yes")
    assert (ended.returncode, ended.stdout, ended.stderr.count("Deleted ")) == (0, "", 2)
    assert listed() == []


def test_what_was_said_in_a_removed_session_is_not_in_the_file_any_more(own_data_folder: Path, here: Run) -> None:
    session = store(*exchange("The password is xyzzy-plugh."))
    child = store(*exchange("Sub-agents hear of plover-1976."), parent=session)
    assert sessions("delete", session, "--yes").returncode == 0
    assert here("show", child).returncode == 2
    for path in (own_data_folder / "sessions").iterdir():
        assert b"xyzzy-plugh" not in path.read_bytes()
        assert b"plover-1976" not in path.read_bytes()


def test_if_one_of_several_is_not_there_none_is_removed() -> None:
    session = store(*exchange())
    ended = sessions("delete", session, "nonsense", "--yes")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "outrider sessions: there is no session 'nonsense'; `outrider sessions` lists them\n"
    assert listed() == [session]


def test_a_session_that_is_named_twice_is_removed_once() -> None:
    session = store(*exchange())
    ended = sessions("delete", session, session[:8], "--yes")
    assert (ended.returncode, ended.stderr.count("\n")) == (0, 1)


# Files that nobody needs


def test_files_go_when_no_session_refers_to_them_for_an_hour(own_data_folder: Path, here: Run) -> None:
    kept, _ = store_with_file(Attachment(b"kept", "text/plain", "kept.txt"))
    session, _ = store_with_file()
    copy = here("fork", session).stdout.strip()
    attachments = own_data_folder / "sessions" / "attachments"
    here("delete", session, "--yes")
    for path in attachments.glob("*/*"):
        os.utime(path, (1, 1))
    assert here("gc").stdout == "Deleted 0 files, 0 bytes.\n", "the copy has it still"
    here("delete", copy, "--yes")
    ended = sessions("gc")
    assert (ended.returncode, ended.stdout) == (0, "Deleted 1 file, 22 bytes.\n")
    assert ended.stderr == "Files of the last hour are kept for now.\n"
    assert [path.read_bytes() for path in attachments.glob("*/*")] == [b"kept"]
    here("delete", kept, "--yes")
    os.utime(next(attachments.glob("*/*")))
    assert here("gc").stdout == "Deleted 0 files, 0 bytes.\n", "one that is new may be on its way into a session"


def test_where_nothing_is_stored_there_is_nothing_to_remove(tmp_path: Path) -> None:
    ended = sessions("gc", home=tmp_path / "new")
    assert (ended.returncode, ended.stdout) == (0, "Deleted 0 files, 0 bytes.\n")
    assert not (tmp_path / "new").exists()


# Damage


def test_a_log_that_is_whole_stays_as_it_is(own_data_folder: Path) -> None:
    store(*exchange())
    store(*exchange())
    before = (own_data_folder / "sessions" / "log.db").read_bytes()
    ended = sessions("recover")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "The log is intact: 2 sessions with 8 entries.\n"
    assert (own_data_folder / "sessions" / "log.db").read_bytes() == before
    assert [path.name for path in (own_data_folder / "sessions").glob("*damaged*")] == []


def test_what_is_whole_in_a_damaged_log_is_saved_and_what_is_lost_is_said(own_data_folder: Path, here: Run) -> None:
    hurt, well = store(*exchange("The first."), *exchange("The second.")), store(*exchange("All is well."))
    path = own_data_folder / "sessions" / "log.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        query = "UPDATE event SET body = CAST(replace(CAST(body AS TEXT), 'second', 'sekond') AS BLOB) WHERE seq = 5"
        connection.execute(query)
    for command in (["show", hurt], ["export", hurt]):
        ended = sessions(*command)
        assert ended.returncode == 1
        assert ended.stderr.endswith("is missing or damaged; `outrider sessions recover` saves the intact entries\n")
    assert here("show", well).returncode == 0
    ended = sessions("recover")
    assert (ended.returncode, ended.stderr) == (0, "")
    first, second = ended.stdout.splitlines()
    assert first.startswith("Saved: 2 sessions with 9 entries. The damaged file is in ")
    assert second == f"  {hurt[:8]} lost 1 of its entries"
    aside = next((own_data_folder / "sessions").glob("damaged-*"))
    assert first.endswith(f"{aside.name}.")
    assert b"sekond" in (aside / "log.db").read_bytes()
    shown = here("show", hurt)
    assert (shown.returncode, "The second." in shown.stdout) == (0, False)
    assert "recovered  1 of the entries before this one were lost\n" in shown.stdout
    assert [message.text for message in all_of(well)] == ["All is well.", "4"]
    assert here("recover").stdout.startswith("The log is intact: 2 sessions with 10 entries")
    assert outrider("--resume", hurt, "-p", "What is 3+3?", "--model", "demo").stdout == "6\n"


def test_without_the_list_of_sessions_it_is_not_claimed_that_nothing_was_lost(own_data_folder: Path, here: Run) -> None:
    name = store(*exchange("The first."))
    path = own_data_folder / "sessions" / "log.db"
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'session'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    data = path.read_bytes()
    path.write_bytes(data[: (page - 1) * size] + bytes(size) + data[page * size :])
    ended = here("recover")
    assert (ended.returncode, ended.stderr) == (0, "")
    first, second = ended.stdout.splitlines()
    assert first.startswith("Saved: 1 session with 4 entries. The damaged file is in ")
    assert second == "  The list of sessions was damaged, so the newest entries of a session may be lost as well."
    assert "recovered  the newest entries before this one may be lost\n" in here("show", name).stdout


def test_a_file_that_is_no_database_is_refused_and_put_aside(own_data_folder: Path, here: Run) -> None:
    path = own_data_folder / "sessions" / "log.db"
    path.parent.mkdir()
    path.write_bytes(b"Dear Sir or Madam, " * 1000)
    for command in (["list"], ["show", "a"], ["fork", "a"], ["delete", "a", "--yes"]):
        ended = here(*command)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert (
            "is damaged (file is not a database); `outrider sessions recover` saves the intact entries" in ended.stderr
        )
    ended = sessions("recover")
    assert (ended.returncode, ended.stdout.startswith("Saved: 0 sessions with 0 entries.")) == (0, True)
    assert here("list").stderr.startswith("There are no sessions yet")


def test_where_no_log_is_none_can_be_recovered(tmp_path: Path) -> None:
    ended = sessions("recover", home=tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"outrider sessions: there is no log in {tmp_path / 'sessions'}\n"


def test_a_log_of_a_newer_version_is_refused_and_not_touched(own_data_folder: Path, here: Run) -> None:
    store(*exchange())
    path = own_data_folder / "sessions" / "log.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=99")
    before = path.read_bytes()
    rest = {"rename": ["a", "b"], "delete": ["a", "--yes"], "list": [], "gc": [], "recover": []}
    for command in set(COMMANDS) - {"import"}:
        ended = here(command, *rest.get(command, ["a"]))
        assert (ended.returncode, ended.stdout) == (1, ""), command
        assert f"{path} was written by a newer version of Outrider (format 99, this version reads up to" in ended.stderr
    ended = sessions("import", input=exported(BEGAN, HELLO))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "upgrade Outrider to use it" in ended.stderr
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused(own_data_folder: Path) -> None:
    (own_data_folder / "sessions").mkdir()
    with closing(sqlite3.connect(own_data_folder / "sessions" / "log.db")) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    ended = sessions()
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "is a database of another program; choose another folder for the log" in ended.stderr


def test_a_data_folder_that_can_be_none_is_an_error_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    ended = sessions("import", input=exported(BEGAN, HELLO), home=tmp_path / "file")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "Not a directory" in ended.stderr
    assert ended.stderr.count("\n") == 1


# Ids


@pytest.mark.parametrize("command", ["show", "export", "fork", "rename", "delete"])
def test_an_unknown_session_is_wrong_usage(command: str, here: Run) -> None:
    rest = {"rename": ["title"], "delete": ["--yes"]}.get(command, [])
    ended = sessions(command, "abc", *rest)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "has no log" in ended.stderr
    store(*exchange())
    for name in ("%", "0123456789abcdef" * 2):
        ended = here(command, name, *rest)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr == f"outrider sessions: there is no session {name!r}; `outrider sessions` lists them\n"


def test_the_beginning_of_an_id_must_be_that_of_one_session_only(here: Run) -> None:
    first, second = store_under("ab" + "0" * 30, "one"), store_under("ab" + "1" * 30, "two")
    for name in ("a", "ab"):
        ended = sessions("show", name)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr == f"outrider sessions: several sessions begin with {name!r}; give more of the id\n"
    assert here("delete", "ab", "--yes").returncode == 2
    assert here("show", "ab0").stdout.startswith("one\n")
    assert here("show", second).stdout.startswith("two\n")
    assert here("show", "").returncode == 2
    assert sorted(listed()) == [first, second]


# How it ends


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_of_its_own(command: str, here: Run) -> None:
    ended = here(command, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"usage: outrider sessions {command} [-h]")
    assert re.search(r"\n\n[A-Z][^\n]+", ended.stdout), "a sentence that says what it does"


def test_the_help_names_every_command_and_the_exit_codes() -> None:
    said = sessions("--help").stdout
    assert all(f"\n    {command} " in said for command in COMMANDS)
    assert "exit codes: 0 done, 1 error, 2 wrong usage" in said
    assert "OUTRIDER_HOME" in said


@pytest.mark.parametrize("arguments", [["shwo"], ["show"], ["delete"], ["rename", "a"], ["export", "a", "b"]])
def test_a_wrong_or_missing_word_is_wrong_usage(arguments: list[str], own_data_folder: Path, here: Run) -> None:
    ended = here(*arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("usage: outrider sessions")
    assert list(own_data_folder.iterdir()) == []


def test_a_reader_that_goes_away_is_no_error() -> None:
    session = store(MessageEntry(Message.user("\n".join(f"line {number}" for number in range(50_000)))))
    program = f"{sys.executable} -m outrider sessions"
    for command in (
        f"show {session} --full | head -2",
        f"export {session} | head -c 10",
        f"show {session} --full | true",
    ):
        script = f"{program} {command}; exit ${{PIPESTATUS[0]}}"
        environment = clean_environment() | {"PYTHONUNBUFFERED": ""}
        ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, timeout=60)
        assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("command", ["list", "export"])
def test_output_that_cannot_be_written_is_an_error_in_a_sentence(command: str) -> None:
    session = store(*exchange())
    arguments = ["list"] if command == "list" else ["export", session]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "outrider", "sessions", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment() | {"PYTHONUNBUFFERED": ""},
            timeout=60,
        )
    assert ended.returncode == 1
    assert "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_all_that_is_made_is_for_the_owner_alone(tmp_path: Path, here: Run) -> None:
    session, _ = store_with_file()
    text = here("export", session, "--attachments").stdout.encode()
    home = tmp_path / "new" / "home"
    before = os.umask(0)
    try:
        assert sessions("import", input=text, home=home).returncode == 0
        assert outrider("--continue", "-p", "What is 2+2?", "--model", "demo", OUTRIDER_HOME=str(home)).stdout == "4\n"
        with closing(sqlite3.connect(home / "sessions" / "log.db", isolation_level=None)) as connection:
            connection.execute("UPDATE event SET body = body || ' ' WHERE seq = 3")
        assert sessions("recover", home=home).stdout.startswith("Saved: ")
    finally:
        os.umask(before)
    made = [home, *home.rglob("*")]
    assert {path.name for path in made} >= {"log.db", "attachments"}
    assert [f"{path} {path.stat().st_mode:o}" for path in made if path.stat().st_mode & 0o077] == []


def test_json_counts_before_the_word_list_as_well() -> None:
    session = store(*exchange())
    for arguments in (["--json", "list"], ["list", "--json"], ["--json"]):
        assert [each["id"] for each in json.loads(sessions(*arguments).stdout)] == [session]


@pytest.mark.parametrize("command", [["delete", "ID"], ["import", "-"]])
def test_a_closed_standard_input_is_said_in_a_sentence(command: list[str]) -> None:
    session = store(*exchange())
    arguments = [session if each == "ID" else each for each in command]
    program = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "outrider", "sessions", *arguments]
    ended = subprocess.run(program, capture_output=True, text=True, env=clean_environment(), check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("outrider sessions: ")
    assert ended.stderr.count("\n") == 1
    assert listed() == [session]


def test_folders_of_other_agents_come_in_at_once_and_only_once(tmp_path: Path, here: Run) -> None:
    said, agent = Project("one"), Project("one")
    said.user("Why is the till slow?")
    said.reply({"type": "tool_use", "id": "t", "name": "Task", "input": {"prompt": "Measure."}})
    said.result("t", "9 s", toolUseResult={"agentId": "a1"})
    agent.user("Measure.", isSidechain=True, agentId="a1", after=None)
    claude, codex = tmp_path / "projects" / "-shop", tmp_path / "codex" / "2026" / "02"
    claude.mkdir(parents=True), codex.mkdir(parents=True)
    (claude / "agent-a1.jsonl").write_bytes(b"".join(agent.bytes()))  # before the session that started it
    (claude / "one.jsonl").write_bytes(b"".join(said.bytes()))
    odd = rollout(
        ("response_item", {"type": "odd"}), ("response_item", {"type": "message", "role": "user", "content": "Hi"})
    )
    (codex / "rollout.jsonl").write_bytes(b"".join(odd) + b'{"timest')
    (codex / "index.jsonl").write_bytes(b'{"something": "else"}\n')
    (claude / "empty.jsonl").write_bytes(b'{"type":"summary","summary":"Empty","leafUuid":"x"}\n')
    came = here("import", str(tmp_path / "projects"), str(tmp_path / "codex"))
    assert (came.returncode, len(came.stdout.split())) == (1, 3)
    lines = came.stderr.splitlines()
    assert "rollout.jsonl: skipped 1 damaged line (4)" in came.stderr
    assert "index.jsonl: it is not a session of Outrider, Claude Code or Codex" in came.stderr
    assert lines[-1] == (
        "Imported 3 sessions; 1 file had no messages; 1 file could not be read. Kept as text: 1 part of unknown form "
        "(odd 1)."
    )
    again = here("import", str(tmp_path / "projects"))
    assert (again.returncode, again.stdout) == (0, "")
    assert again.stderr == "Imported 0 sessions; 2 were here already; 1 file had no messages.\n"
    assert "nobody says anything" in here("import", str(claude / "empty.jsonl")).stderr
    one = here("import", str(claude / "one.jsonl"))
    assert one.stderr == "“Why is the till slow?” was imported before.\n"
    assert "sub-agents" in here("show", one.stdout.strip()[:8]).stdout
