"""The chat as a person sees it: the real program in a terminal, with a model that says what the test wants."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with, terminal_environment, until
from tests.cli.program import outrider, run
from tests.modelserver import Broken, Held, ModelServer, Paced, Status
from tests.streams import Answer


def call(name: str, **input: object) -> tuple[tuple[str, str, dict[str, object]], ...]:
    return ((f"call_{name}", name, input),)


# The beginning


async def test_without_a_key_the_chat_says_what_to_do_and_the_demo_model_answers_when_asked_for(project: Path) -> None:
    async with Terminal(cwd=project) as terminal:
        await terminal.wait_for_prompt()
        assert "Outrider" in terminal.screen
        assert "Type /help for commands and keys." in terminal.flowing
        assert "No API key is set. To enter one: outrider login." in terminal.flowing
        await terminal.wait_for("permissions: ask")
        await terminal.wait_for(re.compile(r"^no key · ", re.M))
        await at_the_prompt_with(terminal, "What is 2+2?")
        await terminal.wait_for("ANTHROPIC_API_KEY")
        await at_the_prompt_with(terminal, "/model demo")
        await at_the_prompt_with(terminal, "What is 2+2?")
        await terminal.wait_for(re.compile(r"^demo · ", re.M))
        assert re.search(r"^4$", terminal.screen, re.M)
        assert "no sandbox" in terminal.screen or "sandboxed" in terminal.screen
        terminal.press("c-d")
        assert await terminal.exit_code() == 0
        assert re.search(r"^To resume this session: outrider --resume [0-9a-z]{8}$", terminal.screen, re.M)


async def test_the_status_line_names_the_model_from_the_beginning(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for("permissions: ask")
        await terminal.wait_for(re.compile(r"^demo · ", re.M))


async def test_the_status_line_says_in_80_columns_that_there_is_no_sandbox(project: Path) -> None:
    async with (
        ModelServer([Answer("Hello.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Hello?")
        await terminal.wait_for("permissions: ask")
        await terminal.wait_for(re.compile(r"no sandbox|sandboxed"))


async def test_a_prompt_on_the_command_line_is_answered_first(project: Path) -> None:
    async with Terminal("What is 2+2?", "--model", "demo", cwd=project) as terminal:
        await terminal.wait_for(re.compile(r"^4$", re.M))
        await at_the_prompt_with(terminal, "What is 3+4?")
        assert re.search(r"^7$", terminal.screen, re.M)


async def test_a_prompt_on_the_command_line_is_shown(project: Path) -> None:
    async with Terminal("What is 2+2?", "--model", "demo", cwd=project) as terminal:
        await terminal.wait_for(re.compile(r"^4$", re.M))
        assert "› What is 2+2?" in terminal.screen


async def test_the_status_line_has_the_context_and_the_cost(project: Path) -> None:
    async with (
        ModelServer([Answer("Hello.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Hello?")
        model = "^claude-sonnet-4-5 · permissions: ask · (no sandbox|sandboxed)"
        await terminal.wait_for(re.compile(rf"{model} · context \d+%/\d+k · \$0\.0\d+", re.M))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "nonsense-5"], "nonsense-5"),
        (["--permissions", "everything"], "--permissions"),
        (["--resume", "ffffffff"], "ffffffff"),
        (["--continue"], "there is no session to continue yet"),
        (["--cwd", "/nowhere"], "/nowhere"),
        (["--attach", "nothing.png"], "nothing.png"),
        (["--tools", "Raed"], "Read"),
        (["--max-turns", "0"], "--max-turns"),
    ],
)
async def test_wrong_usage_is_said_in_a_sentence(arguments: list[str], said: str, project: Path) -> None:
    async with Terminal(*arguments, cwd=project) as terminal:
        await until(lambda: terminal.at_the_prompt() or terminal.process.poll() is not None)
        assert await terminal.exit_code(5) == 2
        assert said in terminal.flowing
        assert "Traceback" not in terminal.transcript


@pytest.mark.parametrize(("text", "said"), [("model = 7\n", "model"), ("modle = 'demo'\n", "model"), ("= broken", "1")])
async def test_a_broken_configuration_is_said_in_a_sentence(text: str, said: str, project: Path) -> None:
    config = project.parent / "home" / ".config" / "outrider" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(text)
    async with Terminal(cwd=project) as terminal:
        assert await terminal.exit_code() == 2
        assert "config.toml" in terminal.flowing
        assert said in terminal.flowing
        assert "Traceback" not in terminal.transcript


def run_without_a_terminal(project: Path, *arguments: str, **streams: int) -> subprocess.CompletedProcess[str]:
    return run(
        *arguments,
        cwd=project,
        env=terminal_environment(project),
        text=True,
        timeout=60,
        **(
            {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams  # type: ignore[arg-type]
        ),
    )


def test_without_a_terminal_the_usage_is_shown(project: Path) -> None:
    ended = run_without_a_terminal(project)
    assert ended.returncode == 0
    assert ended.stdout.startswith("Outrider")
    assert 'outrider -p "PROMPT"' in ended.stdout


async def test_an_unknown_model_in_the_middle_changes_nothing(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "/model nonsense/x")
        assert "nonsense" in terminal.screen
        await at_the_prompt_with(terminal, "What is 2+2?")
        assert re.search(r"^4$", terminal.screen, re.M)


async def test_a_tools_file_that_is_broken_is_said_and_the_chat_goes_on(project: Path) -> None:
    (project / "mine.py").write_text("raise RuntimeError('no luck')")
    async with Terminal("--model", "demo", "--tools", "mine.py", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "What is 2+2?")
        assert "no luck" in terminal.flowing
        assert "Traceback" not in terminal.transcript


@pytest.mark.parametrize("leaving", ["c-d", "/exit\r"])
async def test_a_tools_file_that_is_broken_does_not_spoil_the_farewell(leaving: str, project: Path) -> None:
    (project / "mine.py").write_text("raise RuntimeError('no luck')")
    async with Terminal("--model", "demo", "--tools", "mine.py", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.press(leaving)
        await terminal.exit_code()
        assert "Traceback" not in terminal.transcript
        assert "never retrieved" not in terminal.transcript


# What the model says

MARKDOWN = """\
# The plan

