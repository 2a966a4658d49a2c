"""A session of a log as a model: it gives the replies that were recorded, to the same requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.conversation.history import History
from outrider.conversation.messages import AttachmentBlock, Message, TextBlock, ToolResultBlock
from outrider.conversation.usage import Usage
from outrider.errors import ProviderError, RequestRefusedError
from outrider.log import entries as kinds
from outrider.log.entries import Entry, MessageEntry
from outrider.log.state import SessionState
from outrider.prompts import prompt as prompt_text
from outrider.providers.base import Reply, Request, StopReason
from outrider.replay.tape import reply_of
from outrider.testing.scripted import ScriptedModel, Step

if TYPE_CHECKING:
    from outrider.log.reader import LogReader


class Recorded(ScriptedModel):
    """Gives the replies of a recorded session in order, and those of its sub-agents.

    Each request must have the prompt, or the results of calls, that the recorded one had, and the tools that the reply
    calls, unless the recorded one lacked them too; otherwise AssertionError is raised, which reaches the caller of the
    run. So is one if there are no more replies, and one at the end of `with Recorded(…) as model:` if some are left.
    The instructions, the descriptions of tools and the settings may differ. A request that ended a run with an error
    fails again, and `compact()` gets the recorded summary. A cancelled request is left out. A sub-agent is known by its
    prompt, and has no compacted conversation.
    """

    def __init__(self, log: LogReader, session_id: str) -> None:
        session = log.session(session_id).id
        self._scripts = [_Script(log, each) for each in _with_subagents(log, session)]
        super().__init__(lambda request: self._script_of(request).next(request))
        self.name = "recorded"
        requested = log.requested(session)
        self._enforces = bool(requested and requested.output_schema)

    def enforces(self, schema: Mapping[str, Any], *, with_tools: bool) -> bool:
        """Return whether the recorded API held answers to a schema: then they are text, and otherwise calls."""
        return self._enforces

    def _script_of(self, request: Request) -> _Script:
        """Return the session that the request continues; if none fits, the first one, which says what differs."""
        return next((script for script in self._scripts if script.fits(request)), self._scripts[0])

    def _unused(self) -> tuple[int, Sequence[Step]]:
        steps = [step for script in self._scripts for step in script.steps if not step.is_failure]
        left = [step for script in self._scripts for step in script.left if not step.is_failure]
        return len(steps), left


class _Script:
    """The replies of one session, and how many of them were given."""

    def __init__(self, log: LogReader, session: str) -> None:
        self.session = session
        self.steps = list(_steps(log, session))
        self._given = 0

    @property
    def left(self) -> list[_RecordedStep]:
        return self.steps[self._given :]

    def fits(self, request: Request) -> bool:
        """Return whether the request is the next of this session: it begins with its prompt, and is as long."""
        if not (left := self.left):
            return False
        said = [message.role == "assistant" for message in request.messages]
        prompt = request.messages[: said.index(True)] if True in said else request.messages
        return len(said) == left[0].length and _said(prompt) == _said(self.steps[0].asked)

    def next(self, request: Request) -> Step:
        """Return the next reply."""
        self._given += 1
        if self._given > len(self.steps):
            raise AssertionError(
                f"the recorded session {self.session} has {len(self.steps)} replies, and this is request "
                f"{self._given}; it says {_shown(_said(_newest(request.messages)))}"
            )
        return self.steps[self._given - 1]


class _RecordedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the script: the reply, or how the request failed, if the request is the recorded one."""

    number: int
    session: str
    answer: Reply | ProviderError
    asked: Sequence[Message]
    """What the recorded request added to the conversation."""
    length: int
    """How many messages it had."""
    offered: frozenset[str] | None = None
    """The names of its tools; None if the log does not say."""
    is_summary: bool = False
    """Whether it asked for a summary, as `compact()` does."""
    follows_cancel: bool = False
    """Whether work before it was cancelled, or its time was up."""

    def __repr__(self) -> str:
        if not isinstance(self.answer, Reply):
            return f"request {self.number}, which failed"
        return f"reply {self.number} {self.answer.text or [call.name for call in self.answer.message.tool_calls]!r}"

    @property
    def is_failure(self) -> bool:
        return not isinstance(self.answer, Reply)

    def __call__(self, request: Request) -> Step:
        asks_for_summary = request.reminder.startswith(_summary_request())
        said = [_SUMMARY] if asks_for_summary else _said(_newest(request.messages))
        recorded = [_SUMMARY] if self.is_summary else _said(self.asked)
        if said != recorded:
            raise AssertionError(
                f"request {self.number} differs from that of the recorded session {self.session}: "
                f"it says {_shown(said)}; recorded was {_shown(recorded)}{_CANCELLED if self.follows_cancel else ''}"
            )
        if isinstance(self.answer, Reply):
            self._check_tools(self.answer, {tool.name for tool in request.tools})
        return self.answer

    def _check_tools(self, reply: Reply, offered: set[str]) -> None:
        """Raise AssertionError if the reply calls a tool that is gone. A model may call one that there never was."""
        called = (call.name for call in reply.message.tool_calls if call.name not in offered)
        if missing := [name for name in called if self.offered is None or name in self.offered]:
            raise AssertionError(
                f"reply {self.number} of the recorded session {self.session} calls {', '.join(missing)}, "
                f"which the request does not offer; its tools are {', '.join(sorted(offered)) or 'none'}"
            )


