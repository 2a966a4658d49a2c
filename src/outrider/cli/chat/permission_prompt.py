"""Ask the user for permission on the screen, and read the answering key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from outrider.cli.chat.keyboard import Keyboard
from outrider.cli.chat.question_prompts import QuestionPrompt, key_lines
from outrider.cli.chat.session_view import SessionView
from outrider.cli.chat.tool_call_lines import numbered_diff
from outrider.cli.styles import BOLD, DIM, YELLOW, columns, fit, styled, wrap_words
from outrider.coding.permissions.question import ALL_EDITS, PLAN_ANSWERS, Answer, Mode, Question
from outrider.coding.remote.questions import changed_lines, offers_edits
from outrider.coding.toolbox.titles import title
from outrider.text.visible import revealed, revealed_line

PREVIEW_LINES = 12
_KEYS = {"always": "a", "prefix": "p"}


class PermissionPrompt(QuestionPrompt):
    """Asks the user, one question at a time. Escape and Ctrl-C deny the call and cancel the turn.

    Of a sub-agent in the background, Escape is a no, which ends that one alone.

    Only a key that stands alone answers, after the question was on the screen. Answers that last need Enter, too.
    """

    def __init__(
        self,
        view: SessionView,
        keyboard: Keyboard,
        folder: Path,
        interrupt: Callable[[bool], None],
        mode: Callable[[], Mode] = lambda: "ask",
    ) -> None:
        super().__init__(view, keyboard, interrupt)
        self._folder = folder
        self._mode = mode
        self._is_denied = False

    def take_denial(self) -> bool:
        """Return whether the user has said no since the last call of this."""
        denied, self._is_denied = self._is_denied, False
        return denied

    async def __call__(self, question: Question) -> Answer:
        with self._keyboard.capturing():
            try:
                if question.is_plan:
                    return await self._ask_about_plan(question)
                panel = await self._show(question)
                return await self._answer(question, panel)
            finally:
                self._view.ask(())

    async def _answer(self, question: Question, panel: list[str]) -> Answer:
        lasting = self._lasting(question)
        while True:
            key = await self._keyboard.next_alone()
            name = key.name.lower()
            if name in lasting:
                answer, meaning = lasting[name]
                self._show_confirmation(meaning)
                key = await self._keyboard.next_alone()
                if key.name == "enter":
                    return answer
                self._view.ask(panel)
                if key.name == "escape":
                    continue
                name = ""
            if name == "y":
                return Answer("once")
            if name == "n":
                self._is_denied = not (question.is_for_session or question.in_background)
                return Answer("no")
            if name == "t":
                return Answer("no", await self._read_reason())
            if key.name in ("escape", "c-c"):
                if key.name == "c-c" or not question.in_background:
                    self._interrupt(key.name == "c-c")
                return Answer("no")
            self._keyboard.give_back(key)

    async def _ask_about_plan(self, question: Question) -> Answer:
        """Write the plan, which stays in the transcript, and wait for one of its answers."""
        width = self._view.region.width
        self._view.write(["", *self._view.rendered(revealed(question.input["plan"])), ""])
        head = [styled(f"? {fit('Carry out this plan?', width - 2)}", BOLD, YELLOW)]
        keys = [
            f"  {styled(key, BOLD)} {fit(f'{meaning[0].lower()}{meaning[1:]}', width - len(key) - 3)}"
            for key, meaning in zip(("y", "e", "t", "n or esc"), PLAN_ANSWERS.values(), strict=True)
        ]
        self._view.ask(head)
        await self._keyboard.wait_until_idle()
        while True:
            self._view.ask([*head, *keys])
            key = await self._keyboard.next_alone()
            match key.name.lower():
                case "y":
                    return Answer("go")
                case "e":
                    self._show_confirmation(ALL_EDITS)
                    if (await self._keyboard.next_alone()).name == "enter":
                        return Answer("edits")
                case "t":
                    if words := await self._read_reason("What should change? "):
                        return Answer("change", words)
                case "n" | "escape":
                    return Answer("no")
                case "c-c":
                    self._interrupt(True)
                    return Answer("no")
                case _:
                    self._keyboard.give_back(key)

    def _lasting(self, question: Question) -> dict[str, tuple[Answer, str]]:
        """Return the answers that allow more than this call by their key, each with its meaning."""
        found = {}
        if offers_edits(question, self._mode()):
            found["e"] = (Answer("edits"), ALL_EDITS)
        return found | {_KEYS[name]: (Answer(name), revealed_line(text)) for name, text in question.lasting.items()}

    def _show_confirmation(self, meaning: str) -> None:
        """Show what an answer would allow from now on. Enter confirms it."""
        lines = wrap_words(f"Allow: {meaning}", self._view.region.width - 2)
        keys = f"  {styled('enter', BOLD)} confirm    {styled('esc', BOLD)} back to the question"
        self._view.ask(["", *(styled(f"  {line}", YELLOW) for line in lines), keys])

    async def _read_reason(self, asked: str = "What should it do instead?") -> str:
        reason, key = await self._read_line(asked, shown=revealed)
        return reason if key == "enter" else ""

    async def _show(self, question: Question) -> list[str]:
        """Show the whole call, then the keys, and return the panel. A long call is written above, so that all is seen.

        Keys count once the panel was readable.
        """
        width = self._view.region.width
        asked = list(_question_lines(question, width, self._folder))
        lasting = {key: meaning for key, (_, meaning) in self._lasting(question).items()}
        keys = list(_key_lines(question, lasting, width))
        room = self._view.region.height - 3  # less the line above the cursor, the blank line and the status line
        if len(asked) + len(keys) > min(room, PREVIEW_LINES + 6):
            self._view.write(asked)
            asked = [*asked[1 : 3 if question.asker else 2], styled("    (shown in full above)", DIM)]
        self._view.ask(asked)
        await self._keyboard.wait_until_idle()
        panel = [*asked, *keys] if len(asked) + len(keys) <= room else keys
        self._view.ask(panel)
        return panel


def _question_lines(question: Question, width: int, folder: Path) -> Iterator[str]:
    head = revealed_line(title(question.tool, question.input, folder))
    yield ""
    if question.asker:
        yield styled(f"  {fit(revealed_line(question.asker), width - 8)} asks:", YELLOW)
    yield styled(f"? {fit(f'Allow {head}', width - 2)}", BOLD, YELLOW)
    yield from _preview(question, width, is_cut=columns(head) > width - 10)
    if question.facts:
        yield from (f"  {line}" for line in wrap_words(revealed_line(" · ".join(question.facts)), width - 2))
    if question.reason:
        for line in wrap_words(revealed_line(question.reason), width - 2):
            yield styled(f"  {line}", DIM)


def _key_lines(question: Question, lasting: dict[str, str], width: int) -> Iterator[str]:
    yes, no = "yes, once", "no, stop here"
    if question.is_for_session:
        yes, no = "yes, in this session", "no, go on without"
    elif question.in_background:
        no = "no, end this sub-agent"
    for key, action in {"y": yes, **lasting}.items():
        for number, line in enumerate(wrap_words(action, width - 4)):
            yield f"  {styled(key if number == 0 else ' ', BOLD)} {line}"
    leave = {} if question.in_background else {"esc": "cancel the turn"}
    yield from key_lines({"n": no, "t": "no, with instructions"} | leave, width)


def _preview(question: Question, width: int, *, is_cut: bool) -> Iterator[str]:
    """Yield the whole call where the title does not show all of it."""
    given = question.input
    if question.tool in ("Edit", "Write"):
        yield from _argument("file_path", given, width) if is_cut else ()
        whole = ["@@ -0,0 +1 @@"] if question.tool == "Write" else []
        lines = revealed(question.diff).removesuffix("\n").split("\n") if question.diff else []
        yield from numbered_diff(lines or [*whole, *changed_lines(question.tool, given, revealed)], width)
    elif question.tool == "Bash" and isinstance(command := given.get("command"), str):
        if is_cut or "\n" in command:
            yield from _indented(command, width)
    elif is_cut or len(given) > 1 or len(str(given)) > 40:
        for name in given:
            yield from _argument(name, given, width)


def _argument(name: str, input: dict[str, Any], width: int) -> Iterator[str]:
    value = input.get(name, "")
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=repr).decode()
    yield from _indented(f"{name.replace(chr(10), ' ')}: {text}", width)


def _indented(text: str, width: int) -> Iterator[str]:
    for line in revealed(text).split("\n"):
        yield from (f"    {part}" for part in wrap_words(line, width - 4))
