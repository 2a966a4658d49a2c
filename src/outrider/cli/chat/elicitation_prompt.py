"""Ask the user what an MCP server wants to know, on the screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from outrider.cli.chat.question_lines import QuestionPrompt
from outrider.cli.styles import BOLD, DIM, YELLOW, styled, wrap_words
from outrider.cli.user_programs import open_page
from outrider.text.visible import revealed_line, safe_line, safe_lines

if TYPE_CHECKING:
    from outrider.coding.mcp.forms import Field
    from outrider.mcp.elicitation import Elicitation, ElicitationAnswer


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
