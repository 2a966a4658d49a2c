"""Structured output: data that satisfies a JSON Schema.

Where the API guarantees it, the model's answer is the data: each request has the schema. Elsewhere, and for a schema
that the API cannot express, the model calls a tool that ends the run. The data is validated either way.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import UnionType
from typing import Any, TypeAlias, TypeVar, _SpecialForm

import msgspec

from outrider.conversation.messages import Message, ToolResultBlock, ToolUseBlock
from outrider.errors import SchemaError, ValidationError
from outrider.prompts import prompt as prompt_text
from outrider.providers.base import SchemaProvider
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.answer_schema import Answer, AnswerSchema
from outrider.runtime.events import Event, RunStatus
from outrider.runtime.limits import Limits
from outrider.runtime.run import RunResult
from outrider.text import clean_value, shorten
from outrider.tools.result import ToolResult
from outrider.tools.schema import Schema
from outrider.tools.schema.raw_schemas import refuse_names
from outrider.tools.schema.wrapping import describes_objects, resolve_root_reference, without_absent, wrapped
from outrider.tools.tool import Tool, make_tool

TOOL = "report_back"
WRAPPED = "result"
"""The parameter of the tool for data that is not an object."""
MISSING = "the model ended without a report, although it was reminded; its last text is in `text`"
REJECTED_CHARACTERS = 4_000
"""Characters of a rejected report, and of what is wrong with it, in the error of a run."""
_STOPPED = ("cancelled", "suspended", "waiting")
"""How runs end that go on later, or shall not."""
NO_TURNS_LEFT = "the model ended without a report, and the limits leave no turn to remind it"

_SCHEMA_WORDS = (
    r"output_config|output_format|response_?format|text\.format|json_?schema|response_?(json_?)?schema"
    r"|structured.?output|response mime ?type|invalid schema|citations"
)
"""A pattern for words in the error of an API that does not take a schema."""
A = TypeVar("A", bound=AgentSpec)
RunOnce: TypeAlias = Callable[[list[Message], Limits], Awaitable[RunResult[Any]]]
"""Runs the session once with an agent that reports: `Report.attached_to` is asked for it in each run."""


class Report:
    """A report that a model is asked for: takes a JSON Schema or a Python type, and receives data that satisfies it.

    It serves one task: the first valid report counts.

    >>> report = Report({"type": "array", "items": {"type": "integer"}})
    >>> report.tool.parameters["properties"]
    {'result': {'type': 'array', 'items': {'type': 'integer'}}}
    >>> report.has_data
    False
    """

    def __init__(self, schema: Any, *, is_trusted: bool = True) -> None:
        """Take a JSON Schema, `True` or a type. Raises SchemaError if it cannot be used.

        One that is not trusted, such as a model's, may refer to its parts by path only.
        """
        if schema is False:
            raise SchemaError("no data can satisfy the schema false")
        self._schema = Schema.of(schema)
        if not is_trusted:
            refuse_names(self._schema.json)
        root = resolve_root_reference(self._schema.json)
        self._is_wrapped = not describes_objects(root)
        parameters = wrapped(root, WRAPPED) if self._is_wrapped else root
        self._data: tuple[Any, ...] = ()
        self._answer: AnswerSchema | None = None
        """The schema that the API enforces, while it does."""
        self._is_refused = False
        """Whether the API has refused the schema, so that the tool is used."""
        self._is_insisting = False
        """Whether the model has to call the tool next, where the server decodes its arguments by the schema."""
        self.tool: Tool = make_tool(
            self._take,
            name=TOOL,
            description=prompt_text("report_back_tool"),
            effect="read",
            schema=Schema.of(parameters).json,  # checked once more: a reference may lead nowhere now
            guidance=prompt_text("report_back"),
            final_turn=prompt_text("report_final_turn"),
            built_in=True,
            needs_results=True,
        )
        """The tool that the model calls. Its result ends the run and has the data as JSON."""

    @property
    def schema(self) -> dict[str, Any] | bool:
        """The JSON Schema of the data."""
        return self._schema.json

    @property
    def has_data(self) -> bool:
        """Whether the model has reported."""
        return bool(self._data)

    @property
    def data(self) -> Any:
        """The data as decoded JSON; None before the report."""
        return self._data[0] if self._data else None

    @property
    def value(self) -> Any:
        """The data as a value of the Python type, if the report was made from one."""
        return self._schema.decode(self.data) if self._data else None

    @property
    def text(self) -> str:
        """The data as JSON in one line; empty before the report."""
        return _json(self.data) if self._data else ""

    def attached_to(self, agent: A) -> A:
        """Return the agent as one that reports: with the schema if its API enforces it, else with the tool."""
        schema, provider = self.tool.parameters, agent.provider
        is_enforced = isinstance(provider, SchemaProvider) and provider.enforces(schema, with_tools=bool(agent.tools))
        self._answer = AnswerSchema(schema, self._parse) if is_enforced and not self._is_refused else None
        shared: dict[str, Any] = {"model": provider}  # the copy uses the same connections
        if self._answer:
            return agent.replace(answer=self._answer, **shared)
        decodes, tool = getattr(provider, "decodes_schemas", False), self.tool
        if decodes and self._is_insisting:
            shared["tool_choice"] = TOOL
        if decodes and not (agent.tools or agent.mcp or agent.handoffs):
            tool = msgspec.structs.replace(tool, guidance="")  # the reply is the data: a small model would call for it
        return agent.replace(tools=[*agent.tools, tool], **shared)

    @property
    def is_enforced(self) -> bool:
        """Whether the API enforces the schema, so that the answer is the data."""
        return self._answer is not None

    def watched(self, emit: Callable[[Event], None]) -> Callable[[Event], None]:
        """Return what the events of a reply are passed to, so that observers see the data while it streams."""
        from outrider.runtime.output_watch import OutputWatch  # runs that nobody observes do not need it

        return OutputWatch(emit, "" if self._answer else self.tool.name, self._so_far)

    def _so_far(self, arguments: dict[str, Any]) -> Any:
        return arguments.get(WRAPPED, msgspec.UNSET) if self._is_wrapped else arguments

    def gives_up_schema(self, result: RunResult[Any]) -> bool:
        """Use the tool from now on, if the API refused the schema: not every model and server is known."""
        is_first = bool(result.messages) and result.messages[-1].role == "user"
        is_about_it = result.status == "error" and re.search(_SCHEMA_WORDS, result.error, re.IGNORECASE)
        self._is_refused = self._is_refused or bool(self._answer and is_first and is_about_it)
        return self._is_refused

    def insist(self) -> None:
        """Let the next request have the tool as its only choice, where the server decodes by the schema."""
        self._is_insisting = True

    def recall(self, messages: Sequence[Message]) -> None:
        """Take the report from the end of a conversation, if there is one that satisfies the schema.

        The conversation counts more than the state of this object: its first accepted report is taken.
        """
        for arguments in _accepted(messages[-2:]):
            data = self._unwrapped(arguments)
            if not self._schema.violations(data):
                self._data = (data,)
                return
        last = messages[-1] if messages else None
        if self._answer and not self._data and last and last.role == "assistant" and not last.tool_calls:
            with suppress(ValidationError):
                self._data = (self._answer.read(last).data,)

    def rejection(self, messages: Sequence[Message]) -> str:
        """Return why the newest report was rejected, with its data; "" if there was none."""
        answer = self._answer
        if answer and messages and messages[-1].role == "assistant" and (text := messages[-1].text.strip()):
            try:
                answer.read(messages[-1])
            except ValidationError as error:
                return _rejected("; ".join(error.violations), text)
        call, result = _newest_report(messages)
        if call is None or result is None or not result.is_error:
            return ""
        raw = call.invalid_input
        return _rejected(self._fault(call) or result.text, _json(call.input) if raw is None else raw)

    def _fault(self, call: ToolUseBlock) -> str:
        """Return what is wrong with the arguments of a call; "" if only its result says it."""
        try:
            if call.invalid_input is None:
                self.tool.check(call.input)
                self._schema.decode(self._unwrapped(call.input))
        except ValidationError as error:
            return "; ".join(error.violations)
        return ""

    def _parse(self, text: str) -> Answer:
        """Read an answer in JSON. Raises ValidationError."""
        arguments = _decoded(text)
        # A model writes null for an optional property if the API requires every property.
        if self._schema.violations(self._unwrapped(arguments)):
            arguments = without_absent(arguments, self.tool.parameters)
        data = clean_value(self._unwrapped(arguments))
        self._schema.decode(data)
        return Answer(data, _json(data))

    async def _take(self, /, **arguments: Any) -> ToolResult:
        if self._data:
            return ToolResult("The task has its report already; the first one counts.", is_error=True)
        data = clean_value(self._unwrapped(arguments))
        self._schema.decode(data)  # a type may want more than its JSON Schema can say
        text = _json(data)
        self._data = (data,)
        return ToolResult(text, final=True, details={"structured_output": data}, is_json=True)

    def _unwrapped(self, arguments: Mapping[str, Any]) -> Any:
        return arguments.get(WRAPPED) if self._is_wrapped else dict(arguments)


OutputForm: TypeAlias = Mapping[str, Any] | bool | UnionType | _SpecialForm | Report
"""What `output=` takes beside a class: a JSON Schema, a type that checkers do not see as a class, such as a union or a
Literal, or a `Report`. The output is then not typed. It is not Any, which would let a wrong class pass."""


async def run_to_report(run_once: RunOnce, report: Report, said: list[Message], limits: Limits) -> RunResult[Any]:
    """Run a session until the model reports; remind the model once if it forgets.

    The limits count for both runs together. Without a report the status is not `done`: `error` if the model did not
    give one, or what stopped it; if its report was rejected, `error` says why and has the data. With a report, the text
    is the JSON of the data.
    """
    clock = asyncio.get_running_loop().time
    began = clock()
    first = await run_once(said, limits)
    if report.gives_up_schema(first):
        first = await run_once([], limits)
    report.recall(first.messages)
    if report.is_enforced and not report.has_data and _is_cut_short(first):
        first = msgspec.structs.replace(first, error=NO_TURNS_LEFT)
    if report.has_data or report.is_enforced or first.status != "done" or _was_reminded(first.messages):
        return _reported(first, report)
    left = _left_of(limits, first, clock() - began)
    if not isinstance(left, Limits):
        return _reported(msgspec.structs.replace(first, status=left, error=NO_TURNS_LEFT), report)
    report.insist()
    second = await run_once([Message.user(prompt_text("report_reminder"))], left)
    report.recall(second.messages)
    return _reported(_joined(first, second), report)


def _is_cut_short(result: RunResult[Any]) -> bool:
    """Whether a limit stopped a run whose last message is an answer."""
    answered = bool(result.messages) and result.messages[-1].role == "assistant"
    return answered and result.status not in ("done", "error", *_STOPPED)


def _was_reminded(messages: Sequence[Message]) -> bool:
    """Whether the last user message is the reminder, perhaps from a process that ended since."""
    said = (message.text for message in reversed(messages) if message.role == "user" and message.text)
    return next(said, "") == prompt_text("report_reminder")


def _reported(result: RunResult[Any], report: Report) -> RunResult[Any]:
    """Return the result with the report's data; data of another final tool does not count."""
    data = {"structured_output": report.data, "has_structured_output": report.has_data}
    if report.has_data:
        return msgspec.structs.replace(result, text=report.text, value=report.value, **data)
    status, error = result.status, result.error
    if status == "done":
        status, error = "error", MISSING
    if error in (MISSING, NO_TURNS_LEFT, "") and status not in _STOPPED:
        error = report.rejection(result.messages) or error
    return msgspec.structs.replace(result, status=status, error=error, **data)


