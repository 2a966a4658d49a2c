"""The picker of AskUser: keys, sizes, and a person who writes, declines or was typing something else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prompt_toolkit.input import PipeInput

from outrider.cli.chat.keyboard import ALONE_SECONDS
from outrider.cli.chat.question_prompts import OWN_WORDS, ChoicePrompt
from outrider.log.questions import Answer, Choice, ChoiceField, ChoiceQuestion
from tests.cli.chat.terminal import until
from tests.cli.chat.test_permission_prompt import Person

UP, DOWN, ESCAPE, CTRL_C, ENTER = "\x1b[A", "\x1b[B", "\x1b", "\x03", "\r"
COLOUR = ChoiceField(
    key="q1",
    text="Which colour should it have?",
    header="Colour",
    choices=(Choice("red", "as the logo"), Choice("blue"), Choice("green")),
)
PARTS = ChoiceField(key="q2", text="Which parts?", choices=(Choice("door"), Choice("roof")), multiple=True)
NAME = ChoiceField(key="q3", text="What is it called?")


class Chooser:
    """Somebody at a small terminal who is asked something."""

    def __init__(self, pipe: PipeInput, columns: int = 80, lines: int = 24) -> None:
        self.person = Person(pipe, columns, lines)
        self._keys = pipe
        self._prompt = ChoicePrompt(self.person.view, self.person.keyboard, self.person.interrupts.append)

    @property
    def sees(self) -> str:
        return self.person.sees

    @asynccontextmanager
    async def asked(self, *fields: ChoiceField) -> AsyncIterator[asyncio.Task[Answer]]:
        with self.person.keyboard.watching():
            task = asyncio.ensure_future(self._prompt("c1", ChoiceQuestion(questions=fields)))
            await self.ready()
            yield task
            task.cancel()
            await asyncio.wait([task])

    async def ready(self, text: str = "decline") -> None:
        """Wait until the question that shows a text takes keys."""
        await until(lambda: text in self.sees and self.person.keyboard._is_question_shown)

    async def press(self, *presses: str) -> None:
        """Press keys at the pace of a person."""
        for key in presses:
            self._keys.send_text(key)
            await asyncio.sleep(ALONE_SECONDS * 2.5)


async def result(task: asyncio.Task[Answer]) -> Answer:
    return await asyncio.wait_for(asyncio.shield(task), 60)


def given(**content: Any) -> Answer:
    return Answer("answer", content=content)


@pytest.mark.parametrize(
    ("presses", "value"),
    [
        ([ENTER], "red"),
        (["2"], "blue"),
        ([DOWN, DOWN, ENTER], "green"),
        ([UP, UP, ENTER], "green"),
        ([DOWN + DOWN, ENTER], "green"),
        (["4", "pink", ENTER], "pink"),
        ([UP, ENTER, "pink", ENTER], "pink"),
        (["4", "pi", ESCAPE, "1"], "red"),
        (["4", "  ", ENTER, "1"], "red"),
        (["9", " ", "2"], "blue"),
    ],
)
async def test_one_choice(keys: PipeInput, presses: list[str], value: str) -> None:
    chooser = Chooser(keys)
    async with chooser.asked(COLOUR) as task:
        assert "? Colour" in chooser.sees
        assert "Which colour should it have?" in chooser.sees
        assert "❯ 1 red\n    as the logo\n  2 blue\n  3 green\n" in chooser.sees
        assert f"  4 {OWN_WORDS}" in chooser.sees
        await chooser.press(*presses)
        if presses[0] == "9":  # it was no answer: the keys after it belong to the line, until the person pauses
            assert not task.done()
            return
        assert await result(task) == given(q1=value)
    assert "Which colour" not in chooser.sees


@pytest.mark.parametrize(
    ("presses", "value"),
    [
        (["1", "2", ENTER], ["door", "roof"]),
        ([" ", DOWN, " ", " ", ENTER], ["door"]),
        ([ENTER, "2", ENTER], ["roof"]),
        (["3", "a gate", ENTER, "1", ENTER], ["door", "a gate"]),
        (["3", "a gate", ENTER, "3", "1", ENTER], ["door"]),
        (["3", ESCAPE, "2", ENTER], ["roof"]),
        (["1", "3", "door", ENTER, ENTER], ["door"]),
    ],
)
async def test_several_choices(keys: PipeInput, presses: list[str], value: list[str]) -> None:
    chooser = Chooser(keys)
    async with chooser.asked(PARTS) as task:
        assert "? Question\n  Which parts?\n❯ [ ] 1 door\n  [ ] 2 roof" in chooser.sees
        await chooser.press(*presses[:-1])
        assert not task.done()
        assert sum(f"[x] {at} " in chooser.sees for at in (1, 2, 3)) >= len(value)
        await chooser.press(presses[-1])
        assert await result(task) == given(q2=value)


async def test_one_question_follows_the_other(keys: PipeInput) -> None:
    chooser = Chooser(keys)
    async with chooser.asked(COLOUR, PARTS, NAME) as task:
        assert "? Colour (1 of 3)" in chooser.sees
        await chooser.press("2")
        await chooser.ready("? Question (2 of 3)\n  Which parts?")
        await chooser.press("1", ENTER)
        await chooser.ready("What is it called?")
        await chooser.press("The old house", ENTER)
        assert await result(task) == given(q1="blue", q2=["door"], q3="The old house")


async def test_a_key_that_follows_an_answer_is_not_the_next_answer(
    keys: PipeInput,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chooser = Chooser(keys)
    async with chooser.asked(COLOUR, COLOUR) as task:
        monkeypatch.setattr("outrider.cli.chat.keyboard.REACTION_SECONDS", 0.7)
        await chooser.press("2")
        await until(lambda: "(2 of 2)" in chooser.sees)
        await chooser.press("1")
        assert not task.done()
        assert chooser.person.keyboard.typed == "1"


@pytest.mark.parametrize("field", [COLOUR, PARTS, NAME])
async def test_escape_declines_and_leaves_the_turn_alone(keys: PipeInput, field: ChoiceField) -> None:
    chooser = Chooser(keys)
    async with chooser.asked(field) as task:
        await chooser.press(ESCAPE)
        assert await result(task) == Answer("decline")
    assert chooser.person.interrupts == []


@pytest.mark.parametrize("presses", [[CTRL_C], ["4", CTRL_C]])
async def test_ctrl_c_cancels_the_turn(keys: PipeInput, presses: list[str]) -> None:
    chooser = Chooser(keys)
    async with chooser.asked(COLOUR) as task:
        await chooser.press(*presses)
        assert await result(task) == Answer("decline")
    assert chooser.person.interrupts == [True]


async def test_a_text_is_no_answer(keys: PipeInput) -> None:
    chooser = Chooser(keys)
    async with chooser.asked(COLOUR) as task:
        keys.send_text("2 more things")
        await until(lambda: chooser.person.keyboard.typed == "2 more things")
        assert not task.done()


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (80, 10), (40, 24), (24, 12), (9, 24), (3, 6)])
async def test_a_long_question_can_be_read_and_answered_in_any_window(
    keys: PipeInput,
    columns: int,
    lines: int,
) -> None:
    words = " ".join(f"word{number}" for number in range(100))
    choices = tuple(Choice(f"choice {number} " + "x" * 85, f"about {number} {words[:250]}") for number in range(5))
    field = ChoiceField(key="q1", text=f"漢字 {words}\nand the end", header="A subject of some length", choices=choices)
    person = Chooser(keys, columns, lines)
    with person.person.keyboard.watching():
        task = asyncio.ensure_future(person._prompt("c1", ChoiceQuestion(questions=(field,))))
        await until(lambda: person.person.keyboard._is_question_shown)
        seen = "".join(person.person.has_seen.split())
        if columns >= 9:
            for wanted in ("漢字word0", "word99andtheend", "choice4xxx", "about4word0"):
                assert wanted in seen
        if lines >= 24 and columns >= 24:
            assert "❯ 1 choice 0" in person.sees
            assert "5 choice 4" in person.sees
        assert "decline"[: columns - 3] in "".join(person.sees.split())
        await person.press(DOWN, ENTER)
        assert await result(task) == given(q1=choices[1].label)
