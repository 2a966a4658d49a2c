"""Questions of a task to the person at the client, by elicitation: permissions, and what the model wants to know."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from outrider.acp.choice_requests import DECLINED, answer_in, form_of
from outrider.coding.permissions.question import Answer, Question
from outrider.coding.remote.questions import EDIT_TOOLS, json_text
from outrider.coding.toolbox.titles import title
from outrider.jsonrpc import RpcError
from outrider.log.questions import Answer as Chosen
from outrider.log.questions import ChoiceQuestion
from outrider.mcp.elicitation import Elicitation, ElicitationAnswer
from outrider.text.visible import revealed, revealed_line, safe_lines

LONGEST = 20_000
"""Characters of a question. What cannot be shown whole is denied: a person must see what they allow."""
Elicit: TypeAlias = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends the parameters of `elicitation/create`, and returns its result. Raises RpcError."""


class Dialogue:
    """Asks through the client. Its methods are `Ask`, `Choose` and `OnElicit`."""

    def __init__(self, elicit: Elicit, folder: Path) -> None:
        self._elicit, self._folder = elicit, folder

    async def ask(self, question: Question) -> Answer:
        """Ask about a call or a plan. Only this once: a client is not asked for rules that last."""
        message = permission_message(question, self._folder)
        if len(message) > LONGEST:
            return Answer("no", "the call is too long to be shown to the person who has to allow it")
        field = {"type": "string", "title": "Allow this?", "enum": ["yes", "no"]}
        answer = await self._form(message, {"answer": field}, ["answer"])
        if (answer or {}).get("answer") != "yes":
            return Answer("no")
        return Answer("go" if question.is_plan else "once")

    async def choose(self, call_id: str, question: ChoiceQuestion) -> Chosen:
        """Ask what the model wants to know."""
        message = "\n\n".join(safe_lines(each.text) for each in question.questions)
        form = form_of(question)
        content = await self._form(message, form["properties"], form["required"])
        given = {each.key: answer_in(each, content or {}) for each in question.questions}
        return Chosen("answer", content=given) if content is not None and all(given.values()) else DECLINED

    async def elicit(self, question: Elicitation) -> ElicitationAnswer:
        """Pass on the question of an MCP server of the user. Pages to open are declined: they are for this machine."""
        if question.url or question.schema is None:
            return ElicitationAnswer("decline")
        message = safe_lines(f"The MCP server {question.server} asks: {question.message}")
        properties, required = question.schema.get("properties", {}), question.schema.get("required", [])
        content = await self._form(message, properties, required)
        return ElicitationAnswer("decline") if content is None else ElicitationAnswer("accept", content)

    async def _form(self, message: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any] | None:
        """Return the content of the form; None if nobody filled it in."""
        schema = {"type": "object", "properties": properties, "required": required}
        try:
            result = await self._elicit({"mode": "form", "message": message, "requestedSchema": schema})
        except RpcError:
            return None
        content = result.get("content")
        return content if result.get("action") == "accept" and isinstance(content, dict) else None


def permission_message(question: Question, folder: Path) -> str:
    """Return everything that a person must see before they allow a call, with hidden characters made visible."""
    if question.is_plan:
        return f"The agent has a plan. May it go on?\n\n{revealed(str(question.input.get('plan', '')))}"
    who = f"A sub-agent ({question.asker})" if question.asker else "The agent"
    shown = title(question.tool, question.input, folder)
    lines = [f"{revealed_line(who)} wants to do this in {revealed_line(str(folder))}:", "", revealed_line(shown), ""]
    if question.tool == "Bash":
        lines += [revealed(str(question.input.get("command", "")))]
    elif not (question.tool in EDIT_TOOLS and question.diff):
        lines += [revealed(json_text(question.input))]
    lines += [revealed_line(fact) for fact in question.facts]
    if question.diff:
        lines += ["", revealed(question.diff)]
    return "\n".join([*lines, "", f"You are asked because {revealed_line(question.reason)}."])
