"""Codes that reach the user's terminal and desktop: bell, notifications, clipboard, background colour, pictures."""

from __future__ import annotations

import base64
import os
import re
import select
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal, TextIO, TypeAlias

from outrider.coding.command_environment import command_environment
from outrider.coding.config.settings import Notify, Theme
from outrider.processes.programs import Programs
from outrider.processes.starting import run
from outrider.text.visible import safe_line

LONG_TURN_SECONDS = 10.0
"""The end of a longer turn is announced."""
LARGEST_COPY = 70_000
"""Bytes that terminals take into the clipboard at once."""
ANSWER_SECONDS = 0.5
"""How long to wait for a terminal that answers neither question."""
_COLOUR = re.compile(rb"\x1b\]11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")
_ANSWER = re.compile(rb"\x1b\]11;[^\x07\x1b]*(?:\x07|\x1b\\)?")
_ATTRIBUTES = re.compile(rb"\x1b\[\?[0-9;]*c")


def notify(stream: TextIO, how: Notify, text: str) -> None:
    """Ring the bell of the terminal, or send a desktop notification."""
    if how != "off":
        stream.write(f"\x1b]9;{safe_line(text)[:200]}\x07" if how == "desktop" else "\a")
        stream.flush()


def copy(stream: TextIO, text: str, environment: Mapping[str, str], programs: Programs) -> bool:
    """Put a text into the clipboard, also from another machine (OSC 52). Return whether it is short enough."""
    data = text.encode(errors="replace")
    if environment.get("TMUX") and (tmux := programs.find("tmux")):  # it takes the code only if it is set up for that
        with suppress(OSError):
            run([tmux, "load-buffer", "-w", "-"], environment=command_environment(environment), seconds=5, input=data)
    if len(data) > LARGEST_COPY:
        return False
    stream.write(f"\x1b]52;c;{base64.b64encode(data).decode()}\x07")
    stream.flush()
    return True


class BackgroundQuestion:
    """Asks the terminal for its background colour, and reads the answer later."""

    def __init__(self, theme: Theme, environment: Mapping[str, str]) -> None:
        self._theme = theme
        self._terminal: int | None = None
        if theme != "auto" or environment.get("NO_COLOR") or environment.get("TERM", "dumb") in ("dumb", "linux"):
            return
        with suppress(OSError, ValueError):
            terminal = sys.stdin.fileno()
            # All terminals answer the second question, for their attributes: its answer ends the wait.
            os.write(sys.stdout.fileno(), b"\x1b]11;?\x1b\\\x1b[c")
            self._terminal = terminal

    def answer(self) -> tuple[Literal["light", "dark"], str]:
        """Return the background, dark if the terminal does not say, and the keys that were pressed meanwhile."""
        if self._terminal is None:
            return "light" if self._theme == "light" else "dark", ""
        read, end = b"", time.monotonic() + ANSWER_SECONDS
        while not _ATTRIBUTES.search(read) and (left := end - time.monotonic()) > 0:
            if select.select([self._terminal], [], [], left)[0]:
                data = os.read(self._terminal, 1024)
                if not data:  # the terminal was closed
                    break
                read += data
        keys = _ATTRIBUTES.sub(b"", _ANSWER.sub(b"", read)).decode(errors="replace")
        return "light" if _is_light(read) else "dark", keys


def _is_light(answer: bytes) -> bool:
    """Return whether the colour in an answer is nearer to white than to black."""
    found = _COLOUR.search(answer)
    if not found:
        return False
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups())
    brightness: float = 0.299 * red + 0.587 * green + 0.114 * blue
    return brightness > 0.5


Protocol: TypeAlias = Literal["kitty", "iterm", ""]
LARGEST = 4 * 1024 * 1024
_CHUNK = 4096
_ROWS = 15


def image_protocol(environment: Mapping[str, str]) -> Protocol:
    """Return the image protocol of the terminal; empty if it has none, or inside a multiplexer."""
    if environment.get("TMUX") or environment.get("STY") or environment.get("TERM", "").startswith("screen"):
        return ""
    program = environment.get("TERM_PROGRAM", "")
    if environment.get("KITTY_WINDOW_ID") or environment.get("TERM") == "xterm-kitty" or program == "ghostty":
        return "kitty"
    return "iterm" if program in ("iTerm.app", "WezTerm") else ""


def image_sequence(data: bytes, mime_type: str, how: Protocol) -> str:
    """Return the escape sequence that shows an image; empty if it cannot be shown."""
    if not how or not mime_type.startswith("image/") or len(data) > LARGEST:
        return ""
    if how == "iterm":
        encoded = base64.b64encode(data).decode()
        return f"\x1b]1337;File=inline=1;height={_ROWS};preserveAspectRatio=1;size={len(data)}:{encoded}\x07"
    return _kitty(base64.b64encode(data).decode()) if mime_type == "image/png" else ""


def _kitty(encoded: str) -> str:
    pieces = [encoded[at : at + _CHUNK] for at in range(0, len(encoded), _CHUNK)]
    drawn = []
    for number, piece in enumerate(pieces):
        more = int(number < len(pieces) - 1)
        head = f"a=T,f=100,r={_ROWS},m={more}" if number == 0 else f"m={more}"
        drawn.append(f"\x1b_G{head};{piece}\x1b\\")
    return "".join(drawn)
