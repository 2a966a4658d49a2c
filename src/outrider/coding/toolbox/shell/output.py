"""The output of a command, and following it to its end: read the output, enforce the timeout, stop it on request.

The beginning and the end of the output are in memory, the whole is in a file, up to a limit.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from outrider.conversation.attachments import MAX_BYTES
from outrider.processes.processes import Process, end
from outrider.text.terminal import LiveText, rendered

RING = 1024 * 1024
"""Bytes of the newest output in memory, and the most that is read at once."""
HEAD, TAIL = 22_500, 7_500
"""Characters of the beginning and the end for the model; the beginning usually says more."""
NEW_TEXT_BYTES = 64 * 1024
"""Bytes that observers are shown at once."""

_WIDEST = 4  # bytes of a character


class Output:
    """The output of one command. It is read straight into a ring buffer, without copying."""

    def __init__(self, spool: Path) -> None:
        self.total = 0
        """Bytes so far."""
        self.stored = 0
        """Bytes in the file, which is created when the result cannot hold the output."""
        self.spool = spool
        self.error = ""
        """Why the file could not be written; "" if it could."""
        self._ring = memoryview(bytearray(RING))
        self._head = b""
        self._shown = 0
        self._live = LiveText()
        self._file: FileIO | None = None
        self._storing = True

    def read_from(self, handle: int) -> int:
        """Read once. Return the number of bytes, 0 at the end. Raises BlockingIOError if there is nothing to read."""
        place = self.total % RING
        if not place and self.total == RING:
            self._head = bytes(self._ring[: HEAD * _WIDEST])  # about to be overwritten
        count = os.readv(handle, [self._ring[place:]])
        self.total += count
        if self._storing and self.total > HEAD + TAIL:
            self._store()
        return count

    def new_text(self) -> str:
        """Return the output since the last call as `LiveText` shows it; only its end if there is much."""
        start = max(self._shown, self.total - NEW_TEXT_BYTES)
        skipped = start - self._shown
        data = self._since(start)
        if skipped:
            data = _align(data)
        start = self.total - len(data)
        text, used = codecs.utf_8_decode(data, "replace", False)
        self._shown = start + used
        if skipped:
            self._live = LiveText()
            return f"\n[{skipped:,} bytes are not shown here]\n{self._live.add(text)}"
        return self._live.add(text)

    def text(self) -> tuple[str, bool]:
        """Return the text for the model, and whether it is complete."""
        if self.total <= RING:  # a progress bar prints much and shows little
            whole = _rendered(_decode(self._since(0)))
            if len(whole) <= HEAD + TAIL:
                return whole, True
        start = self._head or bytes(self._ring[: min(self.total, HEAD * _WIDEST)])
        head = codecs.utf_8_decode(start, "surrogateescape", False)[0][:HEAD]
        tail = _decode(_align(self._since(max(0, self.total - TAIL * _WIDEST))))[-TAIL:]
        left_out = self.total - _size(head) - _size(tail)
        note = f"[{left_out:,} of {self.total:,} bytes left out here.]"
        return f"{_rendered(head)}\n{note}\n{_rendered(tail)}", False

    def so_far(self) -> Iterator[bytes]:
        """Yield all output in order; if not all of it is stored, the newest part."""
        if self.total <= RING:
            yield self._since(0)
        elif self.stored == self.total:
            with self.spool.open("rb") as file:
                while data := file.read(RING):
                    yield data
        else:
            yield f"[{self.total - RING:,} bytes of older output are dropped.]\n".encode()
            yield _align(self._since(self.total - RING))

    def close(self) -> None:
        """Close the file. It is not deleted."""
        self._storing = False
        if self._file:
            self._file.close()

    def _since(self, start: int) -> bytes:
        """Return the bytes from an offset on, which must still be in the ring."""
        begin, end = start % RING, self.total % RING
        if start == self.total:
            return b""
        return bytes(self._ring[begin:end]) if begin < end else bytes(self._ring[begin:]) + bytes(self._ring[:end])

    def _store(self) -> None:
        try:
            if self._file is None:
                handle = os.open(self.spool, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                self._file = FileIO(handle, "w")
            while self.stored < min(self.total, MAX_BYTES):
                begin = self.stored % RING
                size = min(self.total, MAX_BYTES) - self.stored
                self.stored += self._file.write(self._ring[begin : begin + size])
        except OSError as failure:
            self.error = failure.strerror or "it could not be written"
        self._storing = not self.error and self.stored < MAX_BYTES


def _rendered(text: str) -> str:
    return rendered(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def _decode(data: bytes) -> str:
    # Each invalid byte becomes one surrogate, so that bytes can be counted in the text.
    return data.decode("utf-8", "surrogateescape")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _align(data: bytes) -> bytes:
    """Drop the bytes before the first whole character; a cut leaves at most three."""
    for start in range(min(_WIDEST, len(data))):
        if data[start] & 0xC0 != 0x80:
            return data[start:]
    return data


Cause: TypeAlias = Literal["ended", "timed out", "stopped", "moved"]
"""Why the call does not wait any longer; `moved`: to the background, where the command goes on."""

PIPE = 1024 * 1024
"""The size of the pipe in bytes; the system may allow less."""
SHOW_EVERY = 0.1
"""Seconds between two times that the thread wakes the event loop with new output. The first output is shown at once."""
POLL_EVERY = 0.05
"""Seconds within which a stop is noticed."""
DRAIN_SECONDS = 0.25
"""Seconds that other processes have to finish after the shell has ended, such as `>(tee log)`."""
FLOOD, LITTLE, NAP = 4 * 1024 * 1024, 256 * 1024, 0.0003
"""After FLOOD bytes, sleep NAP seconds after each read of less than LITTLE: a few large reads are cheaper."""


class Outcome(NamedTuple):
    """How a command ended."""

    cause: Cause
    exit_code: int | None
    """The shell's exit code; negative for the signal that killed it; None if it could not be killed."""
    seconds: float
    left_running: int
    """Number of processes that still ran after the shell and were ended."""
    unkillable: int
    """Number of processes that could not be ended."""


