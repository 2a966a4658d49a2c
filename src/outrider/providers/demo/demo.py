"""The built-in demo model: not an LLM, but a few rules that call real tools.

It lets a newcomer without a key see the product work. It understands plain requests: list, read, look at a picture,
search, write a file, run a command, add, delegate. It calls the tools of the session that fit, several at once, and
reports their results. The same request always gets the same reply.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec

from outrider.conversation.messages import AttachmentBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.store import AttachmentStore, read_stored
from outrider.conversation.usage import Usage
from outrider.errors import AttachmentError, UnknownModelError
from outrider.prompts import prompt
from outrider.providers.base import Reply, Request, StopReason, ToolSpec
from outrider.providers.deltas import Delta, TextDelta, ToolCallDelta
from outrider.text import counted, human_size
from outrider.tools.schema import inline_references

LABEL = "(demo model, not an LLM)"

# A search takes time in proportion to the text: each pattern begins at few places, or reads little from each.
_FILE = re.compile(r"(?<![\w./-])[\w./-]*\w\.[A-Za-z]\w{0,4}\b")
_SUM = re.compile(r"(-?(?<!\d)\d++(?:\.\d++)?)\s*+(\+|-|\*|x|×|/|plus|minus|times|and|to)\s*+(-?\d++(?:\.\d++)?)")
_SEARCH = re.compile(
    r"""(?:search|grep|look|find)\b[^"'“\n]{0,500}+["'“]([^"'”\n]+)["'”]|(?:search|grep)\s++(?:for\s++)?(\S+)""", re.I
)
_EVERYTHING = re.compile(r"\b(everything|all (the )?files|explore|(this|the) (folder|directory|project))\b", re.I)
_LIST = re.compile(r"\b(list|ls|which files|what files|show (me )?the files)\b", re.I)
_RUN = re.compile(r"""\b(?:run|execute)\s+[`'"]([^`'"\n]+)[`'"]""", re.I)
_WRITE = re.compile(
    r"""\b(?:write|create)\s++(?:["“]([^"”\n]{1,500})["”]\s++(?:in|into|to)\s++)?(?:(?:a\s++)?(?:new\s++)?file\s++)?"""
    rf"""(?:(?:called|named)\s++)?({_FILE.pattern})""",
    re.I,
)
_WRITTEN = "Hello from the demo model."
_DELEGATE = re.compile(r"\b(delegate|sub-?agent)\b", re.I)
_PICTURE = re.compile(r"\.(png|jpe?g|gif|webp)$", re.I)
_TASK = re.compile(
    r"""["“](?P<prompt>[^"”]+)["”](?:\s+as\s+(?:a\s+)?(?:table|list|data)\s+of\s+(?P<columns>[\w ,]+))?""", re.I
)
_COMMAND = re.compile(r"\brun\s+[`']", re.I)
_NUMBERS = ("lines", "characters", "count", "number", "size")

_Exchange: TypeAlias = tuple[ToolUseBlock, ToolResultBlock]
_Calls: TypeAlias = list[tuple[str, dict[str, Any]]]


class DemoModel:
    """A model that replies by rules. `pace` is the pause between words in seconds, to imitate streaming."""

    def __init__(self, pace: float = 0.0) -> None:
        self.name = "demo"
        self._pace = pace

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        """Stream the text word by word, then the calls."""
        message = answer(request)
        for word in re.findall(r"\S+\s*", message.text):
            yield TextDelta(word)
            if self._pace:
                await asyncio.sleep(self._pace)
        for call in message.tool_calls:
            yield ToolCallDelta(call.id, call.name, msgspec.json.encode(call.input).decode())
        stop = StopReason.TOOL_USE if message.tool_calls else StopReason.END
        yield Reply(message, stop, Usage(len(request.messages), len(message.text.split()), cost=0.0))


def provider(name: str) -> DemoModel:
    """Return the demo model. It has no other names than "demo"."""
    if name:
        raise UnknownModelError(f"there is no model 'demo/{name}'; the demo model is just 'demo'")
    return DemoModel()


