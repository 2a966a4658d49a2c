"""Draws a session in the terminal: finished lines above, streaming text and running calls below."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from outrider.cli.chat.markdown import MarkdownStream, rendered
from outrider.cli.chat.subagent_transcript import SubagentTranscript
from outrider.cli.chat.terminal_codes import LARGEST, Protocol, image_sequence
from outrider.cli.chat.tool_call_lines import IncomingCall, RunningCall, caption, finished_call_lines, spinner
from outrider.cli.live_region import LiveRegion
from outrider.cli.sources import linked_source_lines, source_lines
from outrider.cli.styles import BOLD, CYAN, DIM, ITALIC, RED, YELLOW, fit, hanging, styled, wrap_words
from outrider.coding import sentences
from outrider.coding.toolbox.titles import title
from outrider.conversation.messages import AttachmentBlock, Message, TextBlock, ToolResultBlock
from outrider.conversation.store import AttachmentStore
from outrider.errors import AttachmentError, MissingKeyError
from outrider.runtime import events
from outrider.text import counted
from outrider.text.visible import safe_line, safe_lines

FRAME_SECONDS = 0.08
SILENCE_SECONDS = 2.0
"""Seconds without an event after which the waiting time is shown."""


class Look(NamedTuple):
    """How a view looks, by the settings and the terminal."""

    show_thinking: bool = False
    """Whether the whole reasoning is shown, not only a line about it."""
    pictures: Protocol = ""
    """How the terminal draws pictures; empty if it cannot."""
    links: bool = False
    """Whether the terminal has links."""
    light: bool = False
    """Whether its background is light."""


class Footer(NamedTuple):
    """What stands below everything else while the session works."""

    status: Callable[[int], str] = lambda width: ""
    """Returns the status line for so many columns."""
    typed: Callable[[], str] = str
    """Returns what the user types meanwhile."""
    queued: Callable[[int], Iterable[str]] = lambda width: ()
    """Returns the lines of the messages that wait to be delivered."""


class SessionView:
    """Draws one session. Events change the state; a timer redraws it."""

    def __init__(self, region: LiveRegion, folder: Path, look: Look = Look()) -> None:  # noqa: B008 - it is frozen
        self.region = region
        self.footer = Footer()
        self.store: AttachmentStore | None = None
        """Where attached images are read from."""
        self.thoughts = ""
        """The last reasoning of the model."""
        self._folder = folder
        self._look = look
        self._markdown = MarkdownStream()
        self._thinking = Thinking()
        self._incoming: dict[str, IncomingCall] = {}
        """Calls whose arguments are still streaming."""
        self._titles: dict[str, str] = {}
        """Titles of the calls without a result yet, in order."""
        self._calls: dict[str, RunningCall] = {}
        self._panel: Sequence[str] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._last_event = 0.0
        """When the last event arrived."""
        self._ends_with_calls = False
        """Whether the last permanent lines are those of calls."""
        self._wrote_reply = False
        """Whether a part of the current reply is among the permanent lines."""
        self._retry: tuple[events.Retrying, float] | None = None
        """The next attempt of a failed request, and when it starts."""
        self._background: dict[str, SubagentTranscript] = {}
        """The sub-agents that no call waits for, by their sessions."""
        self._watched = ""
        """The session of the sub-agent whose steps are shown."""
        self._doing = ""
        """What goes on beside replies and calls: a summary, or a check of the goal."""

    # Events

    def show(self, event: events.Event) -> None:
        self._last_event = time.monotonic()
        self._retry = (event, self._last_event + event.delay) if isinstance(event, events.Retrying) else None
        if not isinstance(event, events.Retrying | events.Notice):  # they come while the summary is requested, too
            self._doing = sentences.doing(event)
        match event:
            case events.TextDelta(text=text):
                self._fold_thinking()
                self._write_markdown(self._markdown.feed(text))
            case events.ThinkingDelta(text=text):
                self._thinking.add(text)
            case events.ToolCallDelta(call_id=call_id, name=name, arguments=arguments):
                self._incoming.setdefault(call_id, IncomingCall(name, self._folder)).add(arguments)
            case events.SubagentStarted() | events.SubagentEvent():
                self._show_subagent(event)
            case _:
                self._show_step(event)

    def _show_step(self, event: events.Event) -> None:
        match event:
            case events.MessageAdded(message=message):
                self._message_added(message)
            case events.ToolStarted(call_id=call_id, name=name, input=input):
                self._titles.setdefault(call_id, safe_line(title(name, input, self._folder)))
                self._calls[call_id] = RunningCall(self._titles[call_id])
            case events.ToolProgress(call_id=call_id, content=content) if call_id in self._calls:
                self._calls[call_id].show(content)
            case events.ToolFinished():
                self._call_finished(event)
            case events.ServerToolStarted(call_id=call_id, name=name, input=input):
                self._fold_thinking()
                self._write_markdown(self._markdown.end())
                self._titles[call_id] = safe_line(title(name, input, self._folder))
                self._calls[call_id] = RunningCall(self._titles[call_id])
            case events.ServerToolFinished(call_id=call_id, name=name, text=text, is_error=is_error):
                content = (TextBlock(text),) if text else ()
                self._wrote_reply = True
                self._call_finished(events.ToolFinished(call_id, name, ToolResultBlock(call_id, content, is_error)))
            case events.ReplyDiscarded():
                self._discard_reply()
            case events.Notice(text=text) | events.ModelSwitched(text=text) | events.HandedOff(text=text):
                self.note(text)
            case events.Compacted() | events.ResultsCleared() | events.GoalChecked() | events.SubagentFinished():
                self.remark(safe_line(sentences.remark(event)))

    def _show_subagent(self, event: events.SubagentStarted | events.SubagentEvent) -> None:
        if isinstance(event, events.SubagentStarted) and event.background:
            self._background[event.session] = SubagentTranscript(event, self._folder)
            return
        if found := self._background.get(event.session):
            assert isinstance(event, events.SubagentEvent)
            found.show(event.event)
            return
        if (call := self._calls.get(event.call_id)) is None:
            return
        if isinstance(event, events.SubagentStarted):
            call.subagents[event.session] = SubagentTranscript(event, self._folder)
        elif subagent := call.subagents.get(event.session):
            subagent.show(event.event)
            match event.event:
                case events.Notice(text=text) | events.ModelSwitched(text=text):
                    self.note(f"{subagent.name}: {text}")
                case events.Compacted():
                    self.remark(f"{subagent.name}: {sentences.shortened(event.event)}")

    def _message_added(self, message: Message) -> None:
        if message.role != "assistant":
            return
        self._fold_thinking()
        self._write_markdown(self._markdown.end())
        self._wrote_reply = False
        if sources := message.citations:
            lines = linked_source_lines(sources, self.region.width) if self._look.links else source_lines(sources)
            self.write([*(styled(line, DIM) for line in lines), ""])
        for block in message.content:
            if isinstance(block, AttachmentBlock):  # a picture that the model made
                self.write([*self._file(block), ""])
        self._incoming.clear()
        self._titles |= {call.id: safe_line(title(call.name, call.input, self._folder)) for call in message.tool_calls}

    def _call_finished(self, event: events.ToolFinished) -> None:
        self._calls.pop(event.call_id, None)
        self._ends_with_calls = True
        self.write(finished_call_lines(event, self._titles.pop(event.call_id, event.name), self.region.width))
        for file in event.result.attachments:
            self.write(self._file(file))

    def _file(self, file: AttachmentBlock) -> Iterator[str]:
        data = None
        if self.store and file.mime_type.startswith("image/") and file.size <= LARGEST:
            with suppress(AttachmentError):
                data = self.store.read(file)
        yield styled(f"    ▣ {fit(caption(file, data), self.region.width - 6)}", CYAN)
        if data and (drawn := image_sequence(data, file.mime_type, self._look.pictures)):
            yield drawn

    def _fold_thinking(self) -> None:
        """Fold the finished reasoning into one line."""
        if not self._thinking:
            return
        self.thoughts, seconds = self._thinking.take()
        words = counted(len(self.thoughts.split()), "word")
        if self._look.show_thinking:
            self.write(styled(line, DIM, ITALIC) for line in self.rendered(self.thoughts))
        self.write([styled(f"∴ Thought for {seconds:.0f} s, {words} (/thinking shows it)", DIM), ""])

    def _discard_reply(self) -> None:
        """Drop what is still live, and mark what cannot be taken back. The reason follows with another event."""
        self._markdown.end()
        self._thinking.take()
        self._incoming.clear()
        self._calls.clear()
        self._titles.clear()
        if self._wrote_reply:
            self._wrote_reply = False
            self.note("The reply above broke off and is discarded.")

    def _write_markdown(self, text: str) -> None:
        if lines := self.rendered(text):
            self.write(["", *lines, ""] if self._ends_with_calls else [*lines, ""])
            self._ends_with_calls = False
            self._wrote_reply = True

    def rendered(self, text: str, *, is_live: bool = False) -> list[str]:
        return rendered(text, self.region.width, light=self._look.light, is_live=is_live)

    # Permanent lines

    def write(self, lines: Sequence[str] | Iterator[str]) -> None:
        self.region.commit(list(lines), list(self._lines()) if self._timer else None)

    def note(self, text: str) -> None:
        self.write(styled(f"! {line}", YELLOW) for line in self._wrapped(text))

    def problem(self, error: str | Exception) -> None:
        """Write an error, and what helps in the chat."""
        self.write(styled(f"✗ {line}", RED) for line in self._wrapped(str(error)))
        if isinstance(error, MissingKeyError):
            self.dim("Here: /login enters a key, and /model demo needs none.")

    def dim(self, text: str) -> None:
        self.write(styled(line, DIM) for line in self._wrapped(text))

    def remark(self, text: str) -> None:
        """Write a dim remark between the lines of a turn."""
        line = fit(text if text[:1] in "✓✗" else f"∽ {text}", self.region.width)
        self.write([*([""] if self._ends_with_calls else []), styled(line, DIM), ""])
        self._ends_with_calls = False

    def _wrapped(self, text: str) -> Iterator[str]:
        for line in safe_lines(text).split("\n"):
            yield from wrap_words(line, self.region.width - 4)

    def message_lines(self, text: str) -> Iterator[str]:
        """Yield a message of the user, as it was typed."""
        for line in safe_lines(text).split("\n"):
            yield from hanging(styled("› ", BOLD, CYAN), line, self.region.width)

    def clear_screen(self) -> None:
        self.write(["\x1b[2J\x1b[H"])

    # Live lines

    def start(self) -> None:
        """Start drawing, below the user's message."""
        self.write([""])
        self._last_event = time.monotonic()
        self._tick()

    def stop(self) -> None:
        """Stop drawing. Text is kept; unfinished calls are dropped."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        self.region.clear()
        self._fold_thinking()
        self._write_markdown(self._markdown.end())
        self._wrote_reply, self._retry, self._doing, self._watched = False, None, "", ""
        self._calls.clear()
        self._incoming.clear()
        self._titles.clear()
        if self._ends_with_calls:
            self.write([""])
            self._ends_with_calls = False

    def ask(self, panel: Sequence[str]) -> None:
        """Show a question below everything else; an empty panel removes it."""
        self._panel = panel
        self.draw()

    def draw(self) -> None:
        """Redraw the live lines now."""
        self.region.draw(list(self._lines()))

    def _tick(self) -> None:
        self.draw()
        self._timer = asyncio.get_running_loop().call_later(FRAME_SECONDS, self._tick)

    def _waiting(self) -> Iterator[str]:
        """Yield a spinner while the model is silent, with the seconds to the next attempt after a failure."""
        seconds = time.monotonic() - self._last_event
        if self._timer and self._retry and (left := self._retry[1] - time.monotonic()) > 0:
            line = f"{spinner(seconds)} retrying in {left:.0f} s (Esc to interrupt): {safe_line(self._retry[0].reason)}"
            yield styled(fit(line, self.region.width), YELLOW)
            return
        if self._timer and self._doing:
            doing = fit(safe_line(self._doing), self.region.width - 25)
            yield styled(f"{spinner(seconds)} {doing} (Esc to interrupt)", DIM)
            return
        is_silent = not (self._markdown.open or self._thinking or self._incoming)
        if self._timer and (is_silent or seconds > SILENCE_SECONDS):
            long = f" · {seconds:.0f} s" if seconds > SILENCE_SECONDS else ""
            yield styled(f"{spinner(seconds)} waiting{long} (Esc to interrupt)", DIM)

    # Sub-agents

    def watch(self, by: int = 0) -> bool:
        """Show the steps of a running sub-agent: the newest, or another beside it. Return whether one runs."""
        running = [session for call in self._calls.values() for session in call.subagents]
        if running:
            at = running.index(self._watched) if self._watched in running else len(running) - 1
            self._watched = running[(at + by) % len(running)]
            self.draw()
        return bool(running)

    def watch_one(self, session: str) -> bool:
        """Show the steps of a sub-agent in the background. Return whether they are known."""
        self._watched = session if session in self._background else ""
        return bool(self._watched)

    def leave(self) -> bool:
        """Go back from the steps of a sub-agent. Return whether they were shown."""
        was_shown, self._watched = self._watched_transcript is not None, ""
        return was_shown

    @property
    def is_watching(self) -> bool:
        """Whether the steps of a sub-agent are shown."""
        return self._watched_transcript is not None

    @property
    def _watched_transcript(self) -> SubagentTranscript | None:
        """The sub-agent that is shown. A question comes before it."""
        found = (call.subagents[self._watched] for call in self._calls.values() if self._watched in call.subagents)
        shown = next(found, self._background.get(self._watched))
        return shown if isinstance(shown, SubagentTranscript) and not self._panel else None

    def _lines(self) -> Iterator[str]:
        width = self.region.width
        if watched := self._watched_transcript:
            yield from watched.lines(width, self.region.height - 4)
        else:
            yield from self._work_lines(width)
        yield ""
        yield from self.footer.queued(width)
        if typed := self.footer.typed():
            yield f"› {fit(safe_line(typed), width - 2)}"
        yield styled(self.footer.status(width), DIM)

    def _work_lines(self, width: int) -> Iterator[str]:
        if open_text := self.rendered(self._markdown.ending(self.region.height), is_live=True):
            yield from [""] if self._ends_with_calls else []
            yield from open_text
        if self._thinking:
            yield styled(f"∴ Thinking … {self._thinking.last_words(width - 13)}", DIM, ITALIC)
        yield from (call.line(width) for call in self._incoming.values())
        for call_id, waiting in self._titles.items():
            if call := self._calls.get(call_id):
                yield from call.lines(width)
            else:
                yield styled(f"· {fit(waiting, width - 2)}", DIM)
        if any(call.subagents for call in self._calls.values()) and not self._panel:
            yield styled(fit("    Ctrl-O shows the steps of a sub-agent", width), DIM)
        if not self._titles and not self._panel:
            yield from self._waiting()
        yield from self._panel


class Thinking:
    """Collects the reasoning of one reply."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._since = 0.0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, text: str) -> None:
        self._since = self._since or time.monotonic()
        self._parts.append(text)

    def take(self) -> tuple[str, float]:
        """Return the whole text and how many seconds it took, and begin anew."""
        taken = "".join(self._parts), time.monotonic() - self._since
        self._parts, self._since = [], 0.0
        return taken

    def last_words(self, width: int) -> str:
        """Return the end of the text, on one line."""
        return fit(safe_line("".join(self._parts[-20:]))[-(width - 1) :], width)
