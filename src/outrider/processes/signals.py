"""The signals that ask this process to end, the same for all front ends: Ctrl-C, a request to end, a hang-up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SENTENCES = {"SIGINT": "Interrupted.", "SIGTERM": "Terminated.", "SIGHUP": "Hung up."}
ENDING = tuple(signal.Signals[name] for name in SENTENCES if hasattr(signal, name))


def exit_code(number: signal.Signals | None) -> int:
    """Return the code that shells use: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP."""
    return 128 + (number or signal.SIGINT)


def sentence(number: signal.Signals | None) -> str:
    """Return what the user reads at the end."""
    return SENTENCES[(number or signal.SIGINT).name]


def is_free(number: signal.Signals) -> bool:
    """Return whether nothing but the program itself handles a signal. One that is ignored, as with nohup, is not."""
    handler = signal.getsignal(number)
    is_programs = isinstance(getattr(handler, "__self__", None), EndingSignals)
    return is_programs or handler == (signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


class EndingSignals:
    """A context manager around a program, in which all ending signals do what Ctrl-C does.

    After the block, while finalizers run, the first signal does nothing. The second ends the process at once.
    """

    def __init__(self) -> None:
        self.caught: signal.Signals | None = None
        """The last signal received other than SIGINT."""

    def __enter__(self) -> EndingSignals:
        for number in ENDING:
            if number != signal.SIGINT and is_free(number):
                signal.signal(number, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        for number in ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, _let_it_end)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.caught = signal.Signals(number)
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):
            raise KeyboardInterrupt
        handler(number, frame)


def _let_it_end(number: int, frame: FrameType | None) -> None:
    for each in ENDING:
        if signal.getsignal(each) is _let_it_end:
            signal.signal(each, signal.SIG_DFL)


def suspend() -> None:
    """Stop the process group until it is continued, as Ctrl-Z does. Without a shell around it, nothing happens."""
    import os

    from outrider.processes.starting import STARTING

    if hasattr(signal, "SIGTSTP"):
        with STARTING:
            os.kill(0, signal.SIGTSTP)


@contextmanager
def on_signals(
    caught: Callable[[signal.Signals], object], numbers: Iterable[signal.Signals] = ENDING
) -> Iterator[None]:
    """Call a function in the running event loop for each signal in the block.

    Signals that are ignored stay ignored. Outside of the main thread, nothing is handled.
    """
    import asyncio  # the program needs the rest before it needs a loop

    loop = asyncio.get_running_loop()
    previous: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in numbers}
        previous = {number: each for number, each in handlers.items() if each not in (signal.SIG_IGN, None)}
    for number in previous:
        loop.add_signal_handler(number, caught, number)
    try:
        yield
    finally:
        for number, handler in previous.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
