"""Inline images, for terminals that support them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Literal, TypeAlias

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