Some **bold** words and `code`.

- one
- two

```python
print("hello")
```

The end."""


async def test_an_answer_streams_as_markdown(project: Path) -> None:
    async with (
        ModelServer([Paced(Answer(MARKDOWN), "events")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "What is the plan?")
        assert "# The plan" not in terminal.screen
        assert "**" not in terminal.screen
        assert "```" not in terminal.screen
        for words in ("The plan", "bold words and code.", "• one", "• two", 'print("hello")', "The end."):
            assert terminal.shows(words)
        assert all(cell.bold for cell in terminal.cells("bold"))
        assert {cell.fg for cell in terminal.cells("code.")[:4]} == {"cyan"}
        assert terminal.transcript.count("The plan") == 1


async def test_what_has_arrived_is_seen_before_the_end(project: Path) -> None:
    async with (
        ModelServer([Held(Answer("The first half is here. The second half is there."))]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Tell me.")
        await terminal.wait_for("The first half is")
        assert "second half" not in terminal.screen
        assert server.held.is_set()
        server.release.set()
        await terminal.wait_for("The first half is here. The second half is there.")
        await terminal.wait_for_prompt()
        assert terminal.transcript.count("The first half") == 1


async def test_a_long_answer_scrolls_by_once(project: Path) -> None:
    text = "\n\n".join(f"Paragraph {number}." for number in range(100))
    async with (
        ModelServer([Paced(Answer(text), "bytes")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Tell me.")
        found = re.findall(r"^Paragraph (\d+)\.$", terminal.transcript, re.M)
        assert found == [str(number) for number in range(100)]


async def test_a_code_block_longer_than_the_screen_stands_there_once(project: Path) -> None:
    text = "```\n" + "\n".join(f"line {number}" for number in range(60)) + "\n```\n\nDone."
    async with (
        ModelServer([Held(Answer(text))]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Tell me.")
        await terminal.wait_for("line 25")
        server.release.set()
        await terminal.wait_for("Done.")
        await terminal.wait_for_prompt()
        found = re.findall(r"^ *line (\d+)$", terminal.transcript, re.M)
        assert found == [str(number) for number in range(60)]


async def test_thoughts_are_folded_into_one_line_and_can_be_shown(project: Path) -> None:
    thoughts = "First I look around.\n\nThen I **think** about it."
    async with (
        ModelServer([Answer("Done.", thinking=thoughts)]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Think.")
        assert re.search(r"^∴ Thought for \d+ s, 9 words \(/thinking shows it\)$", terminal.screen, re.M)
        assert "look around" not in terminal.screen
        await at_the_prompt_with(terminal, "/thinking")
        assert "First I look around." in terminal.screen
        assert "Then I think about it." in terminal.screen


async def test_thoughts_can_be_shown_always(project: Path) -> None:
    config = project.parent / "home" / ".config" / "outrider" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[chat]\nshow_thinking = true\n")
    async with (
        ModelServer([Answer("Done.", thinking="First I look around.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Think.")
        assert "First I look around." in terminal.screen


async def test_an_error_of_the_provider_is_said_and_the_conversation_goes_on(project: Path) -> None:
    refusal = Status(400, body=b'{"error": {"type": "invalid_request_error", "message": "too many bananas"}}')
    async with (
        ModelServer([refusal, Answer("Now it works.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Hello?")
        assert "too many bananas" in terminal.flowing
        await at_the_prompt_with(terminal, "Again?")
        assert "Now it works." in terminal.screen


async def test_a_retry_counts_down_in_one_line_and_leaves_only_the_mark_of_what_is_discarded(project: Path) -> None:
    long = "First paragraph.\n\nSecond paragraph, which"
    late = Status(529, {"retry-after": "120"}, b'{"error": {"type": "overloaded_error", "message": "Overloaded"}}')
    async with (
        ModelServer([Broken(Answer(long + long), "first delta", "end"), late, Answer("Never.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Hello?")
        await terminal.wait_for(
            re.compile(r"retrying in 1[12]\d s \(Esc to interrupt\): Anthropic is not available: 529")
        )
        await terminal.wait_for(re.compile(r"retrying in 11[0-8] s"))
        assert terminal.screen.count("retrying in") == 1
        assert terminal.flowing.count("The reply above broke off and is discarded.") == 1
        assert "Second paragraph" not in terminal.screen, "what was not permanent is gone"
        terminal.press("escape")
        await terminal.wait_for("Interrupted.")
        await terminal.wait_for_prompt()
        assert "retrying" not in terminal.screen


async def test_the_error_of_a_broken_reply_is_said_once(project: Path) -> None:
    async with (
        ModelServer([Broken(Answer("Hello there."), "first delta", "end")]) as server,
        Terminal(cwd=project, OUTRIDER_RETRY_SECONDS="0", **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Hello?")
        assert terminal.flowing.count("ended before it was complete") == 1


# What the tools do


async def test_an_edit_shows_its_difference_in_colour(project: Path) -> None:
    read = Answer("", call("Read", file_path="notes.txt"))
    edit = Answer("", call("Edit", file_path="notes.txt", old_string="milk", new_string="bread"))
    async with (
        ModelServer([read, edit, Answer("Changed.")]) as server,
        Terminal("--permissions", "edits", cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Change it.")
        assert re.search(r"^✓ Read\(notes\.txt\) · 2 lines$", terminal.screen, re.M)
        assert re.search(r"^✓ Edit\(notes\.txt\) · \+1 −1$", terminal.screen, re.M)
        assert terminal.colour("-Buy milk.") == "red"
        assert terminal.colour("+Buy bread.") == "green"
        assert terminal.colour("✓") == "green"
    assert (project / "notes.txt").read_text() == "Buy bread.\nFeed the cat.\n"


async def test_a_command_shows_its_output_while_it_runs(project: Path) -> None:
    command = "echo beginning; while [ ! -e go ]; do sleep 0.05; done; echo finished; exit 3"
    async with (
        ModelServer([Answer("", call("Bash", command=command)), Answer("It ended.")]) as server,
        Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Run it.")
        await terminal.wait_for(re.compile(r"^    beginning$", re.M))
        await terminal.wait_for(re.compile(r"^. Bash\(echo beginning;.* \d+ s$", re.M))
        (project / "go").touch()
        await terminal.wait_for("It ended.")
        assert re.search(r"^. Bash\(echo beginning; .* · exit code 3", terminal.transcript, re.M)
        assert re.search(r"^    finished$", terminal.transcript, re.M)


async def test_a_picture_that_a_tool_reads_has_a_caption(project: Path) -> None:
    Image.new("RGB", (321, 123), "red").save(project / "cat.png")
    async with (
        ModelServer([Answer("", call("Read", file_path="cat.png")), Answer("A red cat.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Look at it.")
        assert re.search(r"^    ▣ cat\.png, PNG, 321 × 123, \d+", terminal.screen, re.M)
        assert b"\x1b]1337" not in terminal.raw
        assert b"\x1b_G" not in terminal.raw


async def test_a_terminal_that_can_shows_the_picture_itself(project: Path) -> None:
    Image.new("RGB", (32, 12), "red").save(project / "cat.png")
    async with (
        ModelServer([Answer("", call("Read", file_path="cat.png")), Answer("A red cat.")]) as server,
        Terminal(cwd=project, TERM_PROGRAM="iTerm.app", **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Look at it.")
        assert b"\x1b]1337;File=inline=1;" in terminal.raw


async def test_a_call_that_fails_says_why(project: Path) -> None:
    async with (
        ModelServer([Answer("", call("Read", file_path="nothing.txt")), Answer("It is not there.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Read it.")
        assert re.search(r"^✗ Read\(nothing\.txt\)$", terminal.screen, re.M)
        assert terminal.colour("✗") == "red"


async def test_the_plan_is_shown(project: Path) -> None:
    todos = [
        {"content": "Dig a hole", "status": "completed"},
        {"content": "Plant a tree", "status": "in_progress"},
        {"content": "Water it", "status": "pending"},
    ]
    async with (
        ModelServer([Answer("", call("Todo", todos=todos)), Answer("Planned.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Plan.")
        for line in ("☑ Dig a hole", "▸ Plant a tree", "☐ Water it"):
            assert line in terminal.screen


# Windows of any size


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("columns", "lines"), [(40, 24), (20, 6), (200, 60), (10, 4)])
async def test_a_conversation_fits_any_window(columns: int, lines: int, project: Path) -> None:
    steps = [Answer("I shall look into that file now.", call("Read", file_path="notes.txt")), Answer("It is milk.")]
    async with (
        ModelServer([Paced(step, "events") for step in steps]) as server,
        Terminal(
            "--model", "anthropic/claude-sonnet-4-5", cwd=project, columns=columns, lines=lines, **answered_by(server)
        ) as terminal,
    ):
        await until(lambda: b"\x1b[?2004h" in terminal.raw)
        terminal.say("Look.")
        await until(lambda: len(server.requests) == 2)
        await until(lambda: terminal.prompts == 2)
        flowing = terminal.flowing.replace(" ", "")
        assert "Ishalllookintothatfilenow." in flowing
        assert "Itismilk." in flowing
        terminal.press("c-d")
        assert await terminal.exit_code() == 0
        assert "Traceback" not in terminal.transcript


async def test_a_window_that_changes_its_size_while_text_streams(project: Path) -> None:
    text = (
        " ".join(f"word{number}" for number in range(150)) + "\n\n" + " ".join(f"more{number}" for number in range(50))
    )
    async with (
        ModelServer([Held(Answer(text))]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Tell me.")
        await terminal.wait_for("word50")
        terminal.resize(50, 20)
        await terminal.wait_for(re.compile(r"^.{30,49}$", re.M))
        terminal.resize(120, 30)
        server.release.set()
        await terminal.wait_for("more49")
        await terminal.wait_for_prompt()
        terminal.say("/cost")
        await terminal.wait_for("cost  ")
        assert "Traceback" not in terminal.transcript
        for number in range(150):
            assert f"word{number}" in terminal.transcript


# Going on


async def test_the_last_session_goes_on(project: Path) -> None:
    async with ModelServer([Answer("**Blue**, I think."), Answer("As I said.")]) as server:
        async with Terminal(cwd=project, **answered_by(server)) as terminal:
            await at_the_prompt_with(terminal, "Which colour?")
            terminal.press("c-d")
            assert await terminal.exit_code() == 0
        async with Terminal("--continue", cwd=project, **answered_by(server)) as terminal:
            await terminal.wait_for_prompt()
            assert "› Which colour?" in terminal.screen
            assert "Blue, I think." in terminal.screen
            await at_the_prompt_with(terminal, "Really?")
            assert "As I said." in terminal.screen
        assert b"Which colour?" in server.requests[1].body
        assert b"Blue" in server.requests[1].body


async def test_a_session_goes_on_by_its_name(project: Path) -> None:
    async with ModelServer([Answer("Blue."), Answer("Red."), Answer("Still blue.")]) as server:
        async with Terminal(cwd=project, **answered_by(server)) as terminal:
            await at_the_prompt_with(terminal, "Which colour?")
            terminal.press("c-d")
            await terminal.exit_code()
            (name,) = re.findall(r"outrider --resume (\w+)", terminal.screen)
        async with Terminal(cwd=project, **answered_by(server)) as terminal:
            await at_the_prompt_with(terminal, "Another colour?")
        async with Terminal("--resume", name, cwd=project, **answered_by(server)) as terminal:
            await terminal.wait_for_prompt()
            assert f"Session {name}" in terminal.screen
            await at_the_prompt_with(terminal, "Really?")
            assert "Still blue." in terminal.screen
        assert b"Another" not in server.requests[2].body


async def test_a_session_that_another_chat_is_in_is_refused(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "What is 2+2?")
        async with Terminal("--continue", cwd=project) as other:
            assert await other.exit_code() == 1
            assert "is open elsewhere" in other.flowing


async def test_the_chat_and_the_sessions_command_see_the_same(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "What is 2+2?")
        terminal.press("c-d")
        await terminal.exit_code()
    assert "What is 2+2?" in outrider("sessions").stdout
