"""A list to choose from, with a search. `session_picker.py` has the one of sessions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import NamedTuple

from prompt_toolkit import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output.vt100 import Vt100_Output

from outrider.cli.styles import BOLD, CYAN, DIM, fit, styled
from outrider.text.visible import safe_line

MOST_ROWS = 12


class PickerChoice(NamedTuple):
    """One line of the list."""

    value: str
    label: str
    detail: str = ""
    """Shown after the label, and searched too."""


class Picker:
    """Shows choices and lets the user take one."""

    def __init__(self, title: str, choices: Sequence[PickerChoice]) -> None:
        self._title = title
        self._choices = choices
        self._at = 0
        self._search = Buffer(multiline=False, on_text_changed=lambda _: self._go(-self._at))
        self._app: Application[str | None] = Application(
            layout=self._layout(),
            key_bindings=self._keys(),
            output=ScreenOutput.from_pty(sys.stdout),
            erase_when_done=True,
        )
        self._app.ttimeoutlen = 0.05  # Esc leaves at once

    async def pick(self) -> str | None:
        """Return the value of the choice; None if the user leaves the list."""
        return await self._app.run_async(handle_sigint=False)

    @property
    def _found(self) -> list[PickerChoice]:
        words = self._search.text.lower().split()
        return [each for each in self._choices if all(word in f"{each.label} {each.detail}".lower() for word in words)]

    def _layout(self) -> Layout:
        before = BeforeInput(ANSI(styled("› ", BOLD, CYAN)))
        return Layout(
            HSplit(
                [
                    Window(FormattedTextControl(ANSI(styled(self._title, BOLD))), height=1),
                    Window(BufferControl(self._search, input_processors=[before]), height=1),
                    Window(FormattedTextControl(self._rows), height=self._height, dont_extend_height=True),
                ]
            )
        )

    def _height(self) -> int:
        return max(2, min(MOST_ROWS, get_terminal_size().lines - 4)) + 1

    def _rows(self) -> ANSI:
        found, most = self._found, self._height() - 1
        start = max(0, min(self._at - most // 2, len(found) - most))
        lines = [self._row(each, is_chosen=start + at == self._at) for at, each in enumerate(found[start:][:most])]
        keys = f"{len(found)} of {len(self._choices)}    ↑ ↓ choose    Enter take    Esc leave    type to search"
        return ANSI("\n".join([*(lines or ["  Nothing is found."]), styled(fit(keys, self._width), DIM)]))

    @property
    def _width(self) -> int:
        return get_terminal_size().columns - 1

    def _row(self, choice: PickerChoice, *, is_chosen: bool) -> str:
        label = fit(safe_line(choice.label), self._width - 2)
        detail = fit(safe_line(choice.detail), max(0, self._width - len(label) - 4))
        shown = f"{styled(label, BOLD) if is_chosen else label}{styled(f'  {detail}', DIM) if detail else ''}"
        return f"{styled('❯', CYAN) if is_chosen else ' '} {shown}"

    def _go(self, by: int) -> None:
        self._at = max(0, min(self._at + by, len(self._found) - 1))

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        steps = {"up": -1, "c-p": -1, "down": 1, "c-n": 1, "pageup": -MOST_ROWS, "pagedown": MOST_ROWS}
        for name, step in steps.items():
            keys.add(name)(lambda _, by=step: self._go(by))

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            if found := self._found:
                event.app.exit(result=found[self._at].value)

        @keys.add("escape", eager=True)
        @keys.add("c-c")
        @keys.add("c-d")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        return keys


async def pick(title: str, choices: Sequence[PickerChoice]) -> str | None:
    """Let the user take one of the choices. Return its value; None if there is none or the user leaves the list."""
    return await Picker(title, choices).pick() if choices else None


class ScreenOutput(Vt100_Output):
    """Erases below the cursor without copying the screen to the scrollback.

    In the first column of the first row, tmux and other terminals take that code for clearing the screen.
    """

    def erase_down(self) -> None:
        """Erase the rest of the line, and the lines below."""
        self.write_raw("\x1b7\x1b[K\x1b[C\x1b[J\x1b8")


def model_choices() -> list[PickerChoice]:
    """Return the models of the providers that have a key, and the demo model."""
    from outrider.cli.models import HOSTED, OTHERS, api_of
    from outrider.providers.catalogue import tiers

    found = [
        PickerChoice(f"{prefix}/{model}", f"{prefix}/{model}", tier)
        for prefix in (*HOSTED, *OTHERS)
        if api_of(prefix).key
        for tier, model in tiers.models_of(prefix).items()
    ]
    return [*found, PickerChoice("demo", "demo", "built in: a few rules, not an LLM")]
