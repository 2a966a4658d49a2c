"""What a list of sessions shows is written in the commit of the entries that change it."""

from __future__ import annotations

from pathlib import Path

from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.log.entries import MessageEntry, SessionSettings
from outrider.log.log import Log


def test_title_model_and_counts_follow_their_entries(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        journal = log.create(SessionSettings(model="a/one"))
        assert log.session(journal.id).model == "a/one"
        journal.write_now(MessageEntry(Message.user("First prompt.")))
        journal.write_now(MessageEntry(Message.assistant("Yes."), Usage(10, 2), model="a/two"))
        journal.write_now(MessageEntry(Message.user("Second prompt.")))
        found = log.session(journal.id)
        assert (found.title, found.model, found.turns, found.usage) == ("First prompt.", "a/two", 1, Usage(10, 2))
        journal.write_now(SessionSettings(model="a/three"))
        assert log.session(journal.id).model == "a/three"
        journal.close()
