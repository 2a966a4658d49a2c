"""Pastes: long ones are collapsed in the line, dropped pictures are attached."""

from __future__ import annotations

import shutil
import stat
import sys
from pathlib import Path

import pytest

from outrider.cli.chat.pastes import Clipboard, PasteHistory, Pastes, dropped_files, mention
from outrider.errors import OutriderError
from outrider.processes.programs import Programs
from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with
from tests.modelserver import ModelServer
from tests.streams import Answer

LONG = "\n".join(f"line {number}" for number in range(600))
PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301010018dd8db0"
    "0000000049454e44ae426082"
)


def test_short_pastes_stay_and_long_ones_come_back_whole() -> None:
    pastes = Pastes()
    assert pastes.collapse("a\nb") == "a\nb"
    line = f"Explain {pastes.collapse(LONG)} and {pastes.collapse('x' * 3000)}."
    assert line == "Explain [600 pasted lines] and [3,000 pasted characters]."
    assert pastes.expand(line) == f"Explain {LONG} and {'x' * 3000}."


def test_two_pastes_of_one_size_are_told_apart() -> None:
    pastes = Pastes()
    other = LONG.upper()
    line = f"{pastes.collapse(LONG)} {pastes.collapse(other)} {pastes.collapse(LONG)}"
    assert line == "[600 pasted lines] [600 pasted lines, 2] [600 pasted lines]"
    assert pastes.expand(line) == f"{LONG} {other} {LONG}"


def test_words_that_only_look_like_a_paste_stay() -> None:
    assert Pastes().expand("[600 pasted lines]") == "[600 pasted lines]"


def test_the_history_keeps_the_text_for_the_next_process(tmp_path: Path) -> None:
    pastes = Pastes()
    PasteHistory(tmp_path / "history", pastes).store_string(f"See {pastes.collapse(LONG)}!")
    later = Pastes()
    (line,) = PasteHistory(tmp_path / "history", later).load_history_strings()
    assert line == "See [600 pasted lines]!"
    assert later.expand(line) == f"See {LONG}!"


async def test_a_long_paste_takes_one_line_and_one_step_up_leaves_it(project: Path) -> None:
    async with (
        ModelServer([Answer("First."), Answer("Much.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Hello")
        terminal.paste(LONG)
        await terminal.wait_for("› [600 pasted lines]")
        terminal.press("enter")
        await terminal.wait_for("Much.")
        assert LONG.replace("\n", "\\n").encode() in server.requests[1].body
        await terminal.wait_for_prompt()
        terminal.press("up")
        await terminal.wait_for(lambda: terminal.screen.count("[600 pasted lines]") == 2)
        terminal.press("up")
        await terminal.wait_for(lambda: terminal.screen.count("› Hello") == 2)


async def test_backspace_takes_a_paste_away_whole(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.paste(LONG)
        await terminal.wait_for("[600 pasted lines]")
        terminal.press("backspace")
        await terminal.wait_until_gone("pasted lines")


def test_dropped_pictures_are_found_in_every_form_that_terminals_paste(tmp_path: Path) -> None:
    plain, spaced = tmp_path / "a.png", tmp_path / "my picture.PNG"
    plain.write_bytes(PICTURE)
    spaced.write_bytes(PICTURE)
    assert dropped_files(f"{plain}") == [plain]
    assert dropped_files(f"'{spaced}' ") == [spaced]
    assert dropped_files(str(spaced).replace(" ", "\\ ")) == [spaced]
    assert dropped_files(f"file://{str(spaced).replace(' ', '%20')}") == [spaced]
    assert dropped_files(f"{plain} '{spaced}'") == [plain, spaced]
    assert mention(spaced) == f'@"{spaced}"'


def test_other_pastes_stay_text(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Hi")
    for pasted in ("a.png", "/no/such.png", f"look at {tmp_path}/a.png", f"{tmp_path}/notes.txt", "it's a.png", ""):
        assert dropped_files(pasted) == []


async def test_a_dropped_picture_goes_with_the_message(project: Path) -> None:
    (project.parent / "drop.png").write_bytes(PICTURE)
    async with (
        ModelServer([Answer("A dot.")]) as server,
        Terminal(cwd=project, columns=200, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.paste(f"'{project.parent}/drop.png'")
        await terminal.wait_for("drop.png")
        terminal.say("What is it?")
        await terminal.wait_for("A dot.")
        assert "image" in [block["type"] for block in server.requests[0].json["messages"][0]["content"]]


def test_the_clipboard_gives_a_file_for_the_chat(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(PICTURE)
    program = tmp_path / "xclip"
    program.write_text(f"#!/bin/sh\ncat '{tmp_path}/picture'\n")
    program.chmod(0o755)
    clipboard = Clipboard({"DISPLAY": ":0"}, Programs([], f"{tmp_path}:/usr/bin:/bin"))
    path = clipboard.picture()
    assert path
    assert path.read_bytes() == PICTURE
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    clipboard.close()
    assert not path.exists()


async def test_the_chat_says_why_no_picture_is_pasted(project: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    async with Terminal("--model", "demo", cwd=project, DISPLAY=":0", PATH=f"{programs}:/bin") as terminal:
        await terminal.wait_for_prompt()
        if shutil.which("xclip", path="/bin:/usr/bin") is None:
            terminal.type("What is\x16")
            await terminal.wait_for("To paste pictures, install xclip.")
        program = programs / "xclip"
        program.write_text("#!/bin/sh\necho text\n")
        program.chmod(0o755)
        terminal.type("\x16")
        await terminal.wait_for("There is no picture in the clipboard.")


@pytest.mark.skipif(sys.platform == "darwin", reason="it always has a clipboard")
def test_without_a_desktop_there_is_no_clipboard() -> None:
    with pytest.raises(OutriderError, match="neither WAYLAND_DISPLAY nor DISPLAY is set"):
        Clipboard({}, Programs([])).picture()
