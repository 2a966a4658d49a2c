"""The last messages of a session, shown when it is resumed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from outrider.cli.chat.current_session import CurrentSession
from outrider.cli.chat.past_calls import PastCalls, stored_details
from outrider.cli.chat.session_view import SessionView
from outrider.cli.chat.tool_call_lines import finished_call_lines
from outrider.cli.styles import BOLD, fit, styled
from outrider.visible_text import safe_lines

if TYPE_CHECKING:
    from outrider.runtime.session import Session

RECENT_MESSAGES = 12


def recent_lines(current: CurrentSession, session: Session, view: SessionView) -> Iterator[str]:
    """Yield lines with the session's id and its last messages."""
    width = view.region.width
    yield styled(f"Session {session.id[:8]}, last messages:", BOLD)
    yield ""
    newest = session.history.tail[-RECENT_MESSAGES:]
    past = PastCalls(newest, stored_details(current.log, session.id), current.folder)
    for message in newest:
        if message.role == "user" and message.text.strip():
            yield from (styled(f"› {fit(line, width - 2)}", BOLD) for line in safe_lines(message.text).split("\n"))
            yield ""
        elif message.text.strip():
            yield from view.rendered(message.text)
            yield ""
        calls = list(past.of(message))
        for call_title, event in calls:
            yield from finished_call_lines(event, call_title, width)
        yield from [""] if calls else []
    if session.is_unfinished:
        yield "The last turn was interrupted. /continue resumes it; or send a new message."
