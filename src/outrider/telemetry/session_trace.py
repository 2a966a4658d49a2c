"""The spans of one session, made from its events: run, turn, request, call, sub-agent and compaction."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns
from typing import Any

import msgspec
from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.providers.credentials.secrets import masked
from outrider.providers.deltas import TextDelta, ThinkingDelta, ToolCallDelta
from outrider.runtime import events
from outrider.telemetry import conventions as names
from outrider.telemetry.request_span import RequestSpan
from outrider.telemetry.signals import Signals
from outrider.text import shorten
from outrider.trace_context import set_trace_context

_PROPAGATOR = TraceContextTextMapPropagator()
_LONGEST_NAME = 100


class Subject(msgspec.Struct, frozen=True):
    """Whose events they are."""

    session: str
    agent: str
    model: str
    system: str = ""
    task: str = ""
    """The task of a sub-agent in a few words."""


class _Open:
    """A span that has not ended, with the context in which its children begin."""

    def __init__(self, span: Span, started: int, around: Context) -> None:
        self.span = span
        self.started = started
        self.context = set_span_in_context(span, around)

    def enter(self) -> None:
        """Make the span the current one for this task, which ends with the run, and for what the task starts."""
        otel_context.attach(self.context)
        set_trace_context(self._fields)

    def _fields(self) -> dict[str, str]:
        fields: dict[str, str] = {}
        _PROPAGATOR.inject(fields, self.context)
        return fields


class SessionTrace:
    """An observer of one session or of one sub-agent."""

    def __init__(
        self, signals: Signals, subject: Callable[[], Subject], secrets: tuple[str, ...], parent: Context | None = None
    ) -> None:
        self._signals = signals
        self._spans = signals.spans
        self._subject = subject
        self._secrets = secrets
        self._parent = parent
        self._about: dict[str, str] = {}
        self._outer = otel_context.create_key("outrider-outer")
        """Under this key a context has the one in which the session was called."""
        self._prompted_at = 0
        """When the first message came that no request has sent yet."""
        self._new_messages: list[Message] = []
        """The messages that the next request sends, if content is recorded."""
        self._run: _Open | None = None
        self._turn: _Open | None = None
        self._request: RequestSpan | None = None
        self._compaction: _Open | None = None
        self._calls: dict[str, _Open] = {}
        self._children: dict[str, tuple[str, SessionTrace]] = {}
        """The traces of sub-agents by their session, with the call that started each."""

    def __call__(self, event: events.Event) -> None:
        """Take an event."""
        if take := _TAKERS.get(type(event)):
            take(self, event)

    # Runs and turns

    def turn_started(self, event: events.TurnStarted) -> None:
        """Begin a turn, and before the first the run."""
        self._end_compaction("error")
        if self._run is None:
            self._begin_run()
        self._end_turn()
        self._turn = self._start(f"{names.TURN} {event.turn}", self._run, {names.TURN_NUMBER: event.turn})
        self._turn.enter()
        self._begin_request()

    def run_finished(self, event: events.RunFinished) -> None:
        """End the run and all that is still open in it."""
        error = event.error and masked(event.error, *self._secrets)
        if self._request:
            self._request.finish(None, error=event.status, reason=error)
            self._request = None
        self._end_compaction(event.status)
        for call in list(self._calls):
            self._end_call(call, event.status)
        self._end_turn()
        self._prompted_at = 0
        if run := self._run:
            self._run = None
            self._spans.close()
            self._spans = self._signals.spans
            usage = event.usage
            run.span.set_attributes(
                {
                    names.RUN_STATUS: event.status,
                    names.RUN_TURNS: event.turns,
                    names.RUN_INPUT_TOKENS: usage.input_tokens,
                    names.RUN_OUTPUT_TOKENS: usage.output_tokens,
                    names.FINISH_REASONS: (str(event.stop_reason),),
                }
            )
            if usage.cost is not None:
                run.span.set_attribute(names.RUN_COST, usage.cost)
            if self._signals.content:
                answer = self._signals.content.messages([Message.assistant(event.text)])
                run.span.set_attribute(names.OUTPUT_MESSAGES, answer)
            self._end(run, names.INVOKE_AGENT, event.status if event.status == "error" else "", error)

    def _begin_run(self) -> None:
        subject = self._subject()
        self._about = _about(subject.model)
        attributes = {
            names.OPERATION_NAME: names.INVOKE_AGENT,
            names.AGENT_NAME: subject.agent,
            names.CONVERSATION_ID: subject.session,
            **self._about,
        }
        if content := self._signals.content:
            attributes[names.INPUT_MESSAGES] = content.messages(self._new_messages)
            if subject.system:
                attributes[names.SYSTEM_INSTRUCTIONS] = content.instructions(subject.system)
            if subject.task:
                attributes[names.TASK] = content.text(subject.task)
        name = f"{names.INVOKE_AGENT} {subject.agent}"
        self._run = self._start(name, None, attributes, self._prompted_at)
        self._spans = self._spans.inside(self._run.span)

    def _end_turn(self) -> None:
        if self._turn:
            self._turn.span.end()
            self._turn = None

    # Requests

    def message_added(self, event: events.MessageAdded) -> None:
        """End a request with its reply, or take a message that the next one sends."""
        if event.usage is None:
            self._take_input(event.message)
            return
        self._end_compaction("error")
        request = self._request or self._begin_request()
        self._request = None
        request.finish(event.usage, event.message)

    def _take_input(self, message: Message) -> None:
        if self._request and self._run is None:  # think() has raised, and is called again
            self._request.finish(None, error="error")
            self._request = None
        self._prompted_at = self._prompted_at or time_ns()
        if self._signals.content:
            self._new_messages.append(message)

    def delta(self, _: events.Event) -> None:
        """Note the first part of a reply. A reply that continues a paused one begins without a turn."""
        (self._request or self._begin_request()).delta()

    def retrying(self, event: events.Retrying) -> None:
        """Note that the request is sent again."""
        (self._request or self._begin_request()).retry(event)

    def model_switched(self, event: events.ModelSwitched) -> None:
        """End the request of a model that could not answer, and begin that of the next one."""
        if self._request:
            self._request.finish(None, error="error", reason=masked(event.reason, *self._secrets))
            self._request = None
        self._about = _about(event.model)
        if self._run:
            self._begin_request()

    def handed_off(self, _: events.HandedOff) -> None:
        """Forget the model: the next request is that of another agent."""
        self._about = {}

    def discarded(self, event: events.ReplyDiscarded) -> None:
        """Note that a reply broke off."""
        (self._request or self._begin_request()).discard(event)

    def _begin_request(self) -> RequestSpan:
        if self._run is None or not self._about:  # think() alone, or another agent
            self._about = _about(self._subject().model)
        self._request = request = RequestSpan(self._signals, self._spans, self._about, self._here, self._new_messages)
        if self._run is None and self._prompted_at:
            request.begin_at(self._prompted_at)
        self._prompted_at, self._new_messages = 0, []
        return request

    # Calls and sub-agents

    def tool_started(self, event: events.ToolStarted) -> None:
        """Begin a call. The tool runs in a task that starts after this, and so inside the span."""
        attributes = {
            names.OPERATION_NAME: names.EXECUTE_TOOL,
            names.TOOL_NAME: event.name,
            names.TOOL_CALL_ID: event.call_id,
            names.TOOL_TYPE: "function",
            names.TOOL_EFFECT: event.effect,
        }
        if content := self._signals.content:
            attributes[names.TOOL_CALL_ARGUMENTS] = content.value(event.input)
        call = self._start(f"{names.EXECUTE_TOOL} {event.name[:_LONGEST_NAME]}", self._turn, attributes)
        self._calls[event.call_id] = call
        call.enter()

    def tool_finished(self, event: events.ToolFinished) -> None:
        """End a call. One that was refused has not begun."""
        if event.call_id not in self._calls:
            attributes = {
                names.OPERATION_NAME: names.EXECUTE_TOOL,
                names.TOOL_NAME: event.name[:_LONGEST_NAME],
                names.TOOL_CALL_ID: event.call_id,
            }
            name = f"{names.EXECUTE_TOOL} {event.name[:_LONGEST_NAME]}"
            self._calls[event.call_id] = self._start(name, self._turn, attributes)
        reason = ""
        if content := self._signals.content:
            text = content.text(event.result.text)
            self._calls[event.call_id].span.set_attribute(names.TOOL_CALL_RESULT, text)
            reason = shorten(text, 500, "[…]") if event.result.is_error else ""
        self._end_call(event.call_id, "tool_error" if event.result.is_error else "", reason)

    def _end_call(self, call_id: str, error: str, reason: str = "") -> None:
        for session, (call, child) in list(self._children.items()):
            if call == call_id:
                child.give_up()
                del self._children[session]
        self._end(self._calls.pop(call_id), names.EXECUTE_TOOL, error, reason)

    def subagent_started(self, event: events.SubagentStarted) -> None:
        """Begin the trace of a sub-agent, inside the call that started it."""
        subject = Subject(event.session, event.name, event.model, task=event.title)
        call = self._calls.get(event.call_id)
        child = SessionTrace(self._signals, lambda: subject, self._secrets, call.context if call else self._here)
        self._children[event.session] = event.call_id, child

    def subagent_event(self, event: events.SubagentEvent) -> None:
        """Pass an event on to the trace of its sub-agent."""
        if found := self._children.get(event.session):
            found[1](event.event)

    def give_up(self) -> None:
        """End what is open: no more events come."""
        if self._run:
            self.run_finished(events.RunFinished("cancelled", 0, Usage()))

    # Compactions

    def compaction_started(self, event: events.CompactionStarted) -> None:
        """Begin a compaction."""
        if self._run is None:
            self._about = _about(self._subject().model)
        attributes = {names.COMPACTION_REASON: event.reason, names.TOKENS_BEFORE: event.tokens}
        self._compaction = self._start(names.COMPACTION, self._turn, attributes)

    def compacted(self, event: events.Compacted) -> None:
        """End a compaction, with the request for the summary inside it."""
        if self._compaction is None:
            return
        request = RequestSpan(self._signals, self._spans, self._about, self._compaction.context, [])
        request.begin_at(self._compaction.started)
        request.finish(event.usage, Message.assistant(event.summary) if self._signals.content else None)
        self._compaction.span.set_attribute(names.TOKENS_AFTER, event.tokens_after)
        self._end_compaction("")

    def _end_compaction(self, error: str) -> None:
        if compaction := self._compaction:
            self._compaction = None
            self._end(compaction, "", error)
            if self._request:
                self._request.begin_at(time_ns())

    # Spans

    @property
    def _here(self) -> Context:
        """The context in which the next span begins."""
        if inner := self._turn or self._run:
            return inner.context
        if self._parent:
            return self._parent
        current = otel_context.get_current()
        outer = otel_context.get_value(self._outer, current)  # `current` may be that of a call that has ended
        return outer if isinstance(outer, Context) else otel_context.set_value(self._outer, current, current)

    def _start(self, name: str, inside: _Open | None, attributes: dict[str, Any], started: int = 0) -> _Open:
        started = started or time_ns()
        around = inside.context if inside else self._here
        return _Open(self._spans.start(name, around, SpanKind.INTERNAL, attributes, started), started, around)

    def _end(self, opened: _Open, operation: str, error: str = "", reason: str = "") -> None:
        ended = time_ns()
        if error:
            opened.span.set_attribute(names.ERROR_TYPE, error)
            opened.span.set_status(Status(StatusCode.ERROR, reason))
        opened.span.end(ended)
        if operation:
            self._spans.later(self._count_duration, operation, opened, ended, error)

    def _count_duration(self, operation: str, opened: _Open, ended: int, error: str) -> None:
        about = {names.OPERATION_NAME: operation, **self._about}
        self._signals.count_duration(ended - opened.started, about, opened.context, error)


def _about(name: str) -> dict[str, str]:
    provider, model = names.provider_and_model(name)
    return {names.PROVIDER_NAME: provider, names.REQUEST_MODEL: model}


_TAKERS: dict[type, Callable[[SessionTrace, Any], None]] = {
    events.TurnStarted: SessionTrace.turn_started,
    events.RunFinished: SessionTrace.run_finished,
    events.MessageAdded: SessionTrace.message_added,
    TextDelta: SessionTrace.delta,
    ThinkingDelta: SessionTrace.delta,
    ToolCallDelta: SessionTrace.delta,
    events.Retrying: SessionTrace.retrying,
    events.ModelSwitched: SessionTrace.model_switched,
    events.HandedOff: SessionTrace.handed_off,
    events.ReplyDiscarded: SessionTrace.discarded,
    events.ToolStarted: SessionTrace.tool_started,
    events.ToolFinished: SessionTrace.tool_finished,
    events.SubagentStarted: SessionTrace.subagent_started,
    events.SubagentEvent: SessionTrace.subagent_event,
    events.CompactionStarted: SessionTrace.compaction_started,
    events.Compacted: SessionTrace.compacted,
}
