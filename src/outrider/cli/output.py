"""What `outrider -p` writes to standard output: the answer, the result as JSON, or each event; and nothing else."""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stdout, suppress
from typing import Any, TextIO

import msgspec

from outrider.cli.plain import plain_lines
from outrider.cli.prompt_options import Format
from outrider.cli.screen import Screen
from outrider.conversation.messages import Usage
from outrider.descriptors import fill_closed_streams
from outrider.runtime.events import Event, MessageAdded, RunStatus, TextDelta
from outrider.text import clean, clean_value

_USUAL_STOPS = ("end", "tool_use")
_COUNTS = [name for name in Usage.__struct_fields__ if name != "cost"]


class Outcome(msgspec.Struct, frozen=True):
    """How it ended, whatever happened."""

    status: RunStatus
    text: str = ""
    """The answer; the JSON of the data where a schema was given."""
    structured_output: Any = None
    session: str | None = None
    """None if it ended before there was one."""
    turns: int = 0
    usage: Usage = Usage()
    error: str = ""
    stop_reason: str = "end"
    has_schema: bool = False
    has_data: bool = False
    wrong_usage: bool = False

    def fields(self) -> dict[str, Any]:
        """The result object."""
        counts = {name: getattr(self.usage, name) for name in _COUNTS}
        result: dict[str, Any] = {"status": self.status, "text": self.text, "structured_output": self.structured_output}
        result |= {"session": self.session, "turns": self.turns, "usage": counts, "cost": self.usage.cost}
        if self.error:
            result["error"] = self.error
        if self.stop_reason not in _USUAL_STOPS:
            result["stop_reason"] = self.stop_reason
        return result

    @property
    def exit_code(self) -> int:
        """What the program ends with; an interrupt has its own."""
        if self.wrong_usage:
            return 2
        return {"done": 0, "error": 1, "cancelled": 130}.get(self.status, 3)


class StandardOutput:
    """Standard output, set aside for the result: what else is printed in this process, or below it, goes to stderr."""

    def __init__(self) -> None:
        fill_closed_streams()
        if sys.stderr is None:
            sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - it is there until the end
        if sys.stdout is None:  # closed: nobody is there to read
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        self.is_terminal = sys.stdout.isatty()
        self.is_read = True
        """Whether somebody is there to read, as far as is known."""
        self.failure: OSError | None = None
        """Why nothing more can be written, if that is so and somebody should know."""
        self._stream: TextIO = sys.stdout
        self._own = -1
        """Where the result goes, if standard output is the system's own."""
        self._redirected = redirect_stdout(sys.stderr)

    def __enter__(self) -> StandardOutput:
        self._stream.flush()
        if _descriptor(self._stream) == 1:
            self._own = os.dup(1)
            os.dup2(2, 1)
        self._redirected.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._redirected.__exit__(None, None, None)
        if self._own >= 0:
            os.dup2(self._own, 1)
            os.close(self._own)

    @property
    def is_open(self) -> bool:
        """Whether more can be written."""
        return self.is_read and self.failure is None

    def write_text(self, text: str) -> None:
        """Text in the encoding of the terminal, which may not have every character."""
        self.write(text.encode(self._stream.encoding or "utf-8", "replace"))

    def write(self, data: bytes) -> None:
        """All of it, now. A reader who went away, or a full disk, is noted and raises nothing."""
        if not self.is_open:
            return
        try:
            if self._own >= 0:
                _write_all(self._own, data)
            else:
                self._stream.write(data.decode(self._stream.encoding or "utf-8", "replace"))
                self._stream.flush()
        except BrokenPipeError:
            self.is_read = False
        except OSError as error:
            self.failure = error


class Output:
    """A format: what it shows of the events, and how it ends. `watched` shows on stderr what happens on the way."""

    def __init__(self, stdout: StandardOutput, *, watched: bool) -> None:
        self.stdout = stdout
        self.watched = watched
        self._screen = Screen(sys.stderr) if watched else None

    def event(self, event: Event) -> None:
        """One event."""
        if self._screen and not isinstance(event, TextDelta | MessageAdded):
            with suppress(OSError):
                self._screen.show(event)

    def result(self, outcome: Outcome) -> None:
        """The end."""
        raise NotImplementedError


class TextOutput(Output):
    """The last words of the model, or the data as JSON in one line."""

    def result(self, outcome: Outcome) -> None:
        """The text, if there is one. Words where data was wanted are not the answer: they go to stderr."""
        if not outcome.text or outcome.status == "cancelled":
            return
        if outcome.has_schema and not outcome.has_data:
            say(plain_lines(outcome.text))
            return
        text = clean(plain_lines(outcome.text) if self.stdout.is_terminal else outcome.text)
        if outcome.has_data:  # JSON is always UTF-8
            self.stdout.write(f"{text}\n".encode())
        else:
            self.stdout.write_text(f"{text}\n")


class JsonOutput(Output):
    """One object."""

    def result(self, outcome: Outcome) -> None:
        """The object, in one line."""
        self.stdout.write(encoded(outcome.fields()) + b"\n")


class StreamOutput(Output):
    """An object a line: each event, then the result."""

    def event(self, event: Event) -> None:
        """The event as a line."""
        super().event(event)
        self.stdout.write(encoded(event) + b"\n")

    def result(self, outcome: Outcome) -> None:
        """The last line."""
        self.stdout.write(encoded({"type": "result", **outcome.fields()}) + b"\n")


def output_for(wanted: Format, stdout: StandardOutput, *, quiet: bool = False) -> Output:
    """The output in a format. Text is accompanied on stderr; JSON only where a person sees it, events never."""
    if wanted == "stream-json":
        return StreamOutput(stdout, watched=False)
    if wanted == "json":
        return JsonOutput(stdout, watched=not quiet and sys.stderr.isatty())
    return TextOutput(stdout, watched=not quiet)


def say(text: str) -> None:
    """A line on standard error, if somebody reads it."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def encoded(value: Any) -> bytes:
    """JSON of an event or an object, whatever a tool has put into it."""
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass
    try:  # the standard library has large numbers and odd keys
        plain = clean_value(msgspec.to_builtins(value, enc_hook=str))
        return json.dumps(plain, default=str, skipkeys=True, separators=(",", ":")).encode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return msgspec.json.encode({"type": "notice", "text": f"an event cannot be shown as JSON: {error}"})


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # whoever shares the pipe has made it so
            from select import select

            select([], [descriptor], [])


def _descriptor(stream: TextIO) -> int:
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return -1
