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
    """Gives the replies of a recorded session in order.

    Each request must have the prompt, or the results of calls, that the recorded one had, and the tools that the reply
    calls; otherwise AssertionError is raised, which reaches the caller of the run. So is one if there are no more
    replies, and one at the end of `with Recorded(…) as model:` if some are left. The instructions, the descriptions of
    tools and the settings may differ. Sub-agents have sessions of their own, and need models of their own.
    """

    def __init__(self, log: LogReader, session_id: str) -> None:
        self._session = log.session(session_id).id
        asked, replies = _exchanges(log, self._session)
        numbers = range(1, len(replies) + 1)
        super().__init__(map(_RecordedReply, numbers, repeat(self._session), asked, replies))
        self.name = "recorded"
        requested = log.requested(self._session)
        self._enforces = bool(requested and requested.output_schema)

    def enforces(self, schema: Mapping[str, Any], *, with_tools: bool) -> bool:
        """Return whether the recorded API held answers to a schema: then they are text, and otherwise calls."""
        return self._enforces

    def _next(self, request: Request) -> Step:
        number, count = len(self.requests), len(self._steps) if isinstance(self._steps, list) else 0
        if number > count:
            raise AssertionError(
                f"the recorded session {self._session} has {count} replies, and this is request {number}; "
                f"it says {_shown(_said(_newest(request.messages)))}"
            )
        return super()._next(request)


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