class Follower:
    """Follows one command in a thread. The command ends even if the caller is gone."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.stopped = False
        """Whether the command should end."""
        self._moved = False

    def stop(self) -> None:
        """Stop the command. Thread-safe; may be called at any time."""
        self.stopped = True

    def move(self) -> None:
        """Leave the command running, for another to follow. Thread-safe; once it has ended, nothing is moved."""
        self._moved = True

    def follow(self, process: Process, reader: Reader) -> Outcome:
        """Read the output until the shell has ended or must end; then end the remaining processes."""
        began = time.monotonic()
        left_running = unkillable = 0
        cause: Cause = "stopped"
        try:
            cause = self._wait(process, reader, began + self._seconds)
        finally:
            if cause != "moved":
                left_running, unkillable = end([process], reader.read)
        if cause == "moved":
            return Outcome(cause, None, time.monotonic() - began, 0, 0)
        reader.finish()
        exit_code = process.reap() if not unkillable or process.ended() else None
        return Outcome(cause, exit_code, time.monotonic() - began, left_running if cause == "ended" else 0, unkillable)

    def _wait(self, process: Process, reader: Reader, deadline: float) -> Cause:
        while not process.ended():
            remaining = deadline - time.monotonic()
            if self.stopped or remaining <= 0:
                return "stopped" if self.stopped else "timed out"
            if self._moved:
                return "moved"
            reader.read(min(remaining, POLL_EVERY), process.exit_handle)
        self._drain(process, reader)
        return "ended"

    def _drain(self, process: Process, reader: Reader) -> None:
        until, moment = time.monotonic() + DRAIN_SECONDS, 0.005
        while process.running() and (remaining := until - time.monotonic()) > 0 and not self.stopped:
            reader.read(min(moment, remaining))
            moment *= 2


class Reader:
    """Reads the pipe of a command and reports new output at intervals."""

    def __init__(self, source: int, output: Output, progress: Callable[[object], None]) -> None:
        self.open = True
        """Whether any process can still write to the pipe."""
        self._source = source
        self._output = output
        self._progress = progress
        self._shown_at = 0.0

    def read(self, seconds: float, or_readable: int | None = None) -> None:
        """Read for up to `seconds`: to the end of the output, or until the other handle is readable."""
        import select

        until = time.monotonic() + seconds
        poll = select.poll()
        for handle in (self._source if self.open else None, or_readable):
            if handle is not None:
                poll.register(handle, select.POLLIN)
        while (remaining := until - time.monotonic()) > 0:
            ready = dict(poll.poll(remaining * 1000))
            if self._source in ready:
                self._read_available(until)
            if time.monotonic() - self._shown_at >= SHOW_EVERY:
                self._show_new()
            if or_readable in ready or (self._source in ready and not self.open):
                return

    def finish(self) -> None:
        """Read and show the rest of the pipe."""
        if self.open:
            self._read_available(time.monotonic() + DRAIN_SECONDS)
        self._show_new()
        self._output.close()

    def _read_available(self, until: float) -> None:
        """Read what is available, and what arrives meanwhile."""
        output = self._output
        with contextlib.suppress(BlockingIOError):
            while count := output.read_from(self._source):
                if time.monotonic() > until:
                    return
                if count < LITTLE and output.total > FLOOD:
                    time.sleep(NAP)
            self.open = False

    def _show_new(self) -> None:
        if new := self._output.new_text():
            self._shown_at = time.monotonic()
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self._progress({"output": new})


def make_pipe() -> tuple[int, int]:
    """Return a pipe as large as the system allows. Reading from it does not block."""
    import fcntl

    source, sink = os.pipe()
    os.set_blocking(source, False)
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, PIPE)
    return source, sink