_SUMMARY = "a request for a summary"
_CANCELLED = (
    ". Work before it was stopped, which Recorded does not repeat: "
    "`await replay(log, session_id, agent)` compares the whole session"
)


def _with_subagents(log: LogReader, session: str) -> Iterator[str]:
    """Yield the session, and those of the sub-agents below it."""
    yield session
    for child in log.children(session):
        yield from _with_subagents(log, child.id)


def _steps(log: LogReader, session: str) -> Iterator[_RecordedStep]:
    """Yield what each request of a session added to the conversation, and what came of it."""
    number, follows_cancel = 0, False
    state, sent = SessionState(), History()  # what is sent if nothing is compacted but by hand
    shown = (record.entry for record in log.shown_records(session))
    entries = [entry for entry in shown if not isinstance(entry, kinds.RewindEntry)]  # it has been applied
    for entry, following in zip(entries, [*entries[1:], None], strict=True):
        if answer := _answer(entry, following, state.history.last):
            messages, number = sent.sendable(), number + 1
            yield _RecordedStep(
                number=number,
                session=session,
                answer=answer,
                asked=_newest(messages),
                length=len(messages),
                offered=_offered(state),
                is_summary=isinstance(entry, kinds.CompactionEntry),
                follows_cancel=follows_cancel,
            )
        follows_cancel = follows_cancel or _is_cancel(entry)
        state.apply(entry)
        if len(state.history) > len(sent):
            for message in state.history.tail[len(sent) :]:
                sent.append(message)
        if isinstance(entry, kinds.CompactionEntry) and entry.reason == "manual":
            sent.compact(entry.summary, entry.kept)


def _answer(entry: Entry, following: Entry | None, last: Message | None) -> Reply | ProviderError | None:
    """Return what the model gave for a request that ended with this entry; None if none did."""
    match entry:
        case MessageEntry(message=message) if message.role == "assistant":
            return reply_of(entry) if entry.stop_reason or not _is_interruption(following) else None
        case kinds.RunStopped(status="error", error=error) if last and last.role == "user":
            return ProviderError(error)
        case kinds.CompactionEntry(reason="manual", model=""):
            return RequestRefusedError("the recorded summary was made without a model")
        case kinds.CompactionEntry(reason="manual"):
            return Reply(Message.assistant(_summary(entry.summary)), StopReason.END, entry.usage or Usage())
    return None


def _is_interruption(entry: Entry | None) -> bool:
    """Return whether an entry says that the reply before it was interrupted."""
    return isinstance(entry, MessageEntry) and entry.message.text == prompt_text("interrupted")


def _is_cancel(entry: Entry) -> bool:
    """Return whether an entry says that work was cancelled, or that its time was up."""
    is_stopped = isinstance(entry, kinds.RunStopped) and entry.status in ("cancelled", "max_seconds")
    return is_stopped or isinstance(entry, kinds.RunCancelled)


def _offered(state: SessionState) -> frozenset[str] | None:
    """Return the names of the tools that the next request offers."""
    if state.requested is None or isinstance(state.requested.tools, msgspec.UnsetType):
        return None
    return frozenset(tool.name for tool in state.requested.tools)


def _summary(message: Message) -> str:
    """Return what the model wrote of the message that stands for compacted messages."""
    heading = prompt_text("compacted")
    texts = (block.text for block in message.content if isinstance(block, TextBlock))
    return next((text.removeprefix(heading).strip() for text in texts if text.startswith(heading)), message.text)


def _summary_request() -> str:
    """Return how a request for a summary begins."""
    return prompt_text("compaction").partition("{")[0]


def _newest(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages after the newest reply."""
    at = next((place for place, each in enumerate(reversed(messages)) if each.role == "assistant"), len(messages))
    return messages[len(messages) - at :]


def _said(messages: Iterable[Message]) -> list[str]:
    """Return what matters of messages: their texts and files, and those of results."""
    return [line for message in messages for block in message.content for line in _lines(block)]


def _lines(block: object) -> Iterator[str]:
    match block:
        case TextBlock(text=text) if text.strip():
            yield text
        case AttachmentBlock():
            yield f"file {block.name or block.mime_type} ({block.sha256[:12]})"
        case ToolResultBlock():
            yield f"{'error' if block.is_error else 'result'} {block.text!r}"
            for file in block.attachments:
                yield from _lines(file)


def _shown(said: Sequence[str]) -> str:
    shown = "; ".join(f"{line:.500}" for line in said)
    return repr(shown) if shown else "nothing"
