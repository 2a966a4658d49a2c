"""`/rewind` without a number: choose one of your messages, look at what going back does, and choose what goes back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from outrider.cli.chat.picker import PickerChoice, pick
from outrider.coding.rewind_points import Rewind, beginning, preview_lines
from outrider.text import ago, counted
from outrider.text.visible import safe_lines

if TYPE_CHECKING:
    from outrider.log.rewinding import RewindPoint, RewindPreview
    from outrider.runtime.session import Session

LONGEST = 400
"""Characters of a message in its line, which the window cuts."""


async def choose_rewind(session: Session) -> Rewind | None:
    """Return what the user chooses; None if the user leaves the list. Raises OutriderError."""
    points = await session.rewind_points()
    choices = [_choice(point) for point in reversed(points)]

    def message(number: str) -> Sequence[str]:
        return safe_lines(points[int(number) - 1].message.text).split("\n")

    number: str | None = None
    while number := await pick("Go back to before one of your messages", choices, message, number):
        preview = await session.rewind_preview(int(number))
        title = f"Back to before: {beginning(points[int(number) - 1].message, LONGEST)}"
        if what := await pick(title, _parts(preview), partial(_lines, preview)):
            return Rewind(int(number), what, force=what != "conversation" and bool(preview.conflicts))
    return None


def _choice(point: RewindPoint) -> PickerChoice:
    age = ago(time.time() - point.time)
    return PickerChoice(str(point.number), f"{point.number:>2}  {beginning(point.message, LONGEST)}", facts=(age,))


def _parts(preview: RewindPreview) -> list[PickerChoice]:
    """Return what can go back. If someone else changed files, the conversation comes first, which overwrites none."""
    said = f"{counted(preview.messages, 'message')} less"
    conversation = PickerChoice("conversation", "the conversation", said)
    if not preview.files:
        return [conversation]
    changed = f"{counted(len(preview.files), 'file')} change" + ("" if len(preview.files) > 1 else "s")
    if preview.conflicts:
        changed += f", also {len(preview.conflicts)} that someone else changed since"
    both = PickerChoice("both", "the conversation and the files", f"{said}, {changed}")
    files = PickerChoice("files", "the files", changed)
    return [conversation, both, files] if preview.conflicts else [both, conversation, files]


def _lines(preview: RewindPreview, what: str) -> list[str]:
    """Return what a choice would do."""
    return list(preview_lines(preview, files=what != "conversation", conversation=what != "files"))[1:]
