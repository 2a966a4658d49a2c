"""`/rewind` in the chat: list the messages, show what a rewind does, do it, and take it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outrider.cli.rewinding import outcome_lines, point_lines, preview_lines
from outrider.cli.styles import fit
from outrider.errors import RewindConflictError

if TYPE_CHECKING:
    from outrider.cli.chat.commands.command import Rewind
    from outrider.cli.chat.session_view import SessionView
    from outrider.runtime.rewinding import Rewound
    from outrider.runtime.session import Session


async def rewind(session: Session, view: SessionView, wanted: Rewind) -> str:
    """Do what the command says. Return the text for the next line: the message that was taken back."""
    width = view.region.width
    if wanted.to is None:
        view.write([fit(line, width) for line in point_lines(await session.rewind_points())])
        view.dim("To see what going back to before one of them does: /rewind N")
        return ""
    if not wanted.what and wanted.to != "undo":
        preview = await session.rewind_preview(wanted.to)
        view.write([fit(line, width) for line in preview_lines(preview)])
        force = " force" if preview.conflicts else ""
        if force:
            view.note("Someone else changed some of these files since. The word force overwrites them.")
        view.dim(f"To do it: /rewind {wanted.to} both{force}, or files{force}, or conversation instead of both.")
        return ""
    try:
        done = await _done(session, wanted)
    except RewindConflictError as error:
        view.problem(f"Nothing was changed: {error}. In the chat: add the word force.")
        return ""
    view.write([fit(line, width) for line in outcome_lines(done)])
    if wanted.to != "undo":
        view.dim("To take it back: /rewind undo")
    return done.message.text if done.message and done.messages else ""


async def _done(session: Session, wanted: Rewind) -> Rewound:
    if wanted.to == "undo" or wanted.to is None:
        return await session.undo_rewind(force=wanted.force)
    files, conversation = wanted.what != "conversation", wanted.what != "files"
    return await session.rewind(wanted.to, files=files, conversation=conversation, force=wanted.force)
