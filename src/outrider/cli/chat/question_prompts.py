"""Questions on the screen: what they share, those of the model, and those of MCP servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from outrider.cli.chat.keyboard import Keyboard, with_key
from outrider.cli.chat.session_view import SessionView
from outrider.cli.styles import BOLD, CYAN, DIM, YELLOW, columns, fit, styled, wrap_words
from outrider.cli.user_programs import open_page
from outrider.log.questions import Answer, ChoiceField, ChoiceQuestion
from outrider.text.visible import revealed_line, safe_line, safe_lines

if TYPE_CHECKING:
    from outrider.coding.mcp.forms import Field
    from outrider.mcp.elicitation import Elicitation, ElicitationAnswer


class QuestionPrompt:
    """Asks the user, one question at a time."""

    def __init__(self, view: SessionView, keyboard: Keyboard, interrupt: Callable[[bool], None]) -> None:
        self._view = view
        self._keyboard = keyboard
        self._interrupt = interrupt
        """Cancels the turn. Called with True for Ctrl-C and False for Escape."""

    async def _read_line(
        self, label: str, above: Sequence[str] = (), shown: Callable[[str], str] = safe_line
    ) -> tuple[str, str]:
        """Let the user write a line. Return it, and the key that ended it: `enter`, `escape` or `c-c`."""
        text = ""
        while True:
            lines = wrap_words(shown(f"{label} {text}▏"), self._view.region.width)
            self._view.ask([*above, *(styled(line, YELLOW) for line in lines)])
            key = await self._keyboard.next()
            if key.name in ("enter", "escape", "c-c"):
                return text, key.name
            text = with_key(text, key)


def key_lines(keys: Mapping[str, str], width: int) -> Iterator[str]:
    """Yield keys with their meanings: in one line, or in a narrow window one a line."""
    together = "    ".join(f"{key} {meaning}" for key, meaning in keys.items())
    shown = [f"{styled(key, BOLD)} {meaning}" for key, meaning in keys.items()]
    yield from [f"  {'    '.join(shown)}"] if columns(together) <= width - 2 else [f"  {each}" for each in shown]


OWN_WORDS = "Something else, in your own words"
ROOM_BELOW = 7
"""Lines for the keys, which are several in a narrow window, and for what is below the question."""


class _DeclinedError(Exception):
    """The user does not answer."""


class ChoicePrompt(QuestionPrompt):
    """Asks one question after the other. Escape declines all of them; Ctrl-C cancels the turn, too."""

    async def __call__(self, call_id: str, question: ChoiceQuestion) -> Answer:
        content: dict[str, Any] = {}
        count = len(question.questions)
        try:
            for number, field in enumerate(question.questions, 1):
                place = f" ({number} of {count})" if count > 1 else ""
                with self._keyboard.capturing():  # anew: a key that follows an answer is not the next answer
                    content[field.key] = await self._value(field, place)
        except _DeclinedError:
            return Answer("decline")
        finally:
            self._view.ask(())
        return Answer("answer", content=content)

    async def _value(self, field: ChoiceField, place: str) -> str | list[str]:
        """Show a question, then its keys once they count, and return the answer."""
        picker = _Picker(field, place)
        if len(whole := picker.lines(self._view.region.width)) > self._view.region.height - ROOM_BELOW:
            self._view.write(whole)
            picker.is_short = True
        self._view.ask(picker.lines(self._view.region.width))
        await self._keyboard.wait_until_idle()
        while not picker.is_done:
            self._view.ask([*picker.lines(self._view.region.width), *picker.keys(self._view.region.width)])
            if picker.wants_words:
                picker.take_words(await self._words(picker))
                continue
            key = await self._keyboard.next_alone()
            if key.name in ("escape", "c-c"):
                self._decline(key.name)
            if not picker.press(key.name):
                self._keyboard.give_back(key)
        return picker.value

    async def _words(self, picker: _Picker) -> str:
        """Return what the user writes; "" to go back to the list. Without a list, Escape declines."""
        width = self._view.region.width
        keys = key_lines({"enter": "send", "esc": "back to the list" if picker.labels else "decline"}, width)
        text, key = await self._read_line("Your answer:", [*picker.question_lines(width), *keys])
        if key == "c-c" or (key == "escape" and not picker.labels):
            self._decline(key)
        return text.strip() if key == "enter" else ""

    def _decline(self, key: str) -> None:
        if key == "c-c":
            self._interrupt(True)
        raise _DeclinedError


class _Picker:
    """The state of one list. Its last row, after the choices, is for other words."""

    def __init__(self, field: ChoiceField, place: str) -> None:
        self._field = field
        self._place = place
        self.labels = [each.label for each in field.choices]
        self.is_short = False
        """Whether the whole question is above, because it does not fit. Then each text has one line."""
        self.is_done = False
        self._at = 0
        self._taken = set() if self.labels else {0}
        self._words = ""

    @property
    def wants_words(self) -> bool:
        """Whether the user has chosen to write the answer."""
        return len(self.labels) in self._taken and not self._words

    @property
    def value(self) -> str | list[str]:
        taken = dict.fromkeys(label for at, label in enumerate([*self.labels, self._words]) if at in self._taken)
        return list(taken) if self._field.multiple else next(iter(taken))

    def press(self, key: str) -> bool:
        """Change the list. Return False if the key means nothing here."""
        count = len(self.labels) + self._field.own_words
        if key in ("up", "down"):
            self._at = (self._at + (1 if key == "down" else -1)) % count
        elif key == "enter" and self._field.multiple:
            self.is_done = bool(self._taken)
        elif key == "enter" or (key == " " and self._field.multiple):
            self._take()
        elif key in map(str, range(1, count + 1)):
            self._at = int(key) - 1
            self._take()
        else:
            return False
        return True

    def _take(self) -> None:
        self._taken = self._taken ^ {self._at} if self._field.multiple else {self._at}
        self._words = self._words if len(self.labels) in self._taken else ""
        self.is_done = not self._field.multiple and not self.wants_words

    def take_words(self, words: str) -> None:
        """Take what the user wrote, if it is anything."""
        self._words = words
        if self.labels and not words:
            self._taken.discard(len(self.labels))
        self.is_done = bool(words) and not self._field.multiple

    def lines(self, width: int) -> list[str]:
        choices = [(each.label, each.description) for each in self._field.choices]
        if choices and self._field.own_words:
            choices.append((self._words or OWN_WORDS, ""))
        return [*self.question_lines(width), *(line for row in enumerate(choices) for line in self._row(*row, width))]

    def keys(self, width: int) -> Iterator[str]:
        taking = {"space": "choose", "enter": "send"} if self._field.multiple else {"enter": "choose"}
        return key_lines({"↑ ↓": "move", **taking, "esc": "decline"}, width)

    def question_lines(self, width: int) -> Iterator[str]:
        subject = f"? {safe_line(self._field.header) or 'Question'}{self._place}"
        yield from ("", styled(fit(subject, width), BOLD, YELLOW))
        yield from (styled(f"  {line}", BOLD) for line in self._wrapped(self._field.text, width - 2))

    def _row(self, at: int, choice: tuple[str, str], width: int) -> Iterator[str]:
        box = f"[{'x' if at in self._taken else ' '}] " if self._field.multiple else ""
        mark, *style = (styled("❯", CYAN), BOLD) if at == self._at else (" ",)
        indent = " " * (4 + len(box))
        first, *others = self._wrapped(choice[0], width - len(indent))
        yield f"{mark} {box}{styled(str(at + 1), BOLD)} {styled(first, *style)}"
        yield from (f"{indent}{styled(line, *style)}" for line in others)
        if choice[1] and not self.is_short:
            yield from (styled(f"{indent}{line}", DIM) for line in self._wrapped(choice[1], width - len(indent)))

    def _wrapped(self, text: str, width: int) -> list[str]:
        if self.is_short:
            return [fit(safe_line(text), max(1, width))]
        return [part for line in safe_lines(text).split("\n") for part in wrap_words(line, max(1, width))]


class _GivenUpError(Exception):
    """The user does not finish the form."""


class ElicitationPrompt(QuestionPrompt):
    """Asks the user, one question at a time. Escape and Ctrl-C cancel the question and the turn."""

    async def __call__(self, question: Elicitation) -> ElicitationAnswer:
        from outrider.mcp.elicitation import ElicitationAnswer

        with self._keyboard.capturing():
            try:
                self._view.write(self._question_lines(question))
                await self._keyboard.wait_until_idle()
                return await self._answer(question)
            except _GivenUpError:
                return ElicitationAnswer("cancel")
            finally:
                self._view.ask(())

    async def _answer(self, question: Elicitation) -> ElicitationAnswer:
        from outrider.coding.mcp.forms import fields_of
        from outrider.mcp.elicitation import ElicitationAnswer

        verb = "open the page" if question.url else "answer"
        if not await self._agrees(f"{styled('y', BOLD)} {verb}    {styled('n', BOLD)} decline"):
            return ElicitationAnswer("decline")
        if question.url:
            if not await open_page(question.url):
                self._view.write([styled("  There is no browser here: open the address yourself.", DIM)])
            return ElicitationAnswer("accept")
        content: dict[str, Any] = {}
        for field in fields_of(question.schema or {}):
            value = await self._value(field)
            if value is not None:
                content[field.name] = value
        return ElicitationAnswer("accept", content)

    async def _agrees(self, keys: str) -> bool:
        self._view.ask([f"  {keys}    {styled('esc', BOLD)} cancel the turn"])
        while True:
            key = await self._keyboard.next_alone()
            if key.name.lower() in ("y", "n"):
                return key.name.lower() == "y"
            self._check_interrupt(key.name)
            self._keyboard.give_back(key)

    async def _value(self, field: Field) -> Any:
        self._view.write(self._field_lines(field))
        problem = ""
        while True:
            above = [styled(safe_line(problem), DIM)] if problem else []
            text, key = await self._read_line(f"{field.label} ({field.hint}):", above)
            self._check_interrupt(key)
            try:
                value = field.parse(text)
            except ValueError as error:
                problem = str(error)
                continue
            self._view.write([styled(f"  {safe_line(field.label)}: {safe_line(text) or '–'}", DIM)])
            return value

    def _check_interrupt(self, name: str) -> None:
        if name in ("escape", "c-c"):
            self._interrupt(name == "c-c")
            raise _GivenUpError

    def _question_lines(self, question: Elicitation) -> Iterator[str]:
        width = self._view.region.width
        yield ""
        yield styled(f"? The MCP server {revealed_line(question.server)} asks:", BOLD, YELLOW)
        for line in safe_lines(question.message).split("\n"):
            yield from (f"  {part}" for part in wrap_words(line, width - 2))
        if question.url:
            yield from (f"  {part}" for part in wrap_words(safe_line(question.url), width - 2))

    def _field_lines(self, field: Field) -> Iterator[str]:
        width = self._view.region.width
        for line in filter(None, safe_lines(field.description).split("\n")):
            yield from (styled(f"  {part}", DIM) for part in wrap_words(line, width - 2))
        for number, option in enumerate(field.options, 1):
            yield f"  {styled(str(number), BOLD)} {safe_line(option.label)}"
