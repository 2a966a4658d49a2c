"""Calls that small models write as text and that the server did not parse.

JSON without a mark, or in a code block, is a call only if it names a tool, has arguments and nothing else, begins a
line and ends the reply (if it begins the reply, text may follow in the next line), after a short text without another
code block, not near a word such as "example". Text may follow the only code block of a reply, if its tool accepts the
arguments. Descriptions of tools, and data such as {"name": "Alice", "age": 7}, are no calls. A marked call begins a
line, or ends the reply. Names that are no tool's count only after a mark, or if the reply is {"name", "arguments"}.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias

import msgspec

from outrider.conversation.messages import Block, Message, TextBlock, ToolUseBlock
from outrider.providers.base import Reply, StopReason
from outrider.text import clean, clean_value
from outrider.tools.near_names import nearest_name

Parameters: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The tools: their names, and the JSON Schemas of their arguments."""

MARKS = (
    "<tool_call>",
    "<tool_calls>",
    "<tools>",
    "<function_call>",
    "<function_calls>",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "<function=",
)
"""What models write before a call, and hardly ever otherwise."""
FENCES = ("", "json", "jsonc", "json5", "tool_call", "tool_calls", "tool_code", "tool", "tools", "xml", "text")
"""The languages of code blocks that may contain a call."""
NAMES = ("name", "tool", "tool_name", "function", "function_name", "action")  # keys for the name of the tool
ARGUMENTS = ("arguments", "parameters", "input", "args", "params", "tool_input", "action_input")
LISTS = ("tool_calls", "calls", "function_call")  # keys of an object around calls
BESIDE = ("id", "type", "call_id", "tool_call_id", "index")  # keys that a call may have besides its name and arguments
LONGEST_INTRODUCTION = 600
"""Characters of text before a call without a mark. In a longer explanation, JSON is an example."""
_MOST_STARTS = 20

_FENCE = re.compile(rf"```[ \t]*(?:{'|'.join(filter(None, FENCES))})?[ \t]*(?:\n|(?=[{{\[<]))")
_MARK = re.compile("|".join(map(re.escape, MARKS)))
_UNMARKED = re.compile(rf"^[ \t]*(?:{_FENCE.pattern}|(?=[{{\[]))", re.MULTILINE)
_FENCE_LINE = re.compile(r"^[ \t]*```", re.MULTILINE)
_OPENING = re.compile(rf"[\s,;]*(?:{'|'.join(map(re.escape, MARKS[:-1]))}|{_FENCE.pattern})")
_CLOSING = re.compile(
    r"\s*(?:</(?:tool_calls?|tools|function_calls?|function)>|\[/TOOL_CALLS\]|<\|eom_id\|>|```(?!\w))"
)
_FUNCTION = re.compile(r"\s*<function=([^<>\s]+)>\s*")
_PARAMETER = re.compile(r"\s*<parameter=([^<>\s]+)>(.*?)(?:</parameter>|(?=<parameter=)|(?=</function>)|\Z)", re.DOTALL)
_ARGUMENT = re.compile(r"\s*<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)(?:</arg_value>|\Z)", re.DOTALL)
_NAME_FIRST = re.compile(r"\s*([\w.-]+)\s*(?:\[ARGS\]\s*(?=\{)|(?=\{)|(?=<arg_key>))")
_SPACE = re.compile(r"[\s,;]*")
_NAMED = re.compile(rf'"(?:{"|".join(NAMES)})"\s*:\s*"([\w.:-]+)"')
_IDENTIFIER = re.compile(r"[\w.:-]+")
_EXAMPLE = re.compile(r"\b(?:examples?|e\.g|for instance|looks? like|syntax|format)\b", re.IGNORECASE)


