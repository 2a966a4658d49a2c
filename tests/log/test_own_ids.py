"""Ids that a program gives its sessions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from outrider import Agent, Log, Session


@pytest.fixture
def log(place: str) -> Iterator[Log]:
    with Log(place) as log:
        yield log


async def test_an_id_that_begins_another_id_is_a_session_of_its_own(log: Log) -> None:
    for case in ("case-17", "case-1", "case-17"):
        async with Session.open(log, case, Agent("demo"), create=True) as session:
            assert session.id == case
            await session.run("What is 2+2?")
    assert [len(log.messages(case)) for case in ("case-1", "case-17")] == [2, 4]


@pytest.mark.parametrize("id", ["", "a/b", "../17", "-rf", ".", "a\n", "ä", "x" * 65])
async def test_an_id_that_could_not_name_a_file_is_refused(log: Log, id: str) -> None:
    with pytest.raises(ValueError, match=r"is no id of a session|there is no session"):
        await Session.open(log, id, Agent("demo"), create=True)
    assert log.sessions() == []
