"""Delegation and structured reports of the demo model: tasks from a request, and data from call results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from outrider.conversation.messages import ToolResultBlock, ToolUseBlock
from outrider.providers.base import ToolSpec

Exchange: TypeAlias = tuple[ToolUseBlock, ToolResultBlock]

_TASK = re.compile(
    r"""["“](?P<prompt>[^"”]+)["”](?:\s+as\s+(?:a\s+)?(?:table|list|data)\s+of\s+(?P<columns>[\w ,]+))?""", re.I
)
_COMMAND = re.compile(r"\brun\s+[`']", re.I)
_NUMBERS = ("lines", "characters", "count", "number", "size")


def tasks(question: str, tool: ToolSpec) -> list[dict[str, Any]]:
    """Return the arguments of a Task call for each quoted task: `"read notes.txt" as a table of file and lines`.

    >>> spec = ToolSpec("Task", "", {"properties": {"output_schema": {}}})
    >>> [task["prompt"] for task in tasks('Delegate "list the files" and "read a.txt".', spec)]
    ['list the files', 'read a.txt']
    """
    properties = tool.parameters.get("properties", {})
    found = list(_TASK.finditer(question))
    wanted = [(match["prompt"], match["columns"]) for match in found] or [(question, None)]
    return [
        _arguments(prompt, columns if "output_schema" in properties else None, properties) for prompt, columns in wanted
    ]


def _arguments(prompt: str, columns: str | None, properties: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {"description": " ".join(prompt.split()[:6]), "prompt": prompt}
    kinds = properties.get("subagent_type", {}).get("enum")
    if kinds:
        runs_commands = _COMMAND.search(prompt) and "Bash" in kinds
        given["subagent_type"] = "Bash" if runs_commands else kinds[0]
    if columns:
        given["output_schema"] = _table(re.findall(r"\w+", columns))
    return given


def _table(columns: Sequence[str]) -> dict[str, Any]:
    names = [name for name in columns if name != "and"]
    kinds = {name: {"type": "integer" if name in _NUMBERS else "string"} for name in names}
    return {"type": "array", "items": {"type": "object", "properties": kinds, "required": names}}


def reported(schema: Any, done: Sequence[Exchange], name: str = "") -> Any:
    """Return data that satisfies a plain schema, made from the results of calls."""
    schema = schema if isinstance(schema, dict) else {}
    match schema.get("type"):
        case "array":
            read = [each for each in done if each[1].attachments or subject_of(each[0])] or done
            return [reported(schema.get("items"), [each], name) for each in read]
        case "object":
            return {key: reported(value, done, key) for key, value in schema.get("properties", {}).items()}
        case "integer" | "number":
            return _number(name, done)
        case "boolean":
            return not any(result.is_error for _, result in done)
    return schema["enum"][0] if schema.get("enum") else _text(name, done)


def _number(name: str, done: Sequence[Exchange]) -> int:
    texts = [result.text for _, result in done if not result.attachments]
    if name == "lines":
        return sum(len(text.splitlines()) for text in texts)
    return sum(map(len, texts)) if name in ("characters", "size") else len(done)


def _text(name: str, done: Sequence[Exchange]) -> str:
    subjects = [subject for call, _ in done if (subject := subject_of(call))]
    kinds = [file.mime_type for _, result in done for file in result.attachments]
    if name in ("kind", "type"):
        return ", ".join(kinds) or "text"
    if name in ("file", "name", "path", "files"):
        return ", ".join(subjects)
    return next((line.strip() for _, result in done for line in result.text.splitlines() if line.strip()), "")


def subject_of(call: ToolUseBlock) -> str:
    """Return the subject of a call: its first string argument with a letter or digit."""
    values = (value for value in call.input.values() if isinstance(value, str))
    return next((value for value in values if any(map(str.isalnum, value))), "")
