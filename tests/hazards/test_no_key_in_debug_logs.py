"""Hazard: a key in what is logged for debugging, which people attach to bug reports. What was said stays as it was."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider import Agent, Session, think
from outrider.errors import ProviderError
from outrider.runtime.events import Event
from outrider.sync import default_log
from outrider.testing import ScriptedModel
from tests.cli.program import outrider
from tests.modelserver import ModelServer, Status

KEY = "correct-horse-battery-staple-4711"
VENDORS = [
    f"{beginning}{'0123456789abcdef' * 2}"
    for beginning in (
        *("sk-ant-", "sk-proj-", "sk-or-", "sk-", "gsk_", "xai-", "pplx-", "r8_", "hf_", "AIza", "ya29."),
        *("ghp_", "github_pat_", "AKIA"),
    )
]
"""Keys as known vendors make them. None is set in any environment."""
TOOLS = """
import logging
from outrider import tool

logger = logging.getLogger("{name}")

@tool(effect="read")
def read_file(path: str) -> str:
    "Read a text file."
    try:
        raise ValueError("refused: {key}")
    except ValueError:
        logger.exception("could not read with %s", "{key}")
    return "nothing with {key}"
"""

logger = logging.getLogger("outrider")


class Keeping(logging.Handler):
    """Keeps the records themselves, as a handler does that sends them elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """What a handler hears that a user has attached to the logger."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s %(args)s %(exc_info)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield stream
    logger.setLevel(before)
    logger.removeHandler(handler)


@pytest.fixture
def debug(tmp_path: Path) -> Path:
    return tmp_path / "debug.log"


def ask(prompt: str, debug: Path, *arguments: str, **environment: str) -> str:
    """What the program logs when it is asked."""
    ended = outrider("-p", prompt, "--model", "demo", *arguments, OUTRIDER_DEBUG=str(debug), **environment)
    assert ended.returncode == 0, ended.stderr
    return debug.read_text()


def failed(*causes: str) -> Exception:
    """An error after an error, each of which says too much."""
    error: Exception | None = None
    for cause in causes:
        following = ProviderError(f"refused: {cause}")
        following.__cause__ = error
        following.add_note(f"with {cause}")
        error = following
    assert error
    return error


# The file of the terminal program


def test_the_file_is_for_the_owner_alone_and_has_every_event(debug: Path) -> None:
    said = ask("What is 2+2?", debug)
    assert debug.stat().st_mode & 0o777 == 0o600
    events = [json.loads(line.partition(" DEBUG ")[2]) for line in said.splitlines()]
    assert [event["type"] for event in events] == ["message_added", "turn_started", "message_added", "run_finished"]
    assert len(ask("What is 3+3?", debug).splitlines()) == 8, "the next run comes after it"


def test_what_is_logged_stands_in_the_file_only(debug: Path) -> None:
    plain = outrider("-p", "What is 2+2?", "--model", "demo")
    ended = outrider("-p", "What is 2+2?", "--model", "demo", OUTRIDER_DEBUG=str(debug))
    assert (ended.returncode, ended.stdout) == (0, plain.stdout)
    assert len(ended.stderr.splitlines()) == len(plain.stderr.splitlines())


def test_keys_are_masked_in_the_file_and_what_was_said_is_stored_as_it_was(debug: Path) -> None:
    said = ask(f"Is {KEY} the same as {VENDORS[0]}? What is 2+2?", debug, SOME_SERVICE_API_KEY=KEY)
    assert '"text":"Is … the same as …? What is 2+2?"' in said
    assert KEY not in said
    log = default_log()
    (session,) = log.sessions()
    assert log.messages(session.id)[0].text == f"Is {KEY} the same as {VENDORS[0]}? What is 2+2?"
    assert KEY in outrider("sessions", "show", session.id, SOME_SERVICE_API_KEY=KEY).stdout, "as documented"


def test_an_error_with_its_traceback_is_masked_in_the_file(debug: Path, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS.format(name="outrider", key=KEY))
    said = ask(
        "Read notes.txt",
        debug,
        "--tools",
        f"none,{tmp_path / 'tools.py'}",
        "--permissions",
        "all",
        SOME_SERVICE_API_KEY=KEY,
    )
    assert "ERROR could not read with …\nTraceback (most recent call last):\n" in said
    assert "ValueError: refused: …\n" in said
    assert '"nothing with …"' in said, "the result of the call"
    assert KEY not in said


def test_a_logger_below_ours_is_masked_in_the_file_as_well(debug: Path, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS.format(name="outrider.mine", key=KEY))
    said = ask(
        "Read notes.txt",
        debug,
        "--tools",
        f"none,{tmp_path / 'tools.py'}",
        "--permissions",
        "all",
        SOME_SERVICE_API_KEY=KEY,
    )
    assert "could not read with" in said
    assert KEY not in said


def test_a_key_on_a_line_of_its_own_is_masked_in_the_file(debug: Path) -> None:
    assert VENDORS[0] not in ask(f"My keys:\n{VENDORS[0]}\n\t{VENDORS[3]}\nWhat is 2+2?", debug)


async def test_a_server_that_repeats_the_key_does_not_get_it_into_the_file(debug: Path) -> None:
    echo = Status(400, {"request-id": KEY}, b'{"error": {"message": "not with %b"}}' % KEY.encode())
    async with ModelServer([echo]) as server:
        environment = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url, "OUTRIDER_DEBUG": str(debug)}
        ended = await asyncio.to_thread(
            lambda: outrider("-p", "Hello", "--model", "anthropic/claude-sonnet-4-5", **environment)
        )
        assert server.requests[0].headers["x-api-key"] == KEY
    said = await asyncio.to_thread(debug.read_text)
    assert ended.returncode == 1
    assert "anthropic/claude-sonnet-4-5: request of " in said
    assert "not with …" in said
    assert KEY not in said + ended.stdout + ended.stderr


@pytest.mark.parametrize("command", [["-p", "What is 2+2?", "--model", "demo"], ["sessions"]])
def test_a_file_that_cannot_be_written_is_wrong_usage_and_nothing_is_done(
    command: list[str], tmp_path: Path, own_data_folder: Path
) -> None:
    for path, reason in ((tmp_path / "nowhere" / "log", "No such file or directory"), (tmp_path, "Is a directory")):
        ended = outrider(*command, OUTRIDER_DEBUG=str(path))
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr == f"outrider: OUTRIDER_DEBUG: {path} cannot be written: {reason}\n"
    assert list(own_data_folder.iterdir()) == []


def test_an_empty_variable_names_no_file(tmp_path: Path) -> None:
    ended = outrider("-p", "What is 2+2?", "--model", "demo", cwd=tmp_path, OUTRIDER_DEBUG="")
    assert (ended.returncode, ended.stdout, list(tmp_path.iterdir())) == (0, "4\n", [])


# Handlers of the user


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "aws_secret_access_key", "GITHUB_TOKEN", "ANTHROPIC_AUTH_TOKEN", "A_SECRET", "PG_PASSWORD"],
)
def test_what_is_secret_by_its_name_is_masked(name: str, logged: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, KEY)
    logger.debug(f"in the message {KEY}")
    logger.info("as an argument %s, as a part of one %r", KEY, {"headers": [f"Bearer {KEY}"]})
    logger.warning("by name %(key)s", {"key": KEY})
    assert logged.getvalue().count("…") == 4
    assert KEY not in logged.getvalue()


@pytest.mark.parametrize("key", VENDORS)
def test_what_looks_like_a_key_is_masked_whosever_it_is(key: str, logged: io.StringIO) -> None:
    logger.debug("wrong key: %s.", key)
    logger.debug('{"authorization": "Bearer %s"}, key=%s, (%s)', key, key, key)
    assert key not in logged.getvalue()
    assert key[-8:] not in logged.getvalue()


def test_an_exception_is_masked_with_all_that_led_to_it(logged: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SERVICE_API_KEY", KEY)
    for error in (failed(KEY), failed(VENDORS[0], KEY), ExceptionGroup(KEY, [failed(KEY), failed(VENDORS[1])])):
        try:
            raise error
        except Exception:
            logger.exception("it failed with %s", KEY)
            logger.debug("again", exc_info=True)
    said = logged.getvalue()
    assert said.count("Traceback (most recent call last)") >= 6
    assert "outrider.errors.ProviderError: refused: …" in said
    for key in (KEY, *VENDORS):
        assert key not in said


def test_no_handler_gets_hold_of_the_exception_itself(logged: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SERVICE_API_KEY", KEY)
    handler = Keeping()
    records = handler.records
    logger.addHandler(handler)
    logging.getLogger().addHandler(handler)
    try:
        raise failed(KEY)
    except ProviderError:
        logger.exception("%s", KEY)
    finally:
        logger.removeHandler(handler)
        logging.getLogger().removeHandler(handler)
    assert len(records) == 2, "that of the logger, and that of the root above it"
    for record in records:
        assert record.exc_info is None
        assert KEY not in str(vars(record))


def test_an_observer_that_fails_with_a_key_is_logged_without_it(
    logged: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_SERVICE_API_KEY", KEY)

    def observer(event: Event) -> None:
        raise ValueError(f"cannot send {event} with {KEY}")

    session = Session(Agent(model=ScriptedModel([f"It is {KEY}."])), observer=observer)
    assert asyncio.run(session.run(f"Is it {KEY}?")).text == f"It is {KEY}.", "what was said is not touched"
    assert "an observer failed on MessageAdded; the session goes on" in logged.getvalue()
    assert "ValueError: cannot send " in logged.getvalue()
    assert KEY not in logged.getvalue()


def test_without_a_handler_and_a_level_nothing_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    assert think(f"What is 2+2, {KEY}?", model="demo") == "4"
    assert capfd.readouterr() == ("", "")


# Keys that are hard to recognise


def say(prompt: str) -> None:
    asyncio.run(Session(Agent(model="demo")).run(prompt))


def test_a_key_that_was_read_from_a_file_is_masked(logged: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SERVICE_API_KEY", f"{KEY}\n")
    say(f"Is it {KEY}?")
    assert KEY not in logged.getvalue()


@pytest.mark.parametrize("password", ['correct"horse"battery', "correct\\horse\\battery", "correct\thorse"])
def test_a_password_that_json_writes_differently_is_masked(
    password: str, logged: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_PASSWORD", password)
    say(f"Is it {password}?")
    assert "horse" not in logged.getvalue()


def test_a_key_that_begins_like_another_is_masked_to_its_end(
    logged: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", KEY[:7])
    monkeypatch.setenv("B_TOKEN", KEY)
    say(f"Is it {KEY}?")
    assert "staple" not in logged.getvalue()
