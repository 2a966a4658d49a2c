"""The flags of `outrider -p`, each against a model that can be looked at; and what is piped in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from outrider import Session
from outrider.cli.options import UsageError, settings_from
from outrider.cli.prompt import output_format, parse
from outrider.coding.toolbox import ALL_NAMES, WEB_SEARCH
from outrider.conversation.messages import AttachmentBlock
from outrider.sync import default_log
from tests.cli.asking import Ended, ask, in_shell, latest, messages, sessions
from tests.cli.program import clean_environment, outrider
from tests.modelserver import ModelServer
from tests.streams import Answer

DEMO = ("--model", "demo")
OWN = """
from pathlib import Path
from outrider import tool

@tool(effect="EFFECT")
def own() -> str:
    "Leave a mark."
    Path(__file__).with_name("ran").touch()
    return ""
"""


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = (2).to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    rows = zlib.compress(b"\0\0\0" * 2)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


TOOLBOX = {*ALL_NAMES} - {WEB_SEARCH}
"""What is offered where the web is not searched."""


def offered(server: ModelServer, request: int = 0) -> list[str]:
    return [tool["name"] for tool in server.requests[request].json.get("tools", [])]


def use(name: str, **arguments: Any) -> Answer:
    return Answer("", ((f"call_{name}", name, arguments),))


def refused(ended: Ended, *said: str) -> None:
    """It was wrong usage, said in one line, and nothing was begun."""
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("outrider: ")
    assert ended.stderr.count("\n") == 1
    for each in said:
        assert each in ended.stderr
    assert sessions() == 0


# Numbers


@pytest.mark.sampled(5)
@pytest.mark.parametrize("flag", ["--max-turns", "--max-cost"])
@pytest.mark.parametrize("number", ["0", "-1", "nan", "inf", "-inf", "many", "", "1e400", "1,5", "0x10"])
def test_a_limit_that_is_no_number_over_0_is_wrong_usage(flag: str, number: str) -> None:
    refused(outrider("-p", "Hello", *DEMO, f"{flag}={number}"), f"{flag} must be a", "over 0")


def test_half_a_turn_is_wrong_usage() -> None:
    refused(outrider("-p", "Hello", *DEMO, "--max-turns", "1.5"), "--max-turns must be a whole number")


async def test_the_turns_are_what_the_flag_says(tmp_path: Path) -> None:
    async with ModelServer([use("Glob", pattern="*"), use("Glob", pattern="*"), Answer("never asked")]) as server:
        ended = await ask(server, "-p", "Look.", "--max-turns", "2", cwd=tmp_path)
        assert len(server.requests) == 2
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "stopped by the limit max_turns" in ended.stderr


async def test_the_cost_is_what_the_flag_says(tmp_path: Path) -> None:
    async with ModelServer([use("Glob", pattern="*"), Answer("never asked")]) as server:
        ended = await ask(server, "-p", "Look.", "--max-cost", "0.000001", cwd=tmp_path)
        assert len(server.requests) == 1
    assert (ended.returncode, "stopped by the limit max_cost" in ended.stderr) == (3, True)


async def test_a_session_that_goes_on_keeps_its_limits_until_a_flag_says_otherwise(tmp_path: Path) -> None:
    async with ModelServer([*[use("Glob", pattern="*")] * 2, use("Glob", pattern="*"), Answer("Done.")]) as server:
        assert (await ask(server, "-p", "Look.", "--max-turns", "1", cwd=tmp_path)).returncode == 3
        assert (await ask(server, "--continue", cwd=tmp_path)).returncode == 3
        ended = await ask(server, "--continue", "--max-turns", "none", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "Done.\n")


# Tools


async def test_by_default_the_whole_toolbox_is_there(tmp_path: Path) -> None:
    async with ModelServer([Answer("Hello.")]) as server:
        await ask(server, "-p", "Hello", cwd=tmp_path)
    assert set(offered(server)) >= TOOLBOX


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["Read,Grep"], ["Read", "Grep"]),
        (["Read", "Grep"], ["Read", "Grep"]),
        ([" Read , Grep ,"], ["Read", "Grep"]),
        (["Read,Read"], ["Read"]),
        (["none"], []),
        (["own.py"], [*sorted(TOOLBOX), "own"]),
        (["none", "own.py"], ["own"]),
        (["Read,own.py"], ["Read", "own"]),
        (["Task,Read"], ["Read", "Task"]),
        (["Task", "own.py"], ["own", "Task"]),
    ],
)
async def test_tools_are_chosen_by_name_or_by_file(values: list[str], names: list[str], tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from outrider import tool\n@tool\ndef own() -> str:\n    'Mine.'\n    return ''\n"
    )
    async with ModelServer([Answer("Hello.")]) as server:
        flags = [each for value in values for each in ("--tools", value)]
        ended = await ask(server, "-p", "Hello", *flags, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert sorted(offered(server)) == sorted(names)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("Raed", 'did you mean "Read"?'),
        ("read", 'did you mean "Read"?'),
        ("Read,Grpe", 'did you mean "Grep"?'),
        ("everything", "the tools are Read, Write"),
        ("no_such.py", "there is no such file"),
        ("folder/", "there is no such file"),
        ("tools.json", "give a Python file"),
    ],
)
def test_a_word_that_is_no_tool_is_wrong_usage(value: str, said: str, tmp_path: Path) -> None:
    refused(outrider("-p", "Hello", *DEMO, "--tools", value, cwd=tmp_path), said)


def test_task_alone_is_wrong_usage_and_the_line_says_what_to_do() -> None:
    """Sub-agents have no tools but those that are listed, so that there would be nobody to send out."""
    refused(outrider("-p", "Hello", *DEMO, "--tools", "Task"), "no sub-agent would have any", "--tools Task,Read")
    refused(outrider("-p", "Hello", *DEMO, OUTRIDER_TOOLS="Task"), "no sub-agent would have any", "--tools Task,Read")


def test_a_tool_of_ones_own_may_not_have_the_name_of_the_report(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(OWN.replace("EFFECT", "read").replace("def own", "def report_back"))
    refused(outrider("-p", "Hello", *DEMO, "--tools", str(path)), "own.py", "'report_back' is a reserved name")


def test_a_tool_of_ones_own_may_not_have_the_name_of_a_built_in_one(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from outrider import tool\n@tool\ndef Read() -> str:\n    'Mine.'\n    return ''\n"
    )
    ended = outrider("-p", "Hello", *DEMO, "--tools", "own.py", cwd=tmp_path)
    assert (ended.returncode, "two tools have the name 'Read'" in ended.stderr) == (2, True)


# Permissions


WRITE = {"file_path": "new.txt", "content": "Hello."}
BASH = {"command": 'python3 -c \'open("made.txt", "w")\''}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("mode", "written", "made"),
    [
        (None, False, False),
        ("ask", False, False),
        ("plan", False, False),
        ("edits", True, False),
        ("all", True, True),
    ],
)
async def test_the_mode_says_what_may_run_and_nobody_is_asked(
    mode: str | None, written: bool, made: bool, tmp_path: Path
) -> None:
    calls = Answer("", (("c1", "Write", WRITE), ("c2", "Bash", BASH), ("c3", "Glob", {"pattern": "*"})))
    async with ModelServer([calls, Answer("Done.")]) as server:
        flags = [] if mode is None else ["--permissions", mode]
        ended = await ask(server, "-p", "Make it.", *flags, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "Done.\n")
    assert ((tmp_path / "new.txt").exists(), (tmp_path / "made.txt").exists()) == (written, made)
    write, bash, glob = [result for message in messages() for result in message.tool_results]
    assert (write.is_error, bash.is_error, glob.is_error) == (not written, not made, False)
    if mode in (None, "ask"):
        assert "--permissions" in write.text, "the refusal names the flag"


@pytest.mark.parametrize(("flags", "runs"), [((), False), (("--permissions", "edits"), True)])
async def test_a_session_in_plan_mode_stays_in_it_unless_a_flag_says_otherwise(
    flags: tuple[str, ...], runs: bool, tmp_path: Path
) -> None:
    async with ModelServer([Answer("A plan."), use("Write", **WRITE), Answer("Done.")]) as server:
        await ask(server, "-p", "Plan it.", cwd=tmp_path)
        with default_log() as log, Session.open(log, latest()) as session:
            session.store_mode("plan")
        settings = {"OUTRIDER_PERMISSIONS": "edits"}
        ended = await ask(server, "-p", "Do it.", "--continue", *flags, cwd=tmp_path, **settings)
    assert ended.stdout == "Done.\n"
    assert (tmp_path / "new.txt").exists() is runs


async def test_in_plan_mode_the_plan_is_printed_and_nothing_is_approved(tmp_path: Path) -> None:
    plan = "# Greet\n\n1. Write hello.txt."
    async with ModelServer([use("ExitPlan", plan=plan), Answer("Never said.")]) as server:
        ended = await ask(server, "-p", "Plan it.", "--permissions", "plan", cwd=tmp_path)
        assert (ended.returncode, ended.stdout, len(server.requests)) == (0, f"{plan}\n", 1)
    assert [result.is_error for message in messages() for result in message.tool_results] == [True]


@pytest.mark.parametrize("mode", ["al", "", "Ask", "none"])
def test_a_mode_that_there_is_not_is_wrong_usage(mode: str) -> None:
    refused(outrider("-p", "Hello", *DEMO, "--permissions", mode), "--permissions must be one of", '"plan"')


@pytest.mark.parametrize(
    ("effect", "mode", "runs"), [("read", "ask", True), ("write", "ask", False), ("write", "all", True)]
)
async def test_the_mode_holds_for_tools_of_a_file_as_well(effect: str, mode: str, runs: bool, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN.replace("EFFECT", effect))
    async with ModelServer([use("own"), Answer("Done.")]) as server:
        ended = await ask(server, "-p", "Go.", "--tools", "own.py", "--permissions", mode, cwd=tmp_path)
    assert (ended.returncode, (tmp_path / "ran").exists()) == (0, runs)


async def test_a_project_that_would_widen_permissions_waits_and_one_line_says_so(tmp_path: Path) -> None:
    (tmp_path / ".outrider").mkdir()
    (tmp_path / ".outrider" / "config.toml").write_text('[permissions]\nmode = "all"\n')
    async with ModelServer([use("Bash", **BASH), Answer("Done.")]) as server:
        ended = await ask(server, "-p", "Make it.", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "Done.\n")
    assert not (tmp_path / "made.txt").exists()
    (line,) = [line for line in ended.stderr.splitlines() if "outrider trust" in line]
    assert "permissions.mode" in line


def test_at_a_terminal_nobody_is_asked_either(tmp_path: Path) -> None:
    import pty

    (tmp_path / "own.py").write_text(
        "from outrider import tool\n@tool\ndef add(a: int, b: int) -> str:\n    'Add.'\n    return 'booked'\n"
    )
    master, slave = pty.openpty()
    ended = subprocess.run(
        [sys.executable, "-m", "outrider", "-p", "Add 2 and 3", *DEMO, "--tools", "none", "--tools", "own.py"],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=slave,
        cwd=tmp_path,
        env=clean_environment(),
        timeout=60,
    )
    os.close(slave)
    os.close(master)
    assert ended.returncode == 0
    assert b"add: this failed: add was not run" in ended.stdout


# Where it works


async def test_it_works_in_the_folder_that_is_given(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "notes.txt").write_text("Buy milk.")
    (tmp_path / "chart.png").write_bytes(png())
    async with ModelServer([use("Read", file_path="notes.txt"), Answer("Milk.")]) as server:
        flags = ("--cwd", "project", "--attach", "chart.png")
        ended = await ask(server, "-p", "What is in it?", *flags, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "Milk.\n"), ended.stderr
    (result,) = [result for message in messages() for result in message.tool_results]
    assert "Buy milk." in result.text


async def test_a_session_that_goes_on_stays_in_its_folder(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "where.txt").write_text(f"This is {name}.")
    look = use("Read", file_path="where.txt")
    async with ModelServer([Answer("Hello."), look, Answer("I see."), look, Answer("I see.")]) as server:
        await ask(server, "-p", "Hello", cwd=tmp_path / "here")
        ended = await ask(server, "--continue", "-p", "Where?", cwd=tmp_path / "there")
        assert (ended.returncode, "no session of this folder" in ended.stderr) == (2, True)
        await ask(server, "--resume", latest(), "-p", "Where?", cwd=tmp_path / "there")
        await ask(server, "--resume", latest(), "-p", "Where?", "--cwd", str(tmp_path / "there"), cwd=tmp_path)
    first, second = [result.text for message in messages() for result in message.tool_results]
    assert ("This is here." in first, "This is there." in second) == (True, True)


async def test_a_session_whose_folder_is_gone_goes_on_here_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    async with ModelServer([Answer("Hello."), Answer("Still here.")]) as server:
        await ask(server, "-p", "Hello", cwd=tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        ended = await ask(server, "--resume", latest(), "-p", "Still there?", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "Still here.\n")
    assert "gone, does not exist; using the current folder." in ended.stderr


def test_a_folder_that_there_is_not_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in ("nowhere", str(tmp_path / "file"), ""):
        refused(outrider("-p", "Hello", *DEMO, "--cwd", folder), "--cwd: no such folder")


# Sessions


def test_the_last_session_and_another_one_cannot_both_go_on() -> None:
    refused(outrider("--continue", "--resume", "3f2a", "-p", "Hello"), "not both")


# Files


async def test_files_go_along_in_their_order_before_the_words(tmp_path: Path) -> None:
    (tmp_path / "chart.png").write_bytes(png())
    (tmp_path / "notes.txt").write_text("Buy milk.")
    async with ModelServer([Answer("A chart and a note.")]) as server:
        flags = ("--attach", "chart.png", "--attach", "notes.txt")
        ended = await ask(server, "-p", "What is this?", *flags, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    chart, notes, _ = messages()[0].content
    assert isinstance(chart, AttachmentBlock)
    assert isinstance(notes, AttachmentBlock)
    assert (chart.name, chart.mime_type, notes.name, messages()[0].text) == (
        "chart.png",
        "image/png",
        "notes.txt",
        "What is this?",
    )
    body = server.requests[0].body.decode()
    assert "image/png" in body
    assert "Buy milk." in body


async def test_a_file_alone_is_something_to_ask(tmp_path: Path) -> None:
    (tmp_path / "task.txt").write_text("What is 2+2?")
    async with ModelServer([Answer("4")]) as server:
        ended = await ask(server, "-p", "--attach", "task.txt", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "4\n"), ended.stderr


def test_a_file_that_cannot_be_sent_is_wrong_usage(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(b"")
    os.truncate(tmp_path / "large", 30 * 1024 * 1024)
    for name, said in (
        ("missing.png", "No such file or directory"),
        ("fifo", "is not a regular file"),
        (".", "is not a regular file"),
        ("large", "the limit is"),
    ):
        refused(outrider("-p", "What is this?", *DEMO, "--attach", name, cwd=tmp_path), f"--attach {name}: ", said)


# What is piped in


async def test_a_picture_that_is_piped_in_is_a_picture() -> None:
    async with ModelServer([Answer("A chart.")]) as server:
        ended = await ask(server, "-p", "What is this?", input=png())
    assert (ended.returncode, ended.stdout) == (0, "A chart.\n")
    picture, _ = messages()[0].content
    assert isinstance(picture, AttachmentBlock)
    assert (picture.mime_type, messages()[0].text) == ("image/png", "What is this?")


def test_bytes_that_are_no_text_go_along_as_a_file() -> None:
    ended = outrider("-p", "What is 2+2?", *DEMO, input=b"\0\1\2" * 1_000)
    assert (ended.returncode, ended.stdout) == (0, "4\n")
    (file,) = [block for block in messages()[0].content if isinstance(block, AttachmentBlock)]
    assert (file.mime_type, file.size) == ("application/octet-stream", 3_000)


def test_a_long_text_is_asked_whole() -> None:
    text = "word " * 500_000
    ended = outrider("-p", "What is 2+2?", *DEMO, input=text.encode())
    assert (ended.returncode, messages()[0].text) == (0, f"What is 2+2?\n\n{text.strip()}")


def test_more_than_a_model_can_read_is_refused_before_it_fills_the_memory() -> None:
    ended = in_shell("ulimit -v 1500000; yes | outrider -p Count. --model demo")
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"standard input has more than 10.0 MiB" in ended.stderr
    assert sessions() == 0


def test_the_mark_of_a_byte_order_is_not_asked() -> None:
    outrider("-p", *DEMO, input=b"\xef\xbb\xbfWhat is 2+2?")
    assert messages()[0].text == "What is 2+2?"


def test_a_prompt_in_another_encoding_is_no_reason_for_a_traceback() -> None:
    ended = in_shell(
        "outrider -p $'What is 2+2? caf\\xe9' --model demo --output-format json", LC_ALL="C", PYTHONUTF8="0"
    )
    assert (ended.returncode, json.loads(ended.stdout)["text"]) == (0, "4")


# Quiet


def test_quiet_says_only_what_went_wrong(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Buy milk.")
    ended = outrider("-q", "-p", "Read notes.txt", *DEMO, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "milk" in ended.stdout
    wrong = outrider("-q", "-p", "Hello", "--model", "openai/gpt-5.6")
    assert wrong.stderr.count("\n") == 1
    assert "OPENAI_API_KEY" in wrong.stderr
    assert latest()


# The parser by itself


def test_flags_become_settings_under_their_keys() -> None:
    options = parse(["-p", "x", "--max-turns", "3", "--max-cost", "0.5", "-m", "demo", "--tools", "Read,none"])
    assert settings_from(options) == {"limits.max_turns": 3, "limits.max_cost": 0.5, "model": "demo", "tools": ["Read"]}
    assert settings_from(parse(["-p", "x"])) == {}
    assert settings_from(parse(["-p", "x", "--tools", "none"])) == {"tools": []}
    assert settings_from(parse(["-p", "x", "--tools", "a.py"])) == {"tool_files": [str(Path("a.py").absolute())]}


def test_the_format_is_known_also_where_the_rest_is_wrong() -> None:
    assert output_format(["--output-format", "json", "--nonsense"]) == "json"
    assert output_format(["--output-format=stream-json"]) == "stream-json"
    assert output_format(["--output-format", "json", "--output-format=text"]) == "text"
    assert output_format(["--output-format", "xml"]) == "text"
    assert output_format(["-p", "--", "--output-format", "json"]) == "text"
    assert output_format(["--output-format"]) == "text"


def test_an_option_that_is_like_no_other_points_to_the_help() -> None:
    with pytest.raises(UsageError, match="unrecognized arguments: --versions; see outrider --help"):
        parse(["-p", "x", "--versions"])


def test_options_are_not_guessed_from_their_beginning() -> None:
    with pytest.raises(UsageError, match="did you mean --max-turns"):
        parse(["-p", "x", "--max-turn", "3"])


async def test_a_run_has_no_limit_of_turns_unless_one_is_given(tmp_path: Path) -> None:
    """The library's default would end it after 50 replies."""
    reads = [Answer(calls=((f"c{at}", "Glob", {"pattern": f"*.{at}"}),)) for at in range(55)]
    for options, code, count in (((), 0, 56), (("--max-turns", "3"), 3, 3)):
        async with ModelServer([*reads, Answer("Done.")]) as server:
            ended = await ask(server, "-p", "Look", *options, cwd=tmp_path)
        assert (ended.returncode, len(server.requests)) == (code, count), ended.stderr
    assert "stopped by the limit max_turns" in ended.stderr