def _joined(first: RunResult[Any], second: RunResult[Any]) -> RunResult[Any]:
    from outrider.log.run_state import joined

    return msgspec.structs.replace(
        second,
        text=second.text or first.text,
        turns=first.turns + second.turns,
        usage=first.usage + second.usage,
        usage_by_model=joined(first.usage_by_model, second.usage_by_model),
    )


def _left_of(limits: Limits, used: RunResult[Any], seconds: float) -> Limits | RunStatus:
    """Return the limits left for a second run, or the limit that is used up."""
    from outrider.log.run_state import RunState
    from outrider.runtime.step import Terms  # imported with the first run, as the loop is

    run = RunState()
    run.turns, run.usage = used.turns, used.usage
    if reached := Terms(limits).limit_reached(run):
        return reached
    if limits.max_seconds is not None and seconds >= limits.max_seconds:
        return "max_seconds"
    spent = {
        "max_turns": used.turns,
        "max_total_tokens": used.usage.total_tokens,
        "max_cost": used.usage.cost or 0,
        "max_seconds": seconds,
    }
    left = {name: getattr(limits, name) - amount for name, amount in spent.items() if getattr(limits, name) is not None}
    return msgspec.structs.replace(limits, **left)


def _accepted(ending: Sequence[Message]) -> Iterator[dict[str, Any]]:
    """Yield the arguments of the accepted reports in the newest calls."""
    if len(ending) < 2:
        return
    asked, answered = ending
    good = {result.tool_use_id for result in answered.tool_results if not result.is_error}
    yield from (call.input for call in asked.tool_calls if call.name == TOOL and call.id in good)


def _newest_report(messages: Sequence[Message]) -> tuple[ToolUseBlock | None, ToolResultBlock | None]:
    """Return the newest report that was answered, and its result."""
    results: dict[str, ToolResultBlock] = {}
    for message in reversed(messages):
        for call in reversed(message.tool_calls):
            if call.name == TOOL and call.id in results:
                return call, results[call.id]
        results = {result.tool_use_id: result for result in message.tool_results}
    return None, None


def _rejected(why: str, data: str) -> str:
    note = "[{left_out} of {total} characters left out here]"
    data = shorten(data, REJECTED_CHARACTERS, note)
    return f"the report was rejected: {shorten(why, REJECTED_CHARACTERS, note)}\nThe rejected data: {data}"


def _decoded(text: str) -> dict[str, Any]:
    """Return the JSON object of a text. Raises ValidationError."""
    import json

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        value = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ValidationError([f"(the answer): is not JSON: {error}"]) from None
    if not isinstance(value, dict):
        raise ValidationError(["(the answer): is not a JSON object"])
    return value


def _json(data: Any) -> str:
    import json  # takes integers of any size, and refuses NaN

    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise ValidationError(["(the value): has a number that JSON does not have"]) from None
