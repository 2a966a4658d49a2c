"""A session of a log as a model: it gives the replies that were recorded, to the same requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.conversation.messages import AttachmentBlock, Message, TextBlock, ToolResultBlock
from outrider.log.entries import MessageEntry
from outrider.providers.base import Reply, Request
from outrider.replay.tape import reply_of
from outrider.testing.scripted import ScriptedModel, Step

if TYPE_CHECKING:
    from outrider.log.reader import LogReader


class Recorded(ScriptedModel):
    """Gives the replies of a recorded session in order, and those of its sub-agents.

    Each request must have the prompt, or the results of calls, that the recorded one had, and the tools that the reply
    calls; otherwise AssertionError is raised, which reaches the caller of the run. So is one if there are no more
    replies, and one at the end of `with Recorded(…) as model:` if some are left. The instructions, the descriptions of
    tools and the settings may differ. A sub-agent is known by its prompt, and has no compacted conversation.
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
        left = [reply for script in self._scripts for reply in script.left]
        return sum(len(script.replies) for script in self._scripts), left


class _Script:
    """The replies of one session, and how many of them were given."""

    def __init__(self, log: LogReader, session: str) -> None:
        self.session = session
        asked, replies = _exchanges(log, session)
        self.replies = [*map(_RecordedReply, range(1, len(replies) + 1), repeat(session), asked, replies)]
        self._given = 0

    @property
    def left(self) -> list[_RecordedReply]:
        return self.replies[self._given :]

    def fits(self, request: Request) -> bool:
        """Return whether the request is the next of this session: it begins with its prompt, and has its replies."""
        said = [message.role == "assistant" for message in request.messages]
        prompt = request.messages[: said.index(True)] if True in said else request.messages
        return bool(self.left) and sum(said) == self._given and _said(prompt) == _said(self.replies[0].asked)

    def next(self, request: Request) -> Step:
        """Return the next reply."""
        self._given += 1
        if self._given > len(self.replies):
            raise AssertionError(
                f"the recorded session {self.session} has {len(self.replies)} replies, and this is request "
                f"{self._given}; it says {_shown(_said(_newest(request.messages)))}"
            )
        return self.replies[self._given - 1]


class _RecordedReply(msgspec.Struct, frozen=True):
    """A step of the script: the reply, if the request is the recorded one."""

    number: int
    session: str
    asked: Sequence[Message]
    reply: Reply

    def __repr__(self) -> str:
        return f"reply {self.number} {self.reply.text or [call.name for call in self.reply.message.tool_calls]!r}"

    def __call__(self, request: Request) -> Reply:
        said, recorded = _said(_newest(request.messages)), _said(self.asked)
        if said != recorded:
            raise AssertionError(
                f"request {self.number} differs from that of the recorded session {self.session}: "
                f"it says {_shown(said)}; recorded was {_shown(recorded)}"
            )
        offered = {tool.name for tool in request.tools}
        if missing := [call.name for call in self.reply.message.tool_calls if call.name not in offered]:
            raise AssertionError(
                f"reply {self.number} of the recorded session {self.session} calls {', '.join(missing)}, "
                f"which the request does not offer; its tools are {', '.join(sorted(offered)) or 'none'}"
            )
        return self.reply


def _with_subagents(log: LogReader, session: str) -> Iterator[str]:
    """Yield the session, and those of the sub-agents below it."""
    yield session
    for child in log.children(session):
        yield from _with_subagents(log, child.id)


def _exchanges(log: LogReader, session_id: str) -> tuple[list[list[Message]], list[Reply]]:
    """Return what each request of a session added to the conversation, and the replies."""
    messages = log.messages(session_id)
    at = [place for place, message in enumerate(messages) if message.role == "assistant"]
    asked = [messages[start:end] for start, end in zip([0, *(place + 1 for place in at)], at, strict=False)]
    entries = (record.entry for record in log.shown_records(session_id))
    said = [each for each in entries if isinstance(each, MessageEntry) and each.message.role == "assistant"]
    return asked, list(map(reply_of, said))


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