def written_calls(text: str, tools: Parameters) -> tuple[str, tuple[ToolUseBlock, ...]]:
    """Return the text before the calls, and the calls. Without calls it is the whole text.

    >>> tools = {"look": {"type": "object"}}
    >>> written_calls('Well. <tool_call>{"name": "look", "arguments": {"at": "a"}}</tool_call>', tools)[1][0].input
    {'at': 'a'}
    >>> written_calls('This is an example: {"name": "look", "arguments": {"at": "a"}}', tools)[1]
    ()
    """
    for start in _starts(text) if tools else ():
        scanner = _Scanner(text, start, tools)
        scanner.read()
        if scanner.counts:
            return text[:start].rstrip(), tuple(scanner.calls)
    return text, ()


def _starts(text: str) -> Iterator[int]:
    """Yield where calls may start: at a mark, and at the beginning of a line with JSON or a code block."""
    marks = {found.start() for found in islice(_MARK.finditer(text), _MOST_STARTS)}
    early = islice(_UNMARKED.finditer(text, 0, LONGEST_INTRODUCTION + 100), _MOST_STARTS)
    lines = {found.start() for found in early if len(text[: found.start()].strip()) <= LONGEST_INTRODUCTION}
    fences = [found.start() for found in _FENCE_LINE.finditer(text)]
    for start in sorted(marks | lines):
        if sum(fence < start for fence in fences) % 2 == 0:  # not inside a code block
            yield start


MOST_CALLS = 200
"""A text with more is one of a model in a loop."""
LONGEST_REPAIRED = 20_000
"""Characters of a value with comments or doubled braces."""


