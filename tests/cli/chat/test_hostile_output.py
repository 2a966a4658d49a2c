"""Text of models and tools cannot move the cursor, set the title or use the clipboard of the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with
from tests.lengths import only_long
from tests.modelserver import ModelServer, Paced, Status
from tests.streams import Answer

pytestmark = pytest.mark.long  # `test_chat.py` is the short form

ATTACKS = {
    "clear": "\x1b[2J\x1b[H",
    "title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;b3duZWQ=\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\",
    "cursor": "\x1b[987A\x1b[5D",
    "8-bit": "\x9b2J\x9d0;owned\x9c",
    "bell": "\x07\x07",
    "backspace": "safe\x08\x08\x08\x08evil",
    "return": "rm -rf x\rls       ",
    "bidi": "\u202eevil\u2066\u200f",
    "alternate": "\x1b[?1049h\x1b[?25l",
    "paste": "\x1b[200~x\x1b[201~",
    "device": "\x1bP$qm\x1b\\\x1b[c\x1b[6n",
    "charset": "\x0e\x0f\x1b(0",
}
HOSTILE = " ".join(f"<<{attack}>>" for attack in ATTACKS.values())
FORBIDDEN = (
    *(
        b"\x1b[2J\x1b[H>>",
        b"\x1b]",
        b"\x1b[987A",
        b"\x1b[5D",
        b"\x07",
        b"\x1b[?1049",
        b"\x1b[200~",
        b"\x1bP",
        b"\x1b[c",
    ),
    *(b"\x0e", b"\x1b(0", b"\xc2\x9b", b"\xc2\x9d", b"\x9b2J", "\u202e".encode(), "\u2066".encode()),
    *("\u200f".encode(), b"x\rls", b"e\x08"),
)


def call(name: str, **input: object) -> tuple[tuple[str, str, dict[str, object]], ...]:
    return ((f"call_{name}", name, input),)


def harmless(terminal: Terminal) -> None:
    drawing = b"\x1b[?2026h"
    # Its own: the question for the background colour, and the bell before a question.
    raw = terminal.raw.replace(b"\x1b]11;?\x1b\\\x1b[c", b"", 1).replace(b"\x07" + drawing, drawing)
    found = [attack for attack in FORBIDDEN if attack in raw]
    assert found == []
    assert "Traceback" not in terminal.transcript


async def test_the_words_and_thoughts_of_a_model(project: Path) -> None:
    code = f"```{ATTACKS['title']}\n{HOSTILE}\n```"
    table = f"| {HOSTILE} | b |\n|---|---|\n| {HOSTILE} | x |"
    link = f"[{HOSTILE}](http://x/{HOSTILE})"
    text = "\n\n".join([f"Look: {HOSTILE}", f"# {HOSTILE}", f"- {HOSTILE}", code, table, link, "The end."])
    async with (
        ModelServer([Paced(Answer(text, thinking=f"Hm. {HOSTILE}"), "events")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Attack me.", "/thinking")
        assert "The end." in terminal.transcript
        harmless(terminal)


async def test_a_resumed_session_and_its_request(project: Path) -> None:
    async with ModelServer([Answer(f"Look: {HOSTILE}. The end.")]) as server:
        async with Terminal(cwd=project, **answered_by(server)) as terminal:
            await at_the_prompt_with(terminal, "Attack me.")
        async with Terminal("--continue", cwd=project, **answered_by(server)) as terminal:
            await at_the_prompt_with(terminal, "/wire", "/sessions")
            harmless(terminal)


async def test_the_output_of_a_command_while_it_runs_and_after(project: Path) -> None:
    (project / "hostile").write_text(f"{HOSTILE}\n" * 3)
    command = "cat hostile; sleep 0.3; cat hostile; echo the end"
    async with (
        ModelServer([Answer("", call("Bash", command=command)), Answer("Done.")]) as server,
        Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Run it.")
        assert "the end" in terminal.transcript
        harmless(terminal)


async def test_names_of_files_and_tools_and_errors(project: Path) -> None:
    name = f"a{ATTACKS['title']}{ATTACKS['bidi']}b.txt"
    (project / name).write_text(HOSTILE)
    calls = (
        ("call_1", "Read", {"file_path": name}),
        ("call_2", "Glob", {"pattern": "*"}),
        ("call_3", "Grep", {"pattern": "owned"}),
        ("call_4", "Read", {"file_path": f"{HOSTILE}/nothing"}),
        ("call_5", "Read", {HOSTILE: HOSTILE}),
        ("call_6", "Bash", {"command": f"echo {HOSTILE.replace(chr(0), '')}", "description": HOSTILE}),
    )
    async with (
        ModelServer([Answer("", calls), Answer("Done.")]) as server,
        Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Look.")
        await terminal.wait_for("Done.")
        harmless(terminal)


async def test_a_permission_question(project: Path) -> None:
    async with (
        ModelServer(
            [Answer("", call("Bash", command=f"echo {HOSTILE}", description=HOSTILE)), Answer("Done.")]
        ) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Ask me.")
        await terminal.wait_for("esc cancel")
        harmless(terminal)
        terminal.press("n")
        await terminal.wait_for("What should it do instead?")
        harmless(terminal)


async def test_a_change_to_a_hostile_file(project: Path) -> None:
    (project / "bad.txt").write_text(f"one\n{HOSTILE}\nthree\n")
    steps = [
        Answer("", call("Read", file_path="bad.txt")),
        Answer("", call("Edit", file_path="bad.txt", old_string="three", new_string=f"drei {HOSTILE}")),
        Answer("Done."),
    ]
    async with (
        ModelServer(steps) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Change it.")
        await terminal.wait_for("esc cancel")
        terminal.press("y")
        await terminal.wait_for("Done.")
        harmless(terminal)


async def test_an_error_of_a_provider(project: Path) -> None:
    body = msgspec.json.encode({"error": {"type": "invalid_request_error", "message": HOSTILE}})
    async with (
        ModelServer([Status(400, body=body)]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Hello?")
        harmless(terminal)


async def test_the_folder_itself(project: Path) -> None:
    folder = project / "x\x1b]0;owned\x07\u202ey"
    folder.mkdir()
    async with Terminal("--model", "demo", "--cwd", folder.name, cwd=project) as terminal:
        await terminal.wait_for_prompt()
        harmless(terminal)


async def test_completion_of_hostile_names(project: Path) -> None:
    (project / f"zz{ATTACKS['title']}").touch()
    (project / "zzfine").touch()
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.type("@zz")
        await terminal.wait_for("zzfine")
        harmless(terminal)


@pytest.mark.parametrize("where", ["output", *only_long("text", "thinking")])
async def test_a_very_long_line(where: str, project: Path) -> None:
    line = "x" * 100_000  # a megabyte would be no problem for the program, but for the terminal of the tests
    steps = {
        "text": [Answer(line)],
        "thinking": [Answer("Done.", thinking=line * 5)],
        "output": [Answer("", call("Bash", command="head -c 1000000 /dev/zero | tr '\\0' x")), Answer("Done.")],
    }[where]
    async with (
        ModelServer(steps) as server,
        Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Go.")
        assert len(terminal.raw) < 600_000
        assert "Traceback" not in terminal.transcript
        assert re.search(r"x{50}|Thought for", terminal.transcript)
