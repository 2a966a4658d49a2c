"""The commands of the chat."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from outrider.sync import default_log
from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with, until
from tests.modelserver import ModelServer
from tests.streams import Answer

pytestmark = pytest.mark.long  # `test_chat.py` is the short form

NAMES = (
    *("help", "model", "effort", "permissions", "tools", "resume", "continue"),
    *("fork", "rewind", "wire", "context", "compact", "cost", "thinking", "clear", "exit"),
)


async def test_help_names_every_command_and_the_keys(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "/help")
        for name in NAMES:
            assert f"/{name} " in terminal.transcript
        for key in ("@path", "\\ Enter", "Tab", "Esc, Ctrl-C"):
            assert key in terminal.transcript


async def test_every_command_can_be_given_before_anything_was_said(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, *(f"/{name}" for name in NAMES if name not in ("exit", "diff", "model")))
        assert "✗" not in terminal.transcript
        assert "Traceback" not in terminal.transcript
        terminal.say("/exit")
        assert await terminal.exit_code() == 0
        assert "--resume" not in terminal.screen, "there is nothing to go on with"


async def test_a_command_that_does_not_exist_has_a_suggestion(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "/hlep", "/xyzzy")
        assert "Unknown command /hlep; did you mean /help?" in terminal.flowing
        assert "Unknown command /xyzzy; /help lists the commands." in terminal.flowing


async def test_a_path_at_the_beginning_is_not_a_command(project: Path) -> None:
    async with (
        ModelServer([Answer("A folder."), Answer("A comment.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "/tmp is what?", "/usr/share/nothing is what?")
        assert "A folder." in terminal.screen
        assert "A comment." in terminal.screen


async def test_a_long_word_that_begins_with_a_slash_does_no_harm(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        before = terminal.prompts
        terminal.paste("/" + "x" * 5000)
        terminal.press("enter")
        await until(lambda: terminal.prompts > before or terminal.process.poll() is not None)
        assert terminal.process.poll() is None


async def test_the_model_can_be_seen_and_changed(project: Path) -> None:
    async with (
        ModelServer([Answer("From the server.")]) as server,
        Terminal("--model", "demo", cwd=project, **{**answered_by(server), "OUTRIDER_MODEL": ""}) as terminal,
    ):
        await at_the_prompt_with(terminal, "What is 2+2?")
        terminal.say("/model")
        await terminal.wait_for("❯ ● demo")
        terminal.type("demo")
        await terminal.wait_for("1 of 4")
        terminal.press("enter")
        await terminal.wait_until_gone("❯")
        await at_the_prompt_with(terminal, "/model anthropic/claude-sonnet-4-5", "And now?")
        assert "Model: anthropic/claude-sonnet-4-5." in terminal.screen
        assert "From the server." in terminal.screen
        await terminal.wait_for(re.compile(r"^claude-sonnet-4-5 · ", re.M))
        assert b"What is 2+2?" in server.requests[0].body, "it is the same conversation"


async def test_the_permissions_can_be_seen_and_changed(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "/permissions")
        assert "You are asked before anything is changed." in terminal.screen
        await at_the_prompt_with(terminal, "/permissions plan")
        assert "Permissions: plan." in terminal.screen
        await terminal.wait_for("permissions: plan")
        await at_the_prompt_with(terminal, "/permissions everything")
        assert "Unknown permission mode 'everything'; choose one of ask, edits, all, plan." in terminal.flowing


async def test_the_tools_are_listed(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "/tools")
        for name in ("Read", "Write", "Edit", "Glob", "Grep", "Bash", "WebFetch", "Todo"):
            assert re.search(rf"^  {name} +\S", terminal.transcript, re.M)


async def test_only_the_tools_that_were_chosen_are_there(project: Path) -> None:
    async with Terminal("--model", "demo", "--tools", "Read,Grep", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "/tools")
        assert re.search(r"^  Read ", terminal.screen, re.M)
        assert not re.search(r"^  Bash ", terminal.screen, re.M)


def session_with(words: str) -> str:
    """The beginning of the id of the session that begins with these words."""
    with default_log() as log:
        return next(each.id[:8] for each in log.sessions() if words in log.messages(each.id)[0].text)


async def test_the_list_of_sessions_says_what_they_are_about(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "What is 2+2?", "/clear", "What is 3+4?", "/clear", "/sessions")
        assert "What is 2+2?" in terminal.screen
        assert "What is 3+4?" in terminal.screen


async def test_sessions_are_listed_and_one_can_go_on(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "What is 2+2?", "/clear", "What is 3+4?")
        name = session_with("2+2")
        terminal.say("/sessions")
        await terminal.wait_for("2 of 2")
        terminal.type("2+2")
        await terminal.wait_for(re.compile(rf"❯ What is 2\+2\? .*{name}\n.*1 of 2"))
        terminal.press("enter")
        await terminal.wait_for(f"Session {name}, last messages:")
        await terminal.wait_for_prompt()
        assert re.search(r"^4$", terminal.screen, re.M)
        await at_the_prompt_with(terminal, "/sessions ffffffff")
        assert "✗" in terminal.screen
        terminal.press("c-d")
        await terminal.exit_code()
        assert f"--resume {name}" in terminal.screen


async def test_a_session_that_goes_on_shows_what_was_called(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "Read notes.txt and missing.txt", "/clear")
    name = session_with("notes.txt")
    async with Terminal("--model", "demo", "--resume", name, cwd=project) as terminal:
        await terminal.wait_for_prompt()
        assert re.search(r"^✓ Read\(notes.txt\) · ", terminal.screen, re.M)
        assert re.search(r"^✗ Read\(missing.txt\)", terminal.screen, re.M)


async def test_a_fork_leaves_the_session_as_it_is(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "/fork")
        assert "There is nothing to copy yet." in terminal.screen
        await at_the_prompt_with(terminal, "What is 2+2?", "/fork", "What is 3+4?")
        (left,) = re.findall(r"session (\w+) stays unchanged", terminal.flowing)
        terminal.say("/sessions")
        await terminal.wait_for("2 of 2")
        terminal.press("escape")
        await terminal.wait_until_gone("2 of 2")
        await terminal.wait_for_prompt()
        terminal.press("c-d")
        await terminal.exit_code()
        assert f"--resume {left}" not in terminal.screen


async def test_the_request_can_be_seen_for_this_model_and_for_another(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project, lines=60) as terminal:
        await at_the_prompt_with(terminal, "What is 2+2?", "/wire anthropic/claude-sonnet-4-5")
        assert '"model": "claude-sonnet-4-5"' in terminal.transcript
        await at_the_prompt_with(terminal, "/wire openai/gpt-5.6")
        assert '"input"' in terminal.transcript
        await at_the_prompt_with(terminal, "/wire nonsense/x")
        assert "✗" in terminal.screen


async def test_what_was_said_is_in_the_request_that_is_shown(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project, lines=60) as terminal:
        await at_the_prompt_with(terminal, "What is 2+2?", "/wire anthropic/claude-sonnet-4-5")
        assert '"What is 2+2?"' in terminal.transcript.partition("/wire")[2]


async def test_the_cost_is_told(project: Path) -> None:
    async with (
        ModelServer([Answer("Hello.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Hello?", "/cost")
        assert re.search(r"^  cost    \$0\.\d{4}$", terminal.screen, re.M)
        assert re.search(r"^  input   \d+ tokens, 5 of them cached$", terminal.screen, re.M)


async def test_clear_begins_a_new_session(project: Path) -> None:
    async with (
        ModelServer([Answer("Hello."), Answer("Who are you?")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "I am Kim.", "/clear")
        assert "I am Kim." not in terminal.screen
        assert "Your next message starts a new session." in terminal.screen
        await at_the_prompt_with(terminal, "Who am I?")
        assert "Who are you?" in terminal.screen
        assert b"Kim" not in server.requests[1].body


async def test_the_context_that_is_shown_is_that_of_this_session(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "What is 2+2?", *(["read notes.txt"] * 3))
        await terminal.wait_for(re.compile(r"context \d+ tokens"))
        (before,) = re.findall(r"context (\d+) tokens", terminal.screen)
        await at_the_prompt_with(terminal, "/clear", "What is 3+4?")
        await terminal.wait_for(re.compile(r"context \d+ tokens"))
        assert f"context {before} tokens" not in terminal.screen
        await at_the_prompt_with(terminal, f"/sessions {session_with('2+2')}")
        await terminal.wait_for(re.compile(rf"context {before} tokens|(no sandbox|sandboxed) · \$", re.M))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("word", ["/exit", "/quit", "/q", "  /exit  "])
async def test_leaving(word: str, project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.say(word)
        assert await terminal.exit_code() == 0
