"""The tool of the server: what a client gives and gets, and what the person at the client is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from outrider.acp.choice_requests import DECLINED, answer_in, form_of
from outrider.coding.permissions.question import Answer, Question
from outrider.coding.remote.questions import EDIT_TOOLS, json_text
from outrider.coding.toolbox.titles import title
from outrider.jsonrpc import RpcError
from outrider.log.questions import Answer as Chosen
from outrider.log.questions import ChoiceQuestion
from outrider.mcp.elicitation import Elicitation, ElicitationAnswer
from outrider.runtime.run import RunResult
from outrider.struct_types import described
from outrider.text import counted, dollars
from outrider.text.visible import revealed, revealed_line, safe_lines

NAME = "run_task"
LONGEST_PROMPT = 200_000
LARGEST_SCHEMA = 100_000
"""Bytes of the JSON Schema for the answer."""
_TEXT = {"type": "string"}
SPEC: dict[str, Any] = {
    "name": NAME,
    "title": "Run a task",
    "description": (
        "Let the coding agent Outrider work on a task in a folder of this machine, and wait for its answer. It reads, "
        "edits and runs commands within the permissions of the user of this machine. Each task is a durable session: "
        "give its id to continue it, also after it was cancelled or the server was killed."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "prompt": {**_TEXT, "description": "The task. May be left out to finish an interrupted session."},
            "folder": {**_TEXT, "description": "The folder to work in, absolute or below the server's. Default: that."},
            "model": {**_TEXT, "description": "Another model of the user's provider, such as `fast` or `powerful`."},
            "session": {**_TEXT, "description": "The id of an earlier task of this server, to continue it."},
            "schema": {"type": "object", "description": "A JSON Schema. The answer is then data that satisfies it."},
        },
        "additionalProperties": False,
    },
    "outputSchema": {
        "type": "object",
        "properties": {
            "text": _TEXT,
            "status": {**_TEXT, "description": "`done`, or what stopped the task."},
            "session": _TEXT,
            "turns": {"type": "integer"},
            "cost": {"type": ["number", "null"], "description": "US dollars; null if the price is not known."},
            "output": {"description": "The data, if a schema was given and the task is done."},
        },
        "required": ["text", "status", "session", "turns"],
    },
    "annotations": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True},
}


class TaskArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a call."""

    prompt: str = ""
    folder: str = ""
    model: str = ""
    session: str = ""
    schema: dict[str, Any] | None = None


def task_arguments(given: Any) -> TaskArguments:
    """Check the arguments of a call. Raises RpcError."""
    try:
        found: TaskArguments = msgspec.convert(given or {}, described(TaskArguments))
    except msgspec.ValidationError as error:
        raise RpcError.invalid_params(f"The arguments of {NAME} are not valid: {error}.") from None
    if not found.prompt.strip() and not found.session:
        raise RpcError.invalid_params(f"{NAME} needs a prompt, or the session to finish.")
    if len(found.prompt) > LONGEST_PROMPT:
        raise RpcError.invalid_params(f"The prompt has more than {LONGEST_PROMPT:,} characters.")
    if found.schema is not None and len(msgspec.json.encode(found.schema)) > LARGEST_SCHEMA:
        raise RpcError.invalid_params(f"The schema has more than {LARGEST_SCHEMA:,} bytes.")
    return found


def task_result(session: str, result: RunResult[Any]) -> dict[str, Any]:
    text = safe_lines(result.text or result.error)
    used = [counted(result.turns, "turn"), dollars(result.usage.cost) or "cost unknown"]
    data: dict[str, Any] = {
        "text": text,
        "status": result.status,
        "session": session,
        "turns": result.turns,
        "cost": result.usage.cost,
    }
    if result.has_structured_output:
        data["output"] = result.structured_output
    shown = msgspec.json.encode(data["output"]).decode() if "output" in data else text
    ended = "" if result.status == "done" else f"The task ended with the status {result.status}. "
    note = f"{ended}[session {session} · {' · '.join(used)}]"
    return {
        "content": [{"type": "text", "text": f"{shown}\n\n{note}" if shown else note}],
        "structuredContent": data,
        "isError": result.status != "done",
    }


def failed(text: str) -> dict[str, Any]:
    """Return the result of a call that could not begin."""
    return {"content": [{"type": "text", "text": safe_lines(text)}], "isError": True}


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
        """Return the content of the form; None if it was not filled in."""
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
