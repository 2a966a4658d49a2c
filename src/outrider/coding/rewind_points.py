"""`/rewind`, `/undo` and `/redo` in the chat and in editors: show what going back does, do it, and take it back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from outrider.conversation.messages import AttachmentBlock, Message, TextBlock
from outrider.errors import ConversationError, RewindConflictError
from outrider.text import counted
from outrider.text.visible import safe_line

if TYPE_CHECKING:
    from outrider.log.rewinding import RewindPoint, RewindPreview, Rewound
    from outrider.runtime.session import Session

DIFF_LINES = 400
"""The most lines of diffs that a preview shows."""
TITLE_CHARACTERS = 70
UNDO_USAGE = "Write /undo; /undo yes does it without a question, and the word force overwrites files of others."
NOTHING_TO_REDO = "There is nothing to redo."
SAID_SINCE = "Nothing was redone: you have sent a message since. /rewind undo leaves it out and goes back."
USAGE = "Write /rewind, /rewind N, /rewind N both|files|conversation, or /rewind undo."


class Rewind(NamedTuple):
    """List the messages, show what a rewind would do, or rewind."""

    to: int | Literal["undo", "last", "redo"] | None
    """The message to go back to; None lists them. `redo` is an undo after which nothing was said."""
    what: str = ""
    """`both`, `files` or `conversation`; empty shows what would be done."""
    force: bool = False
    """Whether to overwrite files that someone else changed."""


class RewindReport(NamedTuple):
    """What a command says."""

    lines: list[str]
    hint: str = ""
    """What to write next."""
    problem: str = ""
    """Why nothing was changed."""
    message: str = ""
    """The message that was taken back, to be written anew."""
    then: Rewind | None = None
    """What a yes does."""


def parse_rewind(words: str) -> Rewind | None:
    """Return the command with these words after its name; None if they are wrong.

    >>> parse_rewind("2 files force"), parse_rewind("undo"), parse_rewind("x")
    (Rewind(to=2, what='files', force=True), Rewind(to='undo', what='both', force=False), None)
    """
    given = words.split()
    force = "force" in given
    given = [word for word in given if word != "force"]
    if not given:
        return Rewind(None)
    what = given[1] if len(given) > 1 else ""
    if len(given) > 2 or what not in ("", "both", "files", "conversation"):
        return None
    if given[0] == "undo":
        return Rewind("undo", "both", force)
    return Rewind(int(given[0]), what, force) if given[0].isascii() and given[0].isdecimal() else None


def parse_undo(words: str) -> Rewind | None:
    """Return what `/undo` with these words does; None if they are wrong.

    >>> parse_undo(""), parse_undo("yes force")
    (Rewind(to='last', what='', force=False), Rewind(to='last', what='both', force=True))
    """
    given = set(words.split())
    return Rewind("last", "both" if given else "", "force" in given) if given <= {"yes", "force"} else None


PARSERS: dict[str, tuple[Callable[[str], Rewind | None], str, str]] = {
    "rewind": (parse_rewind, USAGE, "N, N both, or undo"),
    "undo": (parse_undo, UNDO_USAGE, "yes"),
    "redo": (lambda words: Rewind("redo", "both", words == "force"), "", "force"),
}
"""The commands: what parses their words, their usage, and a hint for the words."""


async def run_rewind(session: Session, wanted: Rewind) -> RewindReport:
    """Do what the command says. Raises OutriderError."""
    if wanted.to == "last":
        return await _undo(session, wanted)
    if wanted.to == "redo" and (problem := await _why_not_redo(session)):
        return RewindReport([], problem=problem)
    if wanted.to is None:
        hint = "To see what going back to before one of them does: /rewind N"
        return RewindReport([*point_lines(await session.rewind_points())], hint)
    if not wanted.what and isinstance(wanted.to, int):
        preview = await session.rewind_preview(wanted.to)
        force = " force" if preview.conflicts else ""
        problem = "Someone else changed some of these files since. The word force overwrites them." if force else ""
        hint = f"To do it: /rewind {wanted.to} both{force}, or files{force}, or conversation instead of both."
        return RewindReport([*preview_lines(preview)], hint, problem)
    try:
        done = await _done(session, wanted)
    except RewindConflictError as error:
        return RewindReport([], problem=f"Nothing was changed: {error}. Here: add the word force.")
    hint = "To take it back: /rewind undo" if isinstance(wanted.to, int) else ""
    return RewindReport([*outcome_lines(done)], hint, "", done.message.text if done.message and done.messages else "")


async def _undo(session: Session, wanted: Rewind) -> RewindReport:
    """Go back to before the last message, or show what that does. Its text is not written anew: /undo may follow."""
    points = await session.rewind_points()
    if not points:
        return RewindReport(["There is no message to undo."])
    last = Rewind(points[-1].number, "both", wanted.force)
    if wanted.what:
        report = await run_rewind(session, last)
        hint = "" if report.problem else "/undo again goes further back, /redo returns."
        return report._replace(hint=hint, message="")
    preview = await session.rewind_preview(points[-1].number)
    force = bool(preview.conflicts)
    hint = f"To do it: /undo yes{' force' if force else ''}"
    return RewindReport([*preview_lines(preview)], hint, then=Rewind("last", "both", force))


async def _why_not_redo(session: Session) -> str:
    """Return why the newest rewind cannot be taken back without losing a message; empty if it can."""
    try:
        preview = await session.rewind_preview(None)
    except ConversationError:
        return NOTHING_TO_REDO
    return SAID_SINCE if len(await session.rewind_points()) >= preview.to else ""


async def _done(session: Session, wanted: Rewind) -> Rewound:
    if not isinstance(wanted.to, int):
        return await session.undo_rewind(force=wanted.force)
    files, conversation = wanted.what != "conversation", wanted.what != "files"
    return await session.rewind(wanted.to, files=files, conversation=conversation, force=wanted.force)


def point_lines(points: Iterable[RewindPoint]) -> Iterator[str]:
    """Yield the messages of the user with their numbers."""
    number = 0
    for point in points:
        number = point.number
        yield f"{number:>4}  {beginning(point.message)}"
    if not number:
        yield "There are no messages yet."


def preview_lines(preview: RewindPreview, *, files: bool = True, conversation: bool = True) -> Iterator[str]:
    if preview.message is None:
        yield f"Takes back the rewind to message {preview.to}."
    else:
        yield f"Back to before message {preview.to}: {beginning(preview.message)}"
        if conversation:
            yield f"The conversation loses {counted(preview.messages, 'message')}. The log keeps them."
    if not files:
        return
    yield f"{counted(len(preview.files), 'file')} would change." if preview.files else "No file would change."
    for file in preview.files:
        remark = " (changed by someone else since)" if file.is_conflict else ""
        remark += "" if file.is_kept else " (not kept: it stays as it is)"
        yield f"  {file.action:<7} {safe_line(file.path)}{remark}"
    lines = [line for file in preview.files for line in file.diff.splitlines()]
    yield from lines[:DIFF_LINES]
    if len(lines) > DIFF_LINES:
        yield f"… {counted(len(lines) - DIFF_LINES, 'more line')}"


def outcome_lines(done: Rewound) -> Iterator[str]:
    parts = ["Took back the rewind" if done.message is None else f"Went back to before message {done.to}"]
    if done.files:
        parts.append(f"restored {counted(len(done.files), 'file')}")
    yield f"{'; '.join(parts)}."
    for path, reason in done.not_restored.items():
        yield f"Not restored: {safe_line(path)} ({safe_line(reason)})"


def beginning(message: Message, most: int = TITLE_CHARACTERS) -> str:
    """Return the beginning of a message in one line. Its texts stay apart, and its files are named."""
    parts = (
        block.text if isinstance(block, TextBlock) else f"[{block.label}]"
        for block in message.content
        if isinstance(block, TextBlock | AttachmentBlock)
    )
    words = " ".join(" ".join(parts).split())
    return safe_line(words if len(words) <= most else f"{words[: most - 1]}…")