class _Scanner:
    """Reads the calls that follow each other from an offset of a text on."""

    def __init__(self, text: str, start: int, tools: Parameters) -> None:
        self.calls: list[ToolUseBlock] = []
        self._text = text
        self._start = start
        self._end = start
        self._tools = tools
        self._marked = False
        self._fenced = False

    def read(self) -> None:
        while len(self.calls) < MOST_CALLS:
            at = self._opened(self._end)
            found = self._call_at(at)
            if found is None:
                return
            calls, self._end = found
            self.calls += calls
            self._close()

    def _close(self) -> None:
        """Skip closing tags, and the end of one code block."""
        in_block = True
        while (closing := _CLOSING.match(self._text, self._end)) and (in_block or "```" not in closing[0]):
            in_block = in_block and "```" not in closing[0]
            self._end = closing.end()

    @property
    def counts(self) -> bool:
        """Whether what was read are calls, not an example and not data."""
        if not self.calls:
            return False
        before, after = self._text[: self._start].strip(), self._text[self._end :].strip(" \t\r,;.")
        is_alone = not after.strip()
        near = all(self._is_near(call.name) for call in self.calls)
        if self._marked and not self._fenced:
            line = self._text[self._text.rfind("\n", 0, self._start) + 1 : self._start]
            return (is_alone and (near or not line.strip())) or (near and not line.strip())
        if not near:
            return is_alone and not before and self._is_plain
        if "```" in before or len(before) > LONGEST_INTRODUCTION:
            return False
        if not is_alone and (before or not after.startswith("\n")) and not (self._fenced and self._is_only(after)):
            return False
        return not _EXAMPLE.search(f"{before[-200:]} {after[:200]}")

    @property
    def _is_plain(self) -> bool:
        """Whether this is one object with a name and arguments and nothing else: a call, whatever its name."""
        value, _ = json_at(self._text, self._opened(self._start))
        return isinstance(value, dict) and value.keys() == {"name", "arguments"} and len(self.calls) == 1

    def _is_only(self, after: str) -> bool:
        """Return whether this is the only code block, with one call that its tool would accept, and not a proposal."""
        if self._marked or "```" in after or after.endswith("?") or len(self.calls) != 1:
            return False
        if (call := self.calls[0]).name not in self._tools:
            return False
        from outrider.tools.schema import Schema  # few replies need it

        return call.invalid_input is None and not Schema(dict(self._tools[call.name])).violations(call.input)

    def _is_near(self, name: str) -> bool:
        return name in self._tools or bool(_IDENTIFIER.fullmatch(name) and nearest_name(name, self._tools))

    def _opened(self, at: int) -> int:
        """Return the offset after marks and the beginning of a code block."""
        while found := _OPENING.match(self._text, at):
            if "```" in found[0]:
                self._fenced = True
            else:
                self._marked = True
            at = found.end()
        return _SPACE.match(self._text, at).end()  # type: ignore[union-attr]

    def _call_at(self, at: int) -> tuple[list[ToolUseBlock], int] | None:
        """Return the calls at an offset and the offset after them, or None if there is no call."""
        if function := _FUNCTION.match(self._text, at):
            self._marked = True
            return self._named(function[1], function.end())
        if self._text[at : at + 1] in ("{", "["):
            return self._json_calls(at)
        if self._marked and (named := _NAME_FIRST.match(self._text, at)):
            return self._named(named[1], named.end())
        return None

    def _named(self, name: str, at: int) -> tuple[list[ToolUseBlock], int] | None:
        """Read the arguments of a call whose name stands before them: JSON, or a tag for each."""
        if self._text[at : at + 1] == "{":
            value, end = json_at(self._text, at)
            if isinstance(value, dict):
                return [ToolUseBlock("", name, value)], end
            end = self._broken_end(at)
            return [ToolUseBlock("", name, {}, invalid_input=clean(self._text[at:end]))], end
        arguments: dict[str, Any] = {}
        while found := _PARAMETER.match(self._text, at) or _ARGUMENT.match(self._text, at):
            text = found[2].removeprefix("\n").removesuffix("\n")
            arguments[found[1].strip()] = self._typed(name, found[1].strip(), text)
            at = found.end()
        # Text between the tags that is neither: not a call.
        return ([ToolUseBlock("", name, arguments)], at) if arguments or _CLOSING.match(self._text, at) else None

    def _typed(self, tool: str, parameter: str, text: str) -> Any:
        """Return the value of a parameter that was written as text. The schema says whether it is one."""
        schema = self._tools.get(tool, {}).get("properties", {}).get(parameter)
        kinds = schema.get("type", "string") if isinstance(schema, dict) else "string"
        if "string" in kinds and ("null" not in kinds or text.strip() not in ("null", "None")):
            return clean(text)
        plain = {"True": "true", "False": "false", "None": "null"}.get(text.strip(), text.strip())
        try:
            return msgspec.json.decode(clean(plain))
        except (ValueError, RecursionError):
            return clean(text)

    def _json_calls(self, at: int) -> tuple[list[ToolUseBlock], int] | None:
        value, end = json_at(self._text, at)
        if value is None:
            return self._broken(at)
        calls = [self._call_of(each) for each in _flat(value)]
        found = [call for call in calls if call is not None]
        return (found, end) if found and len(found) == len(calls) else None

    def _broken(self, at: int) -> tuple[list[ToolUseBlock], int] | None:
        """Return a call whose JSON is broken or cut off, marked invalid, so that the model learns of it."""
        end = self._broken_end(at)
        body = self._text[at:end]
        named = _NAMED.search(body[:200])
        if named is None or named[1] not in self._tools or not any(f'"{key}"' in body for key in ARGUMENTS):
            return None
        return [ToolUseBlock("", named[1], {}, invalid_input=clean(body))], end

    def _broken_end(self, at: int) -> int:
        found = re.compile(r"\s*(?:</[\w]+>|```)").search(self._text, at) if self._marked or self._fenced else None
        return found.start() if found else len(self._text)

    def _call_of(self, value: Any) -> ToolUseBlock | None:
        """Return the call that an object describes, or None if it is data or the description of a tool."""
        if not isinstance(value, dict):
            return None
        if isinstance(value.get("function"), dict) and value.keys() <= {"function", *BESIDE}:
            value = value["function"]
        name = next((value[key] for key in NAMES if isinstance(value.get(key), str)), None)
        keys = [key for key in ARGUMENTS if key in value]
        others = value.keys() - {*NAMES, *ARGUMENTS, *BESIDE}
        if not name or "description" in value or len(keys) > 1 or (not self._marked and (others or not keys)):
            return None
        if not keys:
            return _invalid(name, value) if others else ToolUseBlock("", name, {})
        return self._with_arguments(name, value[keys[0]])

    def _with_arguments(self, name: str, arguments: Any) -> ToolUseBlock | None:
        if isinstance(arguments, str):
            decoded, _ = json_at(arguments.strip(), 0)
            return ToolUseBlock("", name, decoded) if isinstance(decoded, dict) else _invalid(name, arguments)
        if arguments is None:
            return ToolUseBlock("", name, {})
        if not isinstance(arguments, dict):
            return _invalid(name, arguments) if self._marked else None
        properties = self._tools.get(name, {}).get("properties", {})
        if isinstance(arguments.get("properties"), dict) and "properties" not in properties:
            return None  # the schema of the arguments: the model describes the tool
        return ToolUseBlock("", name, arguments)


