"""A result over its limit keeps head and tail, says the true total, and is stored whole."""

from __future__ import annotations

import pytest

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import AttachmentBlock
from outrider.conversation.store import FolderStore, MemoryStore
from outrider.errors import AttachmentError
from outrider.runtime.events import Notice
from outrider.runtime.limits import Limits
from outrider.testing import call
from tests.watching import Watched


async def result_of(text: str, limit: int, **options: object) -> Watched:
    async def produce() -> str:
        return text

    watched = Watched([call("produce"), "ok"], [produce], Limits(result_characters=limit), **options)
    await watched.session.run("go")
    watched.check()
    return watched


async def test_exactly_at_the_limit_it_is_unchanged() -> None:
    watched = await result_of("é" * 100, 100)
    result = watched.session.messages[2].tool_results[0]
    assert (result.text, result.whole) == ("é" * 100, None)


async def test_one_over_the_limit_it_is_cut_between_characters_and_the_total_is_said() -> None:
    text = "".join(chr(0x1F600 + i % 50) for i in range(101))
    result = (await result_of(text, 100)).session.messages[2].tool_results[0]
    head, note, tail = result.text.split("\n")
    assert head == text[:75]
    assert tail == text[-25:]
    assert "1 of 101 characters left out" in note
    assert not result.is_error


async def test_the_whole_is_stored_and_can_be_read_by_the_reference_in_the_note() -> None:
    text = "line {braces} é\n" * 1000
    watched = await result_of(text, 200)
    result = watched.session.messages[2].tool_results[0]
    assert result.whole is not None
    assert f"attachment:{result.whole.sha256}" in result.text
    assert watched.session.store.read(result.whole).decode() == text
    assert result.attachments == (), "the model is not sent the whole"


async def test_a_result_of_100_megabytes_is_survived(tmp_path) -> None:  # type: ignore[no-untyped-def]
    text = "x" * 100_000_000
    watched = await result_of(text, 50_000, store=FolderStore(tmp_path))
    result = watched.session.messages[2].tool_results[0]
    assert len(result.text) < 51_000
    assert "100,000,000 characters" in result.text
    assert result.whole is not None
    assert result.whole.size == 100_000_000


async def test_a_store_that_fails_costs_the_whole_but_not_the_turn() -> None:
    class Full(MemoryStore):
        def put(self, attachment: Attachment, max_bytes: int = 0) -> AttachmentBlock:
            raise AttachmentError("no space left")

    watched = await result_of("y" * 101, 100, store=Full())
    result = watched.session.messages[2].tool_results[0]
    assert "The whole could not be stored: no space left" in result.text
    assert result.text.startswith("y" * 75)
    assert any("no space left" in notice.text for notice in watched.of(Notice))


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_a_tiny_limit_works(limit: int) -> None:
    result = (await result_of("abcdef", limit)).session.messages[2].tool_results[0]
    assert f"{6 - limit} of 6 characters left out" in result.text


async def test_an_error_is_limited_as_any_result() -> None:
    async def fail() -> str:
        raise ValueError("x" * 5_000_000)

    watched = Watched([call("fail"), "ok"], [fail])
    await watched.session.run("go")
    result = watched.session.messages[2].tool_results[0]
    assert result.is_error
    assert len(result.text) < 51_000
    assert result.whole is not None


async def test_a_store_whose_path_has_braces_is_no_trouble() -> None:
    class Full(MemoryStore):
        def put(self, attachment: Attachment, max_bytes: int = 0) -> AttachmentBlock:
            raise PermissionError("/data/{user}/{0}")

    result = (await result_of("y" * 101, 100, store=Full())).session.messages[2].tool_results[0]
    assert "PermissionError: /data/{user}/{0}" in result.text
    assert not result.is_error
