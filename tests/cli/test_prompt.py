"""`outrider -p`: one answer from the command line, in a session that goes on after any end of its process."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from outrider import Agent, Limits, Session
from outrider.cli import main
from outrider.conversation.messages import ToolResultBlock
from outrider.log.entries import Intent, RunStopped
from outrider.sync import default_log
from tests.cli.asking import DEADLINE, KEY, ask, everywhere, latest, messages, running, wait_until
from tests.cli.program import clean_environment, outrider
from tests.modelserver import Held, ModelServer, Status
from tests.streams import Answer

DEMO = ("--model", "demo")
TOOLS_NOTE = "This session used tools that are not loaded (read_file, add); to use them, give --tools again.\n"
TOOLS = '''
import time
from pathlib import Path
from outrider import tool

HERE = Path(__file__).parent
print("what a tools file prints")

def begun(name: str) -> None:
    """Leave a mark, and wait until there is a file named go."""
    with (HERE / "begun").open("a") as file:
        file.write(f"{name}\\n")
    until = time.monotonic() + 60
    while not (HERE / "go").exists():
        assert time.monotonic() < until
        time.sleep(0.01)

@tool(effect="read")
def read_file(path: str) -> str:
    "Read a text file."
    begun("read_file")
    return (HERE / path).read_text()

@tool
def add(a: int, b: int) -> str:
    "Add an amount to the account."
    begun("add")
    return "booked"
'''


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A file with tools that leave a mark when they begin, and go on when there is a file named `go`."""
    (tmp_path / "notes.txt").write_text("Buy milk.")
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path / "tools.py"


def only(tools: Path) -> tuple[str, ...]:
    """The flags for these tools and no others, all of which may run."""
    return ("--tools", "none", "--tools", str(tools), "--permissions", "all")


def let_go(tools: Path) -> None:
    (tools.parent / "go").touch()


def begun(tools: Path) -> list[str]:
    """The tools that began, in order."""
    marks = tools.parent / "begun"
    return marks.read_text().split() if marks.exists() else []


def converse(prompt: str = "What is 2+2?", limits: Limits | None = None) -> str:
    """A session with the demo model, from Python; its id."""
    agent = Agent(model="demo", limits=limits or Limits())
    with default_log() as log, Session.open(log, agent=agent) as session:
        asyncio.run(session.run(prompt))
        return session.id


def texts(session: str = "") -> list[str]:
    return [message.text for message in messages(session)]


def results() -> list[ToolResultBlock]:
    return [result for message in messages() for result in message.tool_results]


# What is asked


def test_a_prompt_gets_its_answer_alone_on_standard_output() -> None:
    ended = outrider("-p", "What is 2+2?", *DEMO)
    assert (ended.returncode, ended.stdout) == (0, "4\n")
    assert ended.stderr == f"[demo · 1 turn · $0.0000 · to resume: outrider --resume {latest()[:8]}]\n"


def test_a_session_whose_tools_work_elsewhere_is_resumed_there() -> None:
    place = f"{sys.executable} -P -m outrider hands"
    ended = outrider("-p", "What is 2+2?", *DEMO, "--in", place)
    assert (ended.returncode, ended.stdout) == (0, "4\n")
    assert f"to resume: outrider --resume {latest()[:8]} --in '{place}']" in ended.stderr


@pytest.mark.parametrize(
    ("argument", "piped", "asked"),
    [
        ([], b"What is 2+2?\n", "What is 2+2?"),
        (["Add these:"], b"\n2 + 2\n\n", "Add these:\n\n2 + 2"),
        (["What is 2+2?"], b" \n", "What is 2+2?"),
        (["--", "-2 + 6"], "– ü".encode(), "-2 + 6\n\n– ü"),
    ],
)
def test_standard_input_is_asked_after_the_argument(argument: list[str], piped: bytes, asked: str) -> None:
    ended = outrider("-p", *DEMO, *argument, input=piped)
    assert (ended.returncode, ended.stdout) == (0, "4\n")
    assert texts() == [asked, "4"]


def test_a_closed_standard_input_is_no_obstacle() -> None:
    script = f'{sys.executable} -m outrider -p "What is 2+2?" --model demo <&-'
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=clean_environment(), timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "4\n")


def test_piped_bytes_that_are_no_text_are_no_reason_for_a_traceback() -> None:
    ended = outrider("-p", "What is 2+2?", *DEMO, input=b"caf\xe9", PYTHONIOENCODING="utf-8:strict")
    assert "Traceback" not in ended.stderr
    assert (ended.returncode, ended.stdout) == (0, "4\n")