def _flat(value: Any) -> list[Any]:
    """Return the calls in a list, or in an object around them."""
    if isinstance(value, dict) and len(value) == 1 and (key := next(iter(value))) in LISTS:
        value = value[key]
    return value if isinstance(value, list) else [value]


def _invalid(name: str, value: Any) -> ToolUseBlock:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return ToolUseBlock("", name, {}, invalid_input=clean(text))


def _number(text: str) -> int | float:
    return int(text) if len(text) < 19 else float(text)


def _refuse(name: str) -> Any:
    raise ValueError(f"JSON has no {name}")


_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENTS = re.compile(rf"{_STRING}|//[^\n]*", re.DOTALL)
_DOUBLED = re.compile(rf"{_STRING}|\{{\{{|\}}\}}", re.DOTALL)
_DECODER = json.JSONDecoder(strict=False, parse_int=_number, parse_constant=_refuse)
"""Takes bare newlines in strings, which small models write."""


def json_at(text: str, at: int) -> tuple[Any, int]:
    """Return the JSON value at an offset, and the offset after it; None if there is none."""
    for form in _forms(text, at):
        try:
            value, end = _DECODER.raw_decode(form, at)
        except (ValueError, RecursionError):
            continue
        while form[end : end + 1] == " " and text[end : end + 1] == "}":  # the second of two braces
            end += 1
        return clean_value(value), end
    return None, at


def _forms(text: str, at: int) -> Iterator[str]:
    """Yield the text, and as it is meant if it has comments, or the doubled braces of a template. Offsets stay."""
    yield text
    rest = text[at : at + LONGEST_REPAIRED]  # else a text of many such calls would be gone through for each of them
    if "//" in rest:
        rest = _COMMENTS.sub(_blanked, rest)
        yield text[:at] + rest
    if "{{" in rest:
        yield text[:at] + _DOUBLED.sub(_blanked, rest)


def _blanked(found: re.Match[str]) -> str:
    """Return a string as it is, the first of two braces, or the room of a comment."""
    slip = found[0]
    if slip.startswith('"'):
        return slip
    return f"{slip[0]} " if slip in ("{{", "}}") else " " * len(slip)


def with_calls(reply: Reply, calls: Iterable[ToolUseBlock], text: str = "") -> Reply:
    """Return a reply with calls in place of its text. `text` is what was written before them."""
    others: list[Block] = [block for block in reply.message.content if not isinstance(block, TextBlock)]
    before = [TextBlock(text)] if text else []
    stop = StopReason.TOOL_USE if reply.stop_reason == StopReason.END else reply.stop_reason
    return Reply(Message("assistant", (*others, *before, *calls)), stop, reply.usage)


def unfenced(text: str) -> str:
    """Return the text without the code fence that some models put around JSON."""
    text = text.strip()
    if text.startswith("```"):
        return text.partition("\n")[2].removesuffix("```").strip()
    return text
