"""The message that stands for compacted messages: the model's summary, and what is repeated verbatim after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from outrider.conversation.messages import Message, TextBlock
from outrider.prompts import prompt as prompt_text
from outrider.providers.catalogue.windows import BYTES_IN_TOKENS, estimated_tokens

VERBATIM_SHARE = 0.5
"""The tokens of the user's words and of the plan, for each token of the summary."""
WORDS = "The newest messages of the user before this point, verbatim:\n\n"
STATE = "The plan as it was last written down:\n\n"
AGREED = "What the user agreed to, verbatim:\n\n"
_FILE_NAMES = ("file_path", "path", "file", "filename")
MOST_FILES = 50


def request_text(tokens: int, focus: str) -> str:
    """Return what asks the model for a summary of at most this many tokens."""
    text = prompt_text("compaction").format(words=max(100, int(tokens * 0.6)))
    return f"{text}\n\n{prompt_text('compaction_focus').format(focus=focus)}" if focus.strip() else text


def summary_message(
    text: str,
    former: Message | None,
    compacted: Sequence[Message],
    lasting: Mapping[str, bool | str],
    tokens: int,
    *,
    small: bool = False,
) -> Message:
    """Return the message to send instead of the compacted ones.

    `former` is the summary that it replaces. `lasting` has the tools of which something is repeated (`Tool.lasting`):
    the newest result, such as a list of steps, or an argument, such as a plan. `tokens` is the length of the summary.
    `small`: the model is a small one, which reads the user's words first, and more of them.
    """
    verbatim = tokens if small else int(tokens * VERBATIM_SHARE)
    parts = [f"{prompt_text('compacted')}\n\n{shortened(text.strip(), tokens)}"]
    if words := newest_words(former, compacted, verbatim):
        parts.insert(0 if small else 1, f"{WORDS}{words}")
    agreed = {name: argument for name, argument in lasting.items() if isinstance(argument, str)}
    if plan := newest_state(compacted, agreed) or _part(former, AGREED):
        parts.append(f"{AGREED}{shortened(plan, verbatim)}")
    if state := newest_state(compacted, dict.fromkeys(lasting.keys() - agreed, "")) or _part(former, STATE):
        parts.append(f"{STATE}{shortened(state, verbatim)}")
    return Message.user(*parts)


def newest_words(former: Message | None, messages: Sequence[Message], tokens: int) -> str:
    """Return the newest texts of the user, as many as fit, in order. The newest one is shortened if it is too long."""
    found: list[str] = []
    for text in chain(_texts(reversed(messages)), reversed(_part(former, WORDS).split("\n\n"))):
        size = estimated_tokens(text)
        if size > tokens:
            found += [] if found else [shortened(text, tokens)]
            break
        tokens -= size
        found.append(text)
    return "\n\n".join(filter(None, reversed(found)))


def newest_state(messages: Sequence[Message], lasting: Mapping[str, str]) -> str:
    """Return the newest result of a tool that keeps state, or the argument of its call that `lasting` names."""
    results: dict[str, str] = {}
    for message in reversed(messages):
        results.update({each.tool_use_id: each.text for each in message.tool_results if not each.is_error})
        for call in reversed(message.tool_calls):
            if call.name in lasting and call.id in results:
                return str(call.input.get(lasting[call.name], "")) if lasting[call.name] else results[call.id]
    return ""


def summary_without_model(former: Message | None, messages: Sequence[Message], tokens: int) -> str:
    """Return a summary that needs no model: the earlier summary, the user's words and the files named in calls."""
    parts = ["No summary could be written by the model. This is what can be said without one."]
    if former is not None:
        earlier = _part(former, prompt_text("compacted")).strip()
        parts.append(f"## Earlier summary\n{shortened(earlier, tokens // 2)}")
    if words := newest_words(None, messages, tokens // 4):
        parts.append(f"## User's words\n{words}")
    if files := _files(messages):
        parts.append("## Files\n" + shortened("\n".join(f"- {name}" for name in files), tokens // 4))
    return "\n\n".join(parts)


def shortened(text: str, tokens: int) -> str:
    """Return the beginning of a text with about this many tokens."""
    data = text.encode(errors="replace")
    most = max(0, int(tokens * BYTES_IN_TOKENS))
    return text if len(data) <= most else f"{data[:most].decode(errors='ignore').rstrip()} […]"


def _texts(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the text of each user message as a quotation, in which no line is blank."""
    for message in messages:
        texts = (block.text.strip() for block in message.content if isinstance(block, TextBlock))
        if message.role == "user" and (text := "\n".join(filter(None, texts))):
            yield f"> {text}".replace("\n", "\n> ")


def _part(summary: Message | None, heading: str) -> str:
    """Return a part of an earlier summary, without its heading."""
    texts = (block.text for block in summary.content if isinstance(block, TextBlock)) if summary else iter(())
    return next((text.removeprefix(heading) for text in texts if text.startswith(heading)), "")


def _files(messages: Sequence[Message]) -> list[str]:
    """Return the files that calls name, the newest first, each once."""
    found: dict[str, None] = {}
    for message in reversed(messages):
        for call in message.tool_calls:
            for name in _FILE_NAMES:
                value: Any = call.input.get(name)
                if isinstance(value, str) and value.strip() and "\n" not in value:
                    found.setdefault(value)
    return list(found)[:MOST_FILES]
