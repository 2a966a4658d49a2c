"""The events of a session over its socket: for the owner alone, as `-p` prints them, and without a cost for no one."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import stat
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from outrider.coding.remote import live
from outrider.coding.remote.live import LiveSocket, live_events
from outrider.errors import LogError
from outrider.runtime.events import Event, Notice, TextDelta, ToolProgress
from tests.log import until_so

SESSION = "0123456789abcdef" * 2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / f"{SESSION}.sock"


@pytest.fixture
async def shown(path: Path) -> AsyncIterator[LiveSocket]:
    shown = LiveSocket(path, SESSION)
    shown.start()
    yield shown
    shown.close()


class Watcher:
    """Collects the events of a session until it ends."""

    def __init__(self, path: Path) -> None:
        self.seen: list[dict[str, Any]] = []
        self.task = asyncio.ensure_future(self._watch(path))

    async def _watch(self, path: Path) -> None:
        async for event in live_events(path):
            self.seen.append(event)

    async def has_seen(self, count: int) -> None:
        await until_so(lambda: len(self.seen) >= count)


async def test_a_watcher_sees_the_session_and_its_events(shown: LiveSocket, path: Path) -> None:
    watcher = Watcher(path)
    await watcher.has_seen(1)
    shown.send(TextDelta("Hel"))
    shown.send(ToolProgress("c", "line\u2028with\nbreaks"))
    shown.send(Notice("done"))
    await watcher.has_seen(4)
    assert watcher.seen == [
        {"type": "session", "session": SESSION},
        {"type": "text_delta", "text": "Hel"},
        {"type": "tool_progress", "call_id": "c", "content": "line\u2028with\nbreaks"},
        {"type": "notice", "text": "done"},
    ]
    shown.close()
    await watcher.task
    assert not list(path.parent.iterdir())


async def test_deltas_that_follow_each_other_are_sent_together_and_each_once(shown: LiveSocket, path: Path) -> None:
    watcher = Watcher(path)
    await watcher.has_seen(1)
    for word in ["one", "two", "three", "four"]:
        shown.send(TextDelta(f"{word} "))
    shown.send(ToolProgress("c", "a"))
    shown.send(ToolProgress("c", "b"))
    late = Watcher(path)
    await late.has_seen(7)
    shown.send(TextDelta("five"))
    shown.send(Notice("done"))
    await watcher.has_seen(6)
    texts = [(event["type"], event.get("text", event.get("content"))) for event in watcher.seen[1:]]
    progress = [("tool_progress", "a"), ("tool_progress", "b")]
    end = [("text_delta", "five"), ("notice", "done")]
    assert texts == [("text_delta", "one two three four "), *progress, *end]
    await late.has_seen(9)
    assert "".join(event["text"] for event in late.seen if event["type"] == "text_delta") == "one two three four five"


async def test_several_watchers_see_the_same_and_one_that_leaves_is_forgotten(shown: LiveSocket, path: Path) -> None:
    first, second = Watcher(path), Watcher(path)
    await first.has_seen(1)
    await second.has_seen(1)
    first.task.cancel()
    await until_so(lambda: len(shown._watchers) == 1)
    shown.send(Notice("still here"))
    await second.has_seen(2)


async def test_nothing_is_encoded_while_no_one_watches(shown: LiveSocket, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(event: Event) -> bytes:
        raise AssertionError(event)

    monkeypatch.setattr(live, "encode_json", refuse)
    shown.send(Notice("nobody is there"))


async def test_a_watcher_that_does_not_read_is_dropped_and_the_session_goes_on(
    shown: LiveSocket, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_UNREAD", 100_000)
    with socket.socket(socket.AF_UNIX) as lazy:
        lazy.setblocking(False)
        with live._address(path) as address:
            lazy.connect(address)
        await until_so(lambda: len(shown._watchers) == 1)
        for _ in range(1000):
            shown.send(TextDelta("x" * 10_000))
        assert shown._watchers == []
        reader = Watcher(path)
        await reader.has_seen(1)


async def test_what_watchers_send_is_ignored(shown: LiveSocket, path: Path) -> None:
    with live._address(path) as address:
        _, writer = await asyncio.open_unix_connection(address)
    writer.write(b'{"kind": "stop"}\n' * 10_000)
    await writer.drain()
    await until_so(lambda: len(shown._watchers) == 1)
    writer.close()
    await until_so(lambda: not shown._watchers)


async def test_watchers_are_limited(shown: LiveSocket, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_WATCHERS", 1)
    first = Watcher(path)
    await first.has_seen(1)
    second = Watcher(path)
    await second.task
    assert second.seen == []


async def test_only_the_owner_can_watch(shown: LiveSocket, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [stat.S_IMODE(os.stat(each).st_mode) for each in (path, path.parent)] == [0o600, 0o700]
    monkeypatch.setattr(os, "getuid", lambda: 4711)  # the other side is not this user
    stranger = Watcher(path)
    await stranger.task
    assert stranger.seen == []


async def test_a_socket_that_a_killed_process_left_is_replaced(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as left, live._address(path) as address:
        left.bind(address)
    with pytest.raises(LogError, match="no process shows the session 01234567 live"):
        await anext(aiter(live_events(path)))
    shown = LiveSocket(path, SESSION)
    shown.start()
    watcher = Watcher(path)
    await watcher.has_seen(1)
    shown.close()


async def test_one_that_is_closed_before_it_listens_leaves_nothing_open(path: Path) -> None:
    shown = LiveSocket(path, SESSION)
    shown.start()
    shown.close()
    assert not list(path.parent.iterdir())
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        await asyncio.sleep(0)
        del shown
        gc.collect()
    assert [str(each.message) for each in seen] == []


async def test_the_socket_of_the_next_process_stays(path: Path) -> None:
    before, after = LiveSocket(path, SESSION), LiveSocket(path, SESSION)
    before.start()
    after.start()
    before.close()
    watcher = Watcher(path)
    await watcher.has_seen(1)
    after.close()


async def test_a_folder_with_a_long_name_has_a_socket_as_well(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 30) / "run" / f"{SESSION}.sock"
    shown = LiveSocket(path, SESSION)
    shown.start()
    taken, sink = os.pipe()  # takes the descriptor with which the folder was named
    watcher = Watcher(path)
    await watcher.has_seen(1)
    shown.close()
    await watcher.task
    os.close(taken)
    os.close(sink)
    assert not list(path.parent.iterdir())


async def test_a_session_without_a_place_for_the_socket_goes_on(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("not a folder")
    shown = LiveSocket(tmp_path / "run" / "x.sock", SESSION)
    shown.start()
    shown.send(Notice("hello"))
    shown.close()


def test_after_the_end_of_its_event_loop_nothing_is_left_open(path: Path) -> None:
    live = LiveSocket(path, "s")

    async def serve() -> None:
        live.start()
        await asyncio.sleep(0)

    asyncio.run(serve())
    live.close()
    live.close()  # once more is harmless
    assert not path.exists()
    gc.collect()  # a socket that is still open would warn, and so fail the test
