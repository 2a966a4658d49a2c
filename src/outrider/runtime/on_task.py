"""Keeping a small model on its task: what it reads after each result, and when it has to check its work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from outrider.conversation.messages import Message
from outrider.prompts import prompt
from outrider.text import shorten
from outrider.tools.tool import Tool

LONGEST_TASK = 2_000
"""Characters of the task that the model reads again after each result."""


def task_again(newest_first: Iterable[Message], tools: Mapping[str, Tool]) -> str:
    """Return the newest words of the user, what the model has done last, and what to do next."""
    messages = _since_the_task(newest_first)
    task = messages[-1].text if messages else ""
    called = next((message.tool_calls for message in messages if message.tool_calls), ())
    then = "on_task_seen"
    if _changed(messages, tools):
        then = "on_task_check" if must_check(messages, tools) else "on_task_changed"
    said = prompt(then).replace("{calls}", " and ".join(dict.fromkeys(call.name for call in called)))
    return prompt("on_task").replace("{next}", said).replace("{task}", shorten(task, LONGEST_TASK, "[…]"))


def must_check(newest_first: Iterable[Message], tools: Mapping[str, Tool]) -> bool:
    """Return whether the next reply has to be a call: the first change by a tool is not looked at yet.

    Small models say that they are done once something was written, whatever it is.
    """
    messages = _since_the_task(newest_first)
    replies = [message for message in messages if message.tool_calls]
    earlier = {call.name for message in replies[1:] for call in message.tool_calls}
    return bool(_changed(messages, tools) - earlier)


def _since_the_task(newest_first: Iterable[Message]) -> list[Message]:
    """Return the messages back to the newest words of the user, which are the last of them."""
    found = []
    for message in newest_first:
        found.append(message)
        if message.role == "user" and message.text.strip():
            break
    return found


def _changed(messages: list[Message], tools: Mapping[str, Tool]) -> set[str]:
    """Return the tools of the newest calls that may have changed something, if none of these calls failed."""
    results = next((message.tool_results for message in messages if message.tool_results), ())
    called = next((message.tool_calls for message in messages if message.tool_calls), ())
    if any(result.is_error for result in results):
        return set()
    return {call.name for call in called if (tool := tools.get(call.name)) is None or tool.effect != "read"}
