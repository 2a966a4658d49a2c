"""Output of `outrider -p`. Standard output carries the answer, the result as JSON, or the events, and nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, redirect_stdout, suppress
from typing import Any, TextIO

import msgspec

from outrider.cli.event_printer import EventPrinter
from outrider.cli.sources import source_lines
from outrider.conversation.messages import Citation
from outrider.conversation.usage import Usage
from outrider.descriptors import fill_closed_streams, reserved_output
from outrider.log.questions import PermissionQuestion, Question
from outrider.runtime.events import Event, MessageAdded, RunStatus, TextDelta, encode_json
from outrider.text import clean
from outrider.text.visible import revealed_line, safe_lines

_NORMAL_STOPS = ("end", "tool_use")
_INCOMPLETE = {"refusal": 4, "content_filter": 4, "max_tokens": 5, "context_exceeded": 5}
"""The exit codes of answers that are refusals, or were cut off."""
_COUNTS = [name for name in Usage.__struct_fields__ if name not in ("cost", "context_tokens")]


class PromptOutcome(msgspec.Struct, frozen=True):
    """The outcome of a run, successful or not."""

    status: RunStatus
    text: str = ""
    """The answer; with a schema, the data as JSON."""
    structured_output: Any = None
    session: str | None = None
    """None if the run ended before a session was opened."""
    turns: int = 0
    usage: Usage = Usage()
    error: str = ""
    stop_reason: str = "end"
    citations: Sequence[Citation] = ()
    """The sources of the answer."""
    questions: Sequence[Question] = ()
    """What the session waits for."""
    has_schema: bool = False
    has_data: bool = False
    wrong_usage: bool = False

    def fields(self) -> dict[str, Any]:
        counts = {name: getattr(self.usage, name) for name in (*_COUNTS, "cached_share")}
        result: dict[str, Any] = {"status": self.status, "text": self.text, "structured_output": self.structured_output}
        result |= {"session": self.session, "turns": self.turns, "usage": counts, "cost": self.usage.cost}
        if self.citations:
            result["citations"] = self.citations
        if self.questions:
            result["questions"] = [{"id": each.id, "text": each.text} for each in self.questions]
        if self.error:
            result["error"] = self.error
        if self.stop_reason not in _NORMAL_STOPS:
            result["stop_reason"] = self.stop_reason
        return result

    @property
    def exit_code(self) -> int:
        """Return the exit code of the program; signals have codes of their own."""
        if self.wrong_usage:
            return 2
        if self.status == "done" and not self.has_data and self.stop_reason in _INCOMPLETE:
            return _INCOMPLETE[self.stop_reason]
        return {"done": 0, "error": 1, "waiting": 6, "cancelled": 130}.get(self.status, 3)


class StandardOutput:
    """Standard output, reserved for the result: other prints of this process and its children go to stderr."""

    def __init__(self) -> None:
        fill_closed_streams()
        self.is_terminal = sys.stdout.isatty()
        self.has_reader = True
        """False once a write has failed because the reader closed the pipe."""
        self.failure: OSError | None = None
        """Why writing failed, such as a full disk."""
        self._stream: TextIO = sys.stdout
        self._descriptor_copy = -1
        """A copy of descriptor 1 for the result, if sys.stdout is the real standard output; else -1."""
        self._reserved = ExitStack()

    def __enter__(self) -> StandardOutput:
        if _descriptor(self._stream) == 1:
            self._descriptor_copy = self._reserved.enter_context(reserved_output())
        else:
            self._reserved.enter_context(redirect_stdout(sys.stderr))
        return self

    def __exit__(self, *_: object) -> None:
        self._reserved.close()

    @property
    def is_open(self) -> bool:
        return self.has_reader and self.failure is None

    def write_text(self, text: str) -> None:
        """Write text in the encoding of the terminal; replace characters that it lacks."""
        self.write(text.encode(self._stream.encoding or "utf-8", "replace"))

    def write(self, data: bytes) -> None:
        """Write all bytes now. A closed pipe sets `has_reader`, another failure sets `failure`; neither raises."""
        if not self.is_open:
            return
        try:
            if self._descriptor_copy >= 0:
                _write_all(self._descriptor_copy, data)
            else:
                self._stream.write(data.decode(self._stream.encoding or "utf-8", "replace"))
                self._stream.flush()
        except BrokenPipeError:
            self.has_reader = False
        except OSError as error:
            self.failure = error


class PromptOutput:
    """An output format. With `show_progress`, events are shown on stderr while the run goes on."""

    def __init__(self, stdout: StandardOutput, *, show_progress: bool) -> None:
        self.stdout = stdout
        self.show_progress = show_progress
        self._printer = EventPrinter(sys.stderr) if show_progress else None

    def write_session(self, session: str) -> None:
        """Write the id of the session, before its first event."""

    def write_event(self, event: Event) -> None:
        if self._printer and not isinstance(event, TextDelta | MessageAdded):
            with suppress(OSError):
                self._printer.show(event)

    def write_result(self, outcome: PromptOutcome) -> None:
        raise NotImplementedError


class TextOutput(PromptOutput):
    """The last text of the model, or the data as JSON in one line."""

    def write_result(self, outcome: PromptOutcome) -> None:
        """Write the text, if any. Text in place of data required by a schema is not the answer: it goes to stderr."""
        if not outcome.text or outcome.status == "cancelled":
            return
        if outcome.has_schema and not outcome.has_data:
            print_stderr(safe_lines(outcome.text))
            return
        text = clean(safe_lines(outcome.text) if self.stdout.is_terminal else outcome.text)
        if outcome.has_data:  # JSON is always UTF-8
            self.stdout.write(f"{text}\n".encode())
        else:
            sources = "".join(f"{line}\n" for line in source_lines(outcome.citations))
            self.stdout.write_text(clean(f"{text}\n\n{sources}" if sources else f"{text}\n"))


class JsonOutput(PromptOutput):
    """One JSON object."""

    def write_result(self, outcome: PromptOutcome) -> None:
        self.stdout.write(encode_json(outcome.fields()) + b"\n")


class StreamOutput(PromptOutput):
    """One JSON object per line: the id of the session, each event, then the result."""

    def write_session(self, session: str) -> None:
        self.stdout.write(encode_json({"type": "session", "session": session}) + b"\n")

    def write_event(self, event: Event) -> None:
        super().write_event(event)
        self.stdout.write(encode_json(event) + b"\n")

    def write_result(self, outcome: PromptOutcome) -> None:
        self.stdout.write(encode_json({"type": "result", **outcome.fields()}) + b"\n")


def output_for(wanted: str, stdout: StandardOutput, *, quiet: bool = False) -> PromptOutput:
    """Return the output for a format. Text shows progress on stderr, JSON only if that is a terminal, events never."""
    if wanted == "stream-json":
        return StreamOutput(stdout, show_progress=False)
    if wanted == "json":
        return JsonOutput(stdout, show_progress=not quiet and sys.stderr.isatty())
    return TextOutput(stdout, show_progress=not quiet)


def question_text(question: Question) -> str:
    """Return a question in one line, with the call that it is about."""
    title = question.body.title if isinstance(question.body, PermissionQuestion) else ""
    return revealed_line(" — ".join(filter(None, (title, question.text if question.text != title else ""))))


def question_lines(questions: Sequence[Question]) -> Iterator[str]:
    """Yield what a session waits for, and how to answer."""
    for each in questions:
        yield f"outrider: waiting for an answer: {question_text(each)}"
        yield f"  outrider sessions answer {each.id[:8]} yes      (or: no --words WHY)"


def print_stderr(text: str) -> None:
    """Print a line on standard error; ignore a closed pipe."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # another process has made the shared pipe non-blocking
            from select import select

            select([], [descriptor], [])


def _descriptor(stream: TextIO) -> int:
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return -1