def test_nothing_to_ask_is_wrong_usage(own_data_folder: Path) -> None:
    for arguments in (["-p"], ["-p", " "]):
        ended = outrider(*arguments, input=b"\n")
        assert (ended.returncode, ended.stdout) == (2, "")
        assert 'the prompt is missing; give one, as in outrider -p "What is 2+2?"' in ended.stderr
    assert list(own_data_folder.iterdir()) == []


def test_at_a_terminal_standard_input_is_not_waited_for() -> None:
    master, slave = pty.openpty()
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "outrider", "-p", "What is 2+2?", *DEMO],
            stdin=slave,
            capture_output=True,
            env=clean_environment(),
            timeout=60,
        )
    finally:
        os.close(slave)
        os.close(master)
    assert (ended.returncode, ended.stdout) == (0, b"4\n")


@pytest.mark.parametrize("model", [(), ("--model", "fast"), ("--model", "openai/fast")])
def test_without_a_key_the_variables_are_named_and_nothing_answers(model: tuple[str, ...]) -> None:
    ended = outrider("-p", "What is 2+2?", *model)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "OPENAI_API_KEY" in ended.stderr
    assert "the model `demo` needs no key" in ended.stderr


def test_a_tier_without_a_key_cannot_be_described() -> None:
    ended = outrider("models", "fast")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert "OPENAI_API_KEY" in ended.stderr


def test_the_help_has_every_option_and_the_exit_codes() -> None:
    ended = outrider("-p", "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    shown = re.sub(r"(-\w) [A-Z]+, --", r"\1, --", ended.stdout)  # Python 3.13 has one ID instead of two
    for expected in (
        *("-c, --continue", "-r, --resume ID", "-m, --model MODEL", "-q, --quiet"),
        *("--attach FILE", "--output-format {text,json,stream-json}", "--schema FILE", "--max-turns N"),
        *("--max-cost DOLLARS", "--tools TOOLS", "--permissions MODE", "--cwd DIR"),
        *("exit codes: 0 done, 1 error, 2 wrong usage, 3 limit,", "5 cut off, 6 waiting, 129 hung up, 130 interrupted"),
    ):
        assert expected in shown


# Going on


def test_the_last_session_goes_on() -> None:
    outrider("-p", "What is 2+2?", *DEMO)
    ended = outrider("--continue", "-p", "What is 3+3?")
    assert (ended.returncode, ended.stdout) == (0, "6\n")
    assert texts() == ["What is 2+2?", "4", "What is 3+3?", "6"]


def test_any_session_goes_on_by_the_beginning_of_its_id() -> None:
    first, second = converse(), converse("What is 3+3?")
    ended = outrider("--resume", first[:8], "What is 4+4?")
    assert (ended.returncode, ended.stdout) == (0, "8\n")
    assert f"to resume: outrider --resume {first[:8]}]" in ended.stderr
    assert (texts(first)[2:], texts(second)) == (["What is 4+4?", "8"], ["What is 3+3?", "6"])
    assert latest() == first, "it is the last now"


def test_where_nothing_is_unfinished_that_is_said_and_nothing_is_done() -> None:
    outrider("-p", "What is 2+2?", *DEMO)
    ended = outrider("--continue")
    assert (ended.returncode, ended.stdout) == (0, "")
    name = latest()[:8]
    assert ended.stderr == (
        f'Session {name} has no unfinished work. To continue it: outrider --resume {name} -p "PROMPT"\n'
    )
    assert len(messages()) == 2


def test_without_any_session_there_is_none_to_continue(own_data_folder: Path) -> None:
    for arguments in (["--continue"], ["--continue", "-p", "Go on."]):
        ended = outrider(*arguments)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr == "outrider: there is no session to continue yet\n"
    assert list(own_data_folder.iterdir()) == []


def test_an_unknown_session_is_wrong_usage() -> None:
    converse()
    ended = outrider("--resume", "nonsense", "-p", "Go on.")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "outrider: there is no session 'nonsense'; `outrider sessions` lists them\n"


def test_an_empty_name_of_a_session_is_wrong_usage_and_begins_no_new_one() -> None:
    converse()
    ended = outrider("--resume", "", "-p", "What is 3+3?", *DEMO)
    assert (ended.returncode, ended.stdout) == (2, "")


def test_an_unknown_model_is_wrong_usage_and_leaves_no_session() -> None:
    ended = outrider("-p", "Hello", "--model", "claud/opus")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("outrider: there is no model 'claud/opus'")
    with default_log() as log:
        assert log.sessions() == []


def test_a_log_of_a_newer_version_is_refused(own_data_folder: Path) -> None:
    converse()
    with closing(sqlite3.connect(own_data_folder / "sessions" / "log.db")) as connection:
        connection.execute("PRAGMA user_version=99")
    ended = outrider("-p", "What is 2+2?", *DEMO)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "was written by a newer version of Outrider" in ended.stderr


def test_a_reader_that_goes_away_is_no_error_and_the_answer_is_kept() -> None:
    script = f'{sys.executable} -m outrider -p "What is 2+2?" --model demo </dev/null | true; exit ${{PIPESTATUS[0]}}'
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=clean_environment(), timeout=60)
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False)
    assert texts() == ["What is 2+2?", "4"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_an_answer_that_cannot_be_written_is_an_error_in_a_sentence() -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "outrider", "-p", "What is 2+2?", *DEMO]
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, env=clean_environment(), timeout=60
        )
    assert ended.returncode == 1
    assert b"No space left on device" in ended.stderr
    assert b"Traceback" not in ended.stderr


