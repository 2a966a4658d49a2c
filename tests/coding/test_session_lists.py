"""The lists of sessions for people, and what a search in them finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.coding.session_lists import SessionList
from outrider.conversation.messages import Message
from outrider.log.entries import MessageEntry, SessionSettings
from outrider.log.log import Log


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log(tmp_path / "log") as log:
        yield log


def stored(log: Log, said: str, folder: Path, origin: str = "chat", answer: str = "Yes.", title: str = "") -> str:
    journal = log.create(SessionSettings(model="demo", cwd=str(folder), origin=origin, title=title or None))
    journal.write_now(MessageEntry(Message.user(said)), MessageEntry(Message.assistant(answer)))
    journal.close()
    return journal.id


def test_a_search_finds_titles_and_words_also_beyond_the_first_page(log: Log, tmp_path: Path) -> None:
    shop, other = tmp_path / "shop", tmp_path / "other"
    (shop / "src").mkdir(parents=True)
    (shop / ".git").mkdir()
    by_answer = stored(log, "Which animal?", shop / "src", answer="An elephant.")
    by_title = stored(log, "Which one?", shop, title="The Elephant of the shop")
    script = stored(log, "An elephant, please", shop, "print")
    for number in range(5):
        stored(log, f"Number {number}", shop)
    elsewhere = stored(log, "An elephant far away", other)
    listed = SessionList(log, shop / "src")
    assert [each.title for each in listed.page(3)] == ["Number 4", "Number 3", "Number 2"]
    assert elsewhere in [each.id for each in listed.page(None)][-1:]
    found = listed.found("elephant")
    assert [each.summary.id for each in found] == [by_title, by_answer, elsewhere]
    assert [len(each.passages) for each in found] == [0, 1, 1]
    assert script in [each.summary.id for each in listed.found("ELEPHANT please", every=True)]
    assert listed.found("giraffe") == []
    assert [listed.is_here(log.session(name)) for name in (by_answer, by_title, elsewhere)] == [True, True, False]


def test_a_folder_with_a_longer_name_is_another(log: Log, tmp_path: Path) -> None:
    longer = stored(log, "In shops", tmp_path / "shops")
    assert not SessionList(log, tmp_path / "shop").is_here(log.session(longer))


def test_a_deleted_folder_has_no_sessions_of_its_own(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    stored(log, "Somewhere", tmp_path)
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert [each.title for each in SessionList(log).page(None)] == ["Somewhere"]