def answer(request: Request) -> Message:
    """Return the reply: the next calls that the request asks for, or a report on their results."""
    question, since = _question(request.messages)
    done = list(_exchanges(since))
    reminder = request.reminder.removeprefix(prompt("plan_mode"))  # which does not end the work
    calls = [] if reminder else _next_calls(question, done, request.tools)
    if not calls and (reporting := _tool(request.tools, "^report")):
        calls = [(reporting.name, reported(inline_references(reporting.parameters), done))]
    if calls:
        number = len(request.messages)
        blocks = [ToolUseBlock(f"demo_{number}_{index}", name, args) for index, (name, args) in enumerate(calls, 1)]
        names = ", ".join(sorted({block.name for block in blocks}))
        several = f"I'll make {len(blocks)} calls at once ({names})."
        return Message.assistant(f"I'll use {names}." if len(blocks) == 1 else several, *blocks)
    if done:
        lines = [f"- {line}" for call, result in done for line in _report(call, result, request.store)]
        return Message.assistant("\n".join([f"Here is what I found {LABEL}:", *lines]))
    return Message.assistant(_arithmetic(question) or prompt("demo_help"))


def _question(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    """Return the user's last text, and the messages after it."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "user" and message.text:
            return message.text, messages[index + 1 :]
    return "", messages


def _exchanges(messages: Sequence[Message]) -> Iterator[_Exchange]:
    for asked, answered in pairwise(messages):
        results = {result.tool_use_id: result for result in answered.tool_results}
        yield from ((call, results[call.id]) for call in asked.tool_calls if call.id in results)


def _next_calls(question: str, done: list[_Exchange], tools: Sequence[ToolSpec]) -> _Calls:
    if not done:
        return _first_calls(question, tools)
    listed = len(done) == 1 and _EVERYTHING.search(question) and not done[0][1].is_error
    if listed and (listing := _tool(tools, "list|glob|ls")) and done[0][0].name == listing.name:
        return _read_calls(_FILE.findall(done[0][1].text), tools)
    return []


def _first_calls(question: str, tools: Sequence[ToolSpec]) -> _Calls:
    if _DELEGATE.search(question) and (task := _tool(tools, "^task$")):
        return [(task.name, arguments) for arguments in tasks(question, task)]
    if (command := _RUN.search(question)) and (shell := _tool(tools, "^bash$|shell")):
        return [(shell.name, _arguments(shell, command=command[1]))]
    if (wanted := _WRITE.search(question)) and (writer := _tool(tools, "^write")):
        return [(writer.name, _arguments(writer, path=wanted[2], content=f"{wanted[1] or _WRITTEN}\n"))]
    if (found := _SEARCH.search(question)) and (search := _tool(tools, "search|grep|find")):
        return [(search.name, _arguments(search, pattern=found[1] or found[2]))]
    if calls := _read_calls(_FILE.findall(question), tools):
        return calls
    if (numbers := _SUM.search(question)) and (add := _tool(tools, "add|sum|plus")):
        return [(add.name, _numbers(add, [float(numbers[1]), float(numbers[3])]))]
    if (_EVERYTHING.search(question) or _LIST.search(question)) and (listing := _tool(tools, "list|glob|ls")):
        return [(listing.name, _arguments(listing, path=".", pattern="**/*"))]
    return []


def _read_calls(paths: Sequence[str], tools: Sequence[ToolSpec]) -> _Calls:
    reader = _tool(tools, "read|open|cat|load")
    viewer = _tool(tools, "look|view|image|picture|show") or reader
    chosen = [(path, viewer if _PICTURE.search(path) else reader or viewer) for path in dict.fromkeys(paths)]
    return [(spec.name, _arguments(spec, path=path)) for path, spec in chosen if spec]


def _tool(tools: Sequence[ToolSpec], pattern: str) -> ToolSpec | None:
    return next((spec for spec in tools if re.search(pattern, spec.name, re.I)), None)


# The names of parameters to which the demo model can pass a value.
_ALIASES = {
    "path": ("path", "file_path", "file", "filename", "folder", "directory", "name"),
    "pattern": ("pattern", "query", "text", "regex", "word"),
    "command": ("command", "cmd", "script"),
    "content": ("content", "text"),
}


def _arguments(spec: ToolSpec, **values: str) -> dict[str, Any]:
    """Return the values under the tool's own parameter names. Other required strings get the first value."""
    properties: dict[str, Any] = spec.parameters.get("properties", {})
    chosen: dict[str, Any] = {}
    for kind, value in values.items():
        name = next((alias for alias in _ALIASES[kind] if alias in properties), None)
        if name:
            chosen[name] = value
    for name in spec.parameters.get("required", ()):
        if name not in chosen and properties[name].get("type") == "string":
            chosen[name] = properties[name].get("enum", [*values.values()])[0]
    return chosen


def _numbers(spec: ToolSpec, values: list[float]) -> dict[str, Any]:
    plain = [int(value) if value.is_integer() else value for value in values]
    return dict(zip(spec.parameters.get("properties", {}), plain, strict=False))


def _arithmetic(question: str) -> str:
    found = _SUM.search(question)
    if not found:
        return ""
    a, sign, b = float(found[1]), found[2], float(found[3])
    if sign in ("-", "minus"):
        value = a - b
    elif sign in ("*", "x", "×", "times"):
        value = a * b
    elif sign == "/":
        if b == 0:
            return "There is no answer: nothing can be divided by zero."
        value = a / b
    else:
        value = a + b
    return str(int(value)) if value.is_integer() else f"{value:.10g}"


def _report(call: ToolUseBlock, result: ToolResultBlock, store: AttachmentStore) -> Iterator[str]:
    subject = subject_of(call) or call.name
    if result.is_error:
        yield f"{subject}: this failed: {(result.text.strip() or 'it did not say why').splitlines()[0]}"
        return
    for block in result.content:
        if isinstance(block, AttachmentBlock):
            yield _describe_file(block, store)
    text = "".join(block.text for block in result.content if isinstance(block, TextBlock)).strip()
    if text and not result.attachments:
        yield f"{subject}: {_describe_text(text)}"


def _describe_text(text: str) -> str:
    lines = text.splitlines()
    if len(lines) == 1 and len(text) <= 80:
        return text
    first = next(line.strip() for line in lines if line.strip())
    beginning = first if len(first) <= 60 else f"{first[:60]}…"
    return f"{counted(len(lines), 'line')}, {counted(len(text), 'character')}, beginning with “{beginning}”"


def _describe_file(block: AttachmentBlock, store: AttachmentStore) -> str:
    """Describe a file from its bytes. They are really read, so that a missing file is noticed."""
    try:
        data = read_stored(store, block)
    except AttachmentError as error:
        return f"{block.label}: it did not arrive: {error}"
    if block.mime_type == "image/png" and len(data) >= 24:
        width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
        return f"{block.label}: a picture of {width} × {height} pixels ({human_size(len(data))})"
    if block.mime_type == "application/pdf":
        pages = len(re.findall(rb"/Type\s*/Page\b", data))
        return f"{block.label}: a PDF of {counted(pages, 'page')} ({human_size(len(data))})"
    return f"{block.label}: a file of type {block.mime_type} ({human_size(len(data))})"


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
        _task_arguments(prompt, columns if "output_schema" in properties else None, properties)
        for prompt, columns in wanted
    ]


def _task_arguments(prompt: str, columns: str | None, properties: dict[str, Any]) -> dict[str, Any]:
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


def reported(schema: Any, done: Sequence[_Exchange], name: str = "") -> Any:
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


def _number(name: str, done: Sequence[_Exchange]) -> int:
    texts = [result.text for _, result in done if not result.attachments]
    if name == "lines":
        return sum(len(text.splitlines()) for text in texts)
    return sum(map(len, texts)) if name in ("characters", "size") else len(done)


def _text(name: str, done: Sequence[_Exchange]) -> str:
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
