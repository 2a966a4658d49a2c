"""Bad links: hands that are killed at any moment, large files, floods, a pipe that trickles."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from outrider.coding.hands.starter import ProgramStreams, Streams
from outrider.conversation.store import FolderStore
from outrider.testing import tool_context
from outrider.tools.result import ToolResult
from tests.coding.hands.elsewhere import PipeStarter, PipeStreams, hands_of, process_starter, streams
from tests.lengths import only_long


class Killable:
    """Starts hands, and knows their process."""

    def __init__(self, folder: Path) -> None:
        self._inner = process_starter(folder)

        self.starts = 0

    def describe(self) -> str:
        return self._inner.describe()

    async def start(self) -> Streams:
        self.starts += 1
        streams = await self._inner.start()
        assert isinstance(streams, ProgramStreams)
        self.process = streams.process.pid
        return streams


class Place:
    """Tools whose calls run elsewhere, each allowed."""

    def __init__(self, starter: PipeStarter | object) -> None:
        from outrider.coding.toolbox import standard_tools

        self.hands = hands_of(starter)  # type: ignore[arg-type]
        self._tools = {each.name: each for each in standard_tools(self.hands.workspace)}
        self.progress: list[object] = []

    async def call(self, tool: str, **arguments: object) -> ToolResult:
        return await self._tools[tool].invoke(arguments, tool_context(on_progress=self.progress.append))

    @property
    def process(self) -> int:
        link = self.hands.connection._link
        assert link
        assert isinstance(link._streams, ProgramStreams)
        return link._streams.process.pid

    async def close(self) -> None:
        await asyncio.to_thread(self.hands.close)


@pytest.mark.parametrize("kills", [8, *only_long(200)])
@pytest.mark.timeout(900)
async def test_hands_that_are_killed_at_any_moment_do_nothing_twice_and_lose_nothing(
    tmp_path: Path, kills: int
) -> None:
    starter, written = Killable(tmp_path), tmp_path / "lines"
    place = Place(starter)
    dice = random.Random(41)
    await asyncio.to_thread(place.hands.open)
    took = 0.05
    sure: list[str] = []
    unknown: list[str] = []
    for number in range(kills):
        line = f"line-{number}"
        working = asyncio.ensure_future(place.call("Bash", command=f"echo {line} >> lines; sleep 0.02", access="write"))
        await asyncio.sleep(dice.uniform(0, 2.5 * took))
        with suppress(ProcessLookupError):  # the last ones are gone, and the next have not been started yet
            os.kill(starter.process, signal.SIGKILL)  # also while they start again
        result = await working
        (unknown if result.is_unknown else sure).append(line)
        assert result.is_unknown == result.is_error, result.text
        read = await place.call("Read", file_path="lines") if written.exists() else ToolResult("")
        assert not read.is_error, read.text
    lines = written.read_text().split()
    assert len(lines) == len(set(lines)), "nothing twice"
    assert set(sure) <= set(lines), "nothing that was said to be done is lost"
    assert set(lines) <= {*sure, *unknown}
    await place.close()


async def test_a_read_that_was_interrupted_is_repeated(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "slow")
    place = Place(process_starter(tmp_path))
    await asyncio.to_thread(place.hands.open)
    before = place.process
    (tmp_path / "big.txt").write_bytes(b"needle\n" * 200_000)
    reading = asyncio.ensure_future(place.call("Grep", pattern="needle", output_mode="count"))
    await asyncio.sleep(0)
    os.kill(before, signal.SIGKILL)
    result = await reading
    assert not result.is_error, result.text
    assert "200,000" in result.text
    assert place.process != before
    await place.close()


async def test_a_read_that_waits_when_the_hands_are_closed_does_not_start_them_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    starter = Killable(tmp_path)
    place = Place(starter)
    assert "hello" in (await place.call("Read", file_path="a.txt")).text
    os.kill(starter.process, signal.SIGSTOP)
    reading = asyncio.ensure_future(place.call("Read", file_path="a.txt"))
    link = place.hands.connection._link
    assert link
    while not link._waiting:
        await asyncio.sleep(0.01)
    await place.close()
    assert (await reading).is_error
    assert starter.starts == 1
    with pytest.raises(ProcessLookupError):
        os.kill(starter.process, 0)


async def test_a_large_file_is_not_in_memory_here_and_not_twice_there(tmp_path: Path) -> None:
    from PIL import Image

    picture = Image.frombytes("RGB", (2560, 2560), os.urandom(2560 * 2560 * 3))
    for name in ("big.png", "big.bmp"):
        picture.save(tmp_path / name, compress_level=0)
    (tmp_path / "big.txt").write_bytes(b"a line of the text\n" * 1_000_000)
    place = Place(process_starter(tmp_path))
    await place.call("Glob", pattern="*")
    idle = _peak(place.process)
    tracemalloc.start()
    for name in ("big.png", "big.bmp"):
        (file,) = (await place.call("Read", file_path=name)).attachments
        stored = FolderStore(tmp_path / "store").put(file)
        assert stored.size == (tmp_path / name).stat().st_size > 19_000_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 7_000_000, "never whole, here"
    assert "of 1,000,000" in (await place.call("Read", file_path="big.txt", limit=2)).text
    assert _peak(place.process) - idle < 29_000_000, "not twice, there"
    await place.close()


def _peak(process: int) -> int:
    """The most memory that a process has had, in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


async def test_a_flood_of_output_is_bounded(tmp_path: Path) -> None:
    place = Place(PipeStarter(tmp_path))
    result = await place.call("Bash", command="yes outrider | head -c 60000000")
    assert not result.is_error
    assert result.whole
    assert len(result.text) < 100_000
    assert len(str(place.progress)) < 4_000_000
    await place.close()


class Trickle(PipeStarter):
    """A link that lets few bytes through at a time."""

    async def start(self) -> Streams:
        inner = await super().start()
        (source, our_out), (our_in, sink) = os.pipe(), os.pipe()
        reader, writer = await streams(our_in, our_out)
        slow_in, slow_out = await streams(source, sink)
        self._copies = [
            asyncio.ensure_future(_trickle(slow_in, inner.writer)),
            asyncio.ensure_future(_trickle(inner.reader, slow_out)),
        ]

        async def end() -> None:
            for copy in self._copies:
                copy.cancel()
            slow_in._transport.close()  # type: ignore[attr-defined]
            slow_out.close()
            await inner.close()

        outer = PipeStreams(reader, writer, threading.Thread())
        outer._server.join = lambda timeout=None: None  # type: ignore[method-assign]
        close = outer.close

        async def both() -> None:
            await end()
            await close()

        outer.close = both  # type: ignore[method-assign]
        return outer


async def _trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(97):
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(0.001)
    writer.close()


async def test_a_slow_link_only_takes_longer(tmp_path: Path) -> None:
    place = Place(Trickle(tmp_path))
    text = "".join(f"line {number}\n" for number in range(500))
    assert not (await place.call("Write", file_path="a.txt", content=text)).is_error
    assert (tmp_path / "a.txt").read_text() == text
    assert "line 499" in (await place.call("Read", file_path="a.txt")).text
    assert (await place.call("Bash", command="wc -l < a.txt")).text.strip() == "500"
    await place.close()
