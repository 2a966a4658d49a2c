"""The tool of the server: what a client gives and gets. The client is not trusted: everything has a bound."""

from __future__ import annotations

from typing import Any

import msgspec

from outrider.jsonrpc import RpcError
from outrider.runtime.run import RunResult
from outrider.struct_types import described
from outrider.text import counted, dollars
from outrider.text.visible import safe_lines

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
            "model": {**_TEXT, "description": "Another model of the user's provider, such as `fast` or `smart`."},
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
