"""`/rewind` in the chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outrider.cli.styles import fit
from outrider.coding.rewinding import Rewind, run_rewind
from outrider.visible_text import safe_line

if TYPE_CHECKING:
    from outrider.cli.chat.session_view import SessionView
    from outrider.runtime.session import Session


async def rewind(session: Session, view: SessionView, wanted: Rewind) -> str:
    """Do what the command says. Return the text for the next line: the message that was taken back."""
    report = await run_rewind(session, wanted)
    view.write([fit(safe_line(line), view.region.width) for line in report.lines])
    if report.problem:
        (view.note if report.hint else view.problem)(report.problem)
    if report.hint:
        view.dim(report.hint)
    return report.message