# Tools


def test_tools_of_a_file_are_run_and_what_happens_goes_to_standard_error(tools: Path) -> None:
    let_go(tools)
    ended = outrider("-p", "Read notes.txt", *DEMO, *only(tools))
    assert (ended.returncode, begun(tools)) == (0, ["read_file"])
    assert ended.stdout == "Here is what I found (demo model, not an LLM):\n- notes.txt: Buy milk.\n"
    printed, started, finished, about = ended.stderr.splitlines()
    assert printed == "what a tools file prints"
    assert (started.split(), finished.split()) == (
        ["read_file(notes.txt)", "started"],
        ["read_file(notes.txt)", "✓", "Buy", "milk."],
    )
    assert about.startswith("[demo · 2 turns · ")
    assert "\x1b" not in ended.stderr, "no colours where there is no terminal"


def test_a_tool_that_prints_does_not_write_into_the_answer(tools: Path) -> None:
    tools.write_text(TOOLS.replace('begun("read_file")', 'print("reading")'))
    ended = outrider("-p", "Read notes.txt", *DEMO, *only(tools))
    assert ended.stdout.startswith("Here is what I found")


def test_what_a_tool_gives_back_cannot_do_anything_to_the_terminal(tools: Path) -> None:
    let_go(tools)
    (tools.parent / "notes.txt").write_text("\x1b]0;mine\x07\x1b[2J")
    ended = outrider("-p", "Read notes.txt", *DEMO, *only(tools))
    assert ended.returncode == 0
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", ended.stderr)


