"""What a session does, as a person watches it: text as it comes, calls that move, and what is done above them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from outrider.cli.chat.call_lines import RunningCall, caption, finished, spinner
from outrider.cli.chat.markdown import MarkdownStream, rendered
from outrider.cli.chat.pictures import LARGEST, Protocol, inline
from outrider.cli.plain import plain, plain_lines
from outrider.cli.region import Region
from outrider.cli.styles import CYAN, DIM, ITALIC, RED, YELLOW, fit, styled
from outrider.cli.subagent_line import SubagentLine
from outrider.coding.toolbox.titles import title
from outrider.conversation.messages import AttachmentBlock, Message
from outrider.conversation.store import AttachmentStore
from outrider.errors import AttachmentError
from outrider.runtime.events import (
    Event,
    MessageAdded,
    Notice,
    ReplyDiscarded,
    SubagentEvent,
    SubagentStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from outrider.text import counted, human_size

FRAME_SECONDS = 0.08
SILENCE = 2.0
"""Seconds without a word after which it is said how long it takes."""


class View:
    """Draws one session. Events change what is known; a timer draws it."""

    def __init__(self, region: Region, folder: Path, *, show_thinking: bool = False, pictures: Protocol = "") -> None:
        self.region = region
        self.status: Callable[[], str] = str
        """The line at the bottom."""
        self.typed: Callable[[], str] = str
        """What the person types meanwhile."""
        self.store: AttachmentStore | None = None
        """Where the pictures are."""
        self.thoughts = ""
        """The last thoughts of the model."""
        self._folder = folder
        self._show_thinking = show_thinking
        self._pictures = pictures
        self._markdown = MarkdownStream()
        self._thinking: list[str] = []
        self._thinking_since = 0.0
        self._arriving: dict[str, tuple[str, int]] = {}
        """Calls whose arguments still arrive: the tool, and the characters so far."""
        self._titles: dict[str, str] = {}
        """The calls that are not answered yet, in order."""
        self._calls: dict[str, RunningCall] = {}
        self._panel: Sequence[str] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._heard = 0.0
        """When something last happened."""
        self._calls_above = False
        """Whether the last lines that stand are those of calls."""

    # What happens

    def show(self, event: Event) -> None:
        """Take one event."""
        self._heard = time.monotonic()
        match event:
            case TextDelta(text=text):
                self._settle_thinking()
                self._say(self._markdown.feed(text))
            case ThinkingDelta(text=text):
                self._thinking_since = self._thinking_since or time.monotonic()
                self._thinking.append(text)
            case ToolCallDelta(call_id=call_id, name=name, arguments=arguments):
                self._arriving[call_id] = (name, self._arriving.get(call_id, ("", 0))[1] + len(arguments))
            case SubagentStarted() | SubagentEvent():
                self._show_subagent(event)
            case _:
                self._show_step(event)

    def _show_step(self, event: Event) -> None:
        match event:
            case MessageAdded(message=message):
                self._added(message)
            case ToolStarted(call_id=call_id, name=name, input=input):
                self._titles.setdefault(call_id, plain(title(name, input, self._folder)))
                self._calls[call_id] = RunningCall(self._titles[call_id])
            case ToolProgress(call_id=call_id, content=content) if call_id in self._calls:
                self._calls[call_id].show(content)
            case ToolFinished():
                self._finished(event)
            case ReplyDiscarded(reason=reason):
                self._forget_reply()
                self.problem(f"{reason} (What was shown of this reply does not count.)")
            case Notice(text=text):
                self.note(text)

    def _show_subagent(self, event: SubagentStarted | SubagentEvent) -> None:
        call = self._calls.get(event.call_id)
        if call is None:
            return
        if isinstance(event, SubagentStarted):
            call.subagents[event.session] = SubagentLine(event, self._folder)
        elif subagent := call.subagents.get(event.session):
            subagent.show(event.event)
            if isinstance(event.event, Notice):
                self.note(f"{subagent.name}: {event.event.text}")

    def _added(self, message: Message) -> None:
        if message.role != "assistant":
            return
        self._settle_thinking()
        self._say(self._markdown.end())
        self._arriving.clear()
        self._titles |= {call.id: plain(title(call.name, call.input, self._folder)) for call in message.tool_calls}

    def _finished(self, event: ToolFinished) -> None:
        self._calls.pop(event.call_id, None)
        self._calls_above = True
        self.write(finished(event, self._titles.pop(event.call_id, event.name), self.region.width))
        for file in event.result.attachments:
            self.write(self._file(file))

    def _file(self, file: AttachmentBlock) -> Iterator[str]:
        data = None
        if self.store and file.mime_type.startswith("image/") and file.size <= LARGEST:
            try:
                data = self.store.read(file)
            except AttachmentError:
                data = None
        yield styled(f"    ▣ {fit(caption(file, data), self.region.width - 6)}", CYAN)
        if data and (drawn := inline(data, file.mime_type, self._pictures)):
            yield drawn

    def _settle_thinking(self) -> None:
        """The thoughts are over: fold them into one line."""
        if not self._thinking:
            return
        self.thoughts = "".join(self._thinking)
        seconds = time.monotonic() - self._thinking_since
        self._thinking, self._thinking_since = [], 0.0
        words = counted(len(self.thoughts.split()), "word")
        if self._show_thinking:
            self.write(styled(line, DIM, ITALIC) for line in rendered(self.thoughts, self.region.width))
        self.write([styled(f"∴ Thought for {seconds:.0f} s, {words} (/thinking shows them)", DIM), ""])

    def _forget_reply(self) -> None:
        self._markdown.end()
        self._thinking, self._thinking_since = [], 0.0
        self._arriving.clear()

    def _say(self, text: str) -> None:
        if lines := rendered(text, self.region.width):
            self.write(["", *lines, ""] if self._calls_above else [*lines, ""])
            self._calls_above = False

    # What stands for good

    def write(self, lines: Sequence[str] | Iterator[str]) -> None:
        """Lines that stay."""
        self.region.commit(list(lines), list(self._lines()) if self._timer else None)

    def note(self, text: str) -> None:
        """Something that the person should know."""
        self.write(styled(f"! {line}", YELLOW) for line in self._wrapped(text))

    def problem(self, text: str) -> None:
        """Something that went wrong."""
        self.write(styled(f"✗ {line}", RED) for line in self._wrapped(text))

    def dim(self, text: str) -> None:
        """A remark."""
        self.write(styled(line, DIM) for line in self._wrapped(text))

    def _wrapped(self, text: str) -> Iterator[str]:
        from textwrap import wrap

        for line in plain_lines(text).split("\n"):
            yield from wrap(line, self.region.width - 4, break_on_hyphens=False) or [""]

    def clear_screen(self) -> None:
        """Begin at the top."""
        self.write(["\x1b[2J\x1b[H"])

    # What moves

    def start(self) -> None:
        """Begin to draw, below what the person has said."""
        self.write([""])
        self._heard = time.monotonic()
        self._tick()

    def stop(self) -> None:
        """Draw no more; what was not finished is dropped, but for the words."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        self.region.clear()
        self._settle_thinking()
        self._say(self._markdown.end())
        self._calls.clear()
        self._arriving.clear()
        self._titles.clear()
        if self._calls_above:
            self.write([""])
            self._calls_above = False

    def ask(self, panel: Sequence[str]) -> None:
        """Show a question below everything else; none takes it away."""
        self._panel = panel
        self.draw()

    def draw(self) -> None:
        """Draw what moves, now."""
        self.region.draw(list(self._lines()))

    def _tick(self) -> None:
        self.draw()
        self._timer = asyncio.get_running_loop().call_later(FRAME_SECONDS, self._tick)

    def _waiting(self) -> Iterator[str]:
        """A sign of life, while the model takes its time."""
        seconds = time.monotonic() - self._heard
        is_silent = not (self._markdown.open or self._thinking or self._arriving)
        if self._timer and (is_silent or seconds > SILENCE):
            long = f" · {seconds:.0f} s" if seconds > SILENCE else ""
            yield styled(f"{spinner(seconds)} waiting{long} (Esc interrupts)", DIM)

    def _lines(self) -> Iterator[str]:
        width = self.region.width
        yield from rendered(self._markdown.ending(self.region.height), width)
        if self._thinking:
            last = plain("".join(self._thinking[-20:]))[-(width - 14) :]
            yield styled(f"∴ Thinking … {fit(last, width - 13)}", DIM, ITALIC)
        for name, size in self._arriving.values():
            yield styled(f"… {fit(plain(name), 40)} ({human_size(size)} of arguments)", DIM)
        for call_id, waiting in self._titles.items():
            if call := self._calls.get(call_id):
                yield from call.lines(width)
            else:
                yield styled(f"· {fit(waiting, width - 2)}", DIM)
        if not self._titles and not self._panel:
            yield from self._waiting()
        yield from self._panel
        yield ""
        if typed := self.typed():
            yield f"› {fit(plain(typed), width - 2)}"
        yield styled(fit(self.status(), width), DIM)