def test_a_session_with_tools_that_goes_on_without_them_says_so(tools: Path) -> None:
    let_go(tools)
    outrider("-p", "Read notes.txt", *DEMO, *only(tools))
    ended = outrider("--continue", "-p", "What is 2+2?")
    assert (ended.returncode, ended.stdout) == (0, "4\n")
    assert ended.stderr.startswith(
        "This session used tools that are not loaded (read_file, add); to use them, give --tools again.\n"
    )
    assert "had tools" not in outrider("--continue", "-p", "Read notes.txt", *only(tools)).stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: there is no such file"),
        ("x = 1", "has no tools; put @tool from outrider over its functions"),
        ("def", "failed: SyntaxError"),
        ("raise SystemExit(0)", "failed: SystemExit"),
    ],
)
def test_a_tools_file_without_tools_is_wrong_usage(
    content: str | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "tools.py"
    if content is not None:
        path.write_text(content)
    monkeypatch.setattr(sys, "stdin", None)
    code = main(["-p", "Read notes.txt", *DEMO, "--tools", str(path)])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith(f"outrider: {path} {said}")
    with default_log() as log:
        assert log.sessions() == []


# After any end


def kill_in_the_middle_of(prompt: str, tools: Path) -> None:
    with running("-p", prompt, *DEMO, *only(tools)) as process:
        wait_until(lambda: begun(tools), process)
        process.send_signal(signal.SIGKILL)
        assert process.wait(DEADLINE) == -signal.SIGKILL


def test_a_run_that_was_killed_in_the_middle_of_a_read_is_finished(tools: Path, own_data_folder: Path) -> None:
    before = os.umask(0)
    try:
        kill_in_the_middle_of("Read notes.txt", tools)
    finally:
        os.umask(before)
    left = list((own_data_folder / "sessions").iterdir())
    assert {path.name for path in left} >= {"log.db", "log.db-wal"}
    assert [path.name for path in left if path.stat().st_mode & 0o077] == [], "for the owner alone, after a crash too"
    assert "\n  was left open by " in outrider("sessions", "show", latest()).stdout
    let_go(tools)
    ended = outrider("--continue", *only(tools))
    assert (ended.returncode, begun(tools)) == (0, ["read_file", "read_file"])
    assert ended.stdout == "Here is what I found (demo model, not an LLM):\n- notes.txt: Buy milk.\n"
    assert [message.role for message in messages()] == ["user", "assistant", "user", "assistant"]
    with default_log() as log:
        records = list(log.records(latest()))
    assert len([record for record in records if isinstance(record.entry, Intent)]) == 1, "it was begun only once"


def test_a_write_that_was_going_on_is_not_done_again_and_the_model_is_told(tools: Path) -> None:
    kill_in_the_middle_of("Add 2 and 3", tools)
    let_go(tools)
    ended = outrider("--continue", *only(tools))
    assert (ended.returncode, begun(tools)) == (0, ["add"])
    assert (
        "this failed: The outcome of this call is unknown: the program stopped while add was running." in ended.stdout
    )
    (result,) = results()
    assert result.is_error
    assert result.text.endswith('Its arguments were: {"a":2,"b":3}')
    again = outrider("--continue", "-p", "Add 2 and 3", *only(tools))
    assert (again.returncode, begun(tools)) == (0, ["add", "add"]), "a new call is another matter"


def test_a_run_that_was_killed_goes_on_without_its_tools_as_well(tools: Path) -> None:
    kill_in_the_middle_of("Read notes.txt", tools)
    ended = outrider("--continue")
    assert (ended.returncode, begun(tools)) == (0, ["read_file"])
    assert (
        "This session used tools that are not loaded (read_file, add); to use them, give --tools again." in ended.stderr
    )
    assert "There is no tool named 'read_file'" in ended.stdout


def test_a_session_that_another_process_holds_is_refused_with_the_name_of_that_process(tools: Path) -> None:
    with running("-p", "Read notes.txt", *DEMO, *only(tools)) as process:
        wait_until(lambda: begun(tools), process)
        for arguments in (["--resume", latest()[:8]], ["--continue", "-p", "Go on."]):
            ended = outrider(*arguments)
            assert (ended.returncode, ended.stdout) == (1, "")
            assert f"outrider: the session {latest()[:8]} is open elsewhere: " in ended.stderr
            assert f"process {process.pid} on " in ended.stderr
            assert "`outrider sessions fork " in ended.stderr
        let_go(tools)
        said, _ = process.communicate(timeout=DEADLINE)
        assert (process.returncode, said.endswith("- notes.txt: Buy milk.\n")) == (0, True), "it was not disturbed"
    assert outrider("--continue", "-p", "What is 2+2?").stdout == "4\n"


def test_an_interrupt_ends_a_run_with_130_and_the_session_goes_on(tools: Path) -> None:
    with running("-p", "Read notes.txt", *DEMO, *only(tools)) as process:
        wait_until(lambda: begun(tools), process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, out) == (130, "")
    assert err.endswith("\nInterrupted.\n")
    assert "Traceback" not in err
    assert [result.text for result in results()] == ["The call was cancelled before it finished."]
    with default_log() as log:
        assert log.session(latest()).holder is None, "it was closed"
        ends = [each.entry for each in log.newest(latest(), 2) if isinstance(each.entry, RunStopped)]
        assert [each.status for each in ends] == ["cancelled"]
    ended = outrider("--continue", *only(tools))
    assert ended.returncode == 0
    assert ended.stdout.endswith("- notes.txt: this failed: The call was cancelled before it finished.\n")


# With model APIs


async def test_a_conversation_goes_from_one_provider_to_the_next_with_all_that_was_said(tools: Path) -> None:
    let_go(tools)
    answers = [Answer("I'll look.", (("call_1", "read_file", {"path": "notes.txt"}),)), Answer("Milk, it says.")]
    models = ["anthropic/claude-sonnet-4-5", "openai/gpt-5.6", "gemini/gemini-3-pro", "openai-chat/gpt-5.6"]
    said = ["What is in notes.txt?", "I'll look.", "Buy milk.", "Milk, it says."]
    async with ModelServer([*answers, *(Answer(f"The answer of {model}.") for model in models[1:])]) as server:
        ended = await ask(server, "-p", said[0], "--model", models[0], *only(tools))
        assert (ended.returncode, ended.stdout) == (0, "Milk, it says.\n"), ended.stderr
        assert f"[{models[0]} · 2 turns · $0.0" in ended.stderr
        for model in models[1:]:
            question = f"What does {model} say?"
            ended = await ask(server, "--continue", "-p", question, "--model", model, *only(tools))
            said.append(question)
            assert (ended.returncode, ended.stdout) == (0, f"The answer of {model}.\n"), ended.stderr
            request = server.requests[-1]
            assert request.api == model.partition("/")[0]
            body = request.body.decode()
            places = [body.index(text) for text in said]
            assert places == sorted(places), "the whole history, in its order"
            assert body.count("read_file") >= 2, "the call as well as the tool"
            said.append(f"The answer of {model}.")
        assert len({session.id for session in default_log().sessions()}) == 1


async def test_a_session_goes_on_with_the_model_that_answered_last() -> None:
    async with ModelServer([Answer("One."), Answer("Two."), Answer("Three.")]) as server:
        await ask(server, "-p", "Count.", "--model", "anthropic/claude-sonnet-4-5")
        await ask(server, "--continue", "-p", "Go on.", "--model", "openai/gpt-5.6")
        ended = await ask(server, "--continue", "-p", "Go on.")
    assert ended.stdout == "Three.\n"
    assert [request.api for request in server.requests] == ["anthropic", "openai", "openai"]
    assert default_log().session(latest()).model == "openai/gpt-5.6"


async def test_an_error_of_the_provider_is_1_with_the_reason_and_the_session_is_kept() -> None:
    refusal = Status(
        401, body=b'{"error": {"type": "authentication_error", "message": "invalid key %b"}}' % KEY.encode()
    )
    async with ModelServer([refusal, Answer("All is well.")]) as server:
        ended = await ask(server, "-p", "Hello?", "--model", "anthropic/claude-sonnet-4-5")
        assert (ended.returncode, ended.stdout) == (1, "")
        assert "ANTHROPIC_API_KEY" in ended.stderr.splitlines()[-1]
        assert KEY not in ended.stderr
        assert texts() == ["Hello?"]
        ended = await ask(server, "--continue")
        assert (ended.returncode, ended.stdout) == (0, "All is well.\n")
    assert texts() == ["Hello?", "All is well."]
    assert server.requests[0].body == server.requests[1].body, "it was not asked twice in one"


def test_a_provider_without_a_key_is_1_and_says_which_to_set() -> None:
    ended = outrider("-p", "Hello", "--model", "openai/gpt-5.6")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "there is no key for OpenAI; set OPENAI_API_KEY" in ended.stderr
    assert texts() == ["Hello"]


async def test_an_interrupt_in_the_middle_of_an_answer_is_130_and_the_session_goes_on() -> None:
    whole = "The first half and the other half."
    async with ModelServer([Held(Answer(whole)), Answer("And so on.")]) as server:
        environment = everywhere(server)
        with running("-p", "Tell me.", "--model", "anthropic/claude-sonnet-4-5", **environment) as process:
            await asyncio.wait_for(server.held.wait(), DEADLINE)
            process.send_signal(signal.SIGINT)
            out, err = await asyncio.to_thread(process.communicate, timeout=DEADLINE)
        assert (process.returncode, out, "Traceback" in err) == (130, "", False)
        asked, *kept = texts()
        assert asked == "Tell me."
        assert all(whole.startswith(words) for words in kept[:1]), "what had arrived by then, if anything had"
        ended = await ask(server, "--continue")
        assert (ended.returncode, ended.stdout) == (0, "And so on.\n")
    assert "Tell me." in server.requests[1].body.decode()


async def test_a_run_that_has_used_up_its_turns_is_3_and_can_be_continued(tools: Path) -> None:
    let_go(tools)
    paths = [f"{'./' * number}notes.txt" for number in range(50)]  # the same call again and again would end it sooner
    look = [Answer("", ((f"call_{number}", "read_file", {"path": path}),)) for number, path in enumerate(paths)]
    async with ModelServer([*look, Answer("Enough.")]) as server:
        model = ("--model", "anthropic/claude-sonnet-4-5")
        limits = ("--max-turns", "50")
        ended = await ask(server, "-p", "Read notes.txt again and again.", *model, *limits, *only(tools))
        assert (ended.returncode, ended.stdout) == (3, "")
        assert ended.stderr.endswith("\noutrider: stopped by the limit max_turns\n")
        ended = await ask(server, "--continue", *only(tools))
        assert (ended.returncode, ended.stdout) == (0, "Enough.\n")
    assert len(begun(tools)) == 50


def test_a_session_keeps_the_limits_that_it_was_begun_with(tools: Path) -> None:
    let_go(tools)
    session = converse(limits=Limits(max_total_tokens=1))
    ended = outrider("--resume", session, "-p", "Read notes.txt", *only(tools))
    assert "stopped by the limit max_total_tokens" in ended.stderr
    assert ended.returncode == 3
    limits = default_log().settings(session).limits
    assert limits
    assert limits["max_total_tokens"] == 1
