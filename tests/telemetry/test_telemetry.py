"""Telemetry, received by a local OTLP endpoint: each span, its place, and what is not in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

from outrider import Agent, Allow, Deny, Message, Session, Usage
from outrider.coding.config.loading import load
from outrider.coding.workbench import Workbench
from outrider.environment import data_folder
from outrider.errors import ConfigError, ProviderError, UnavailableError
from outrider.log.log import Log
from outrider.providers.base import Reply, StopReason
from outrider.telemetry import Telemetry, conventions
from outrider.testing import ScriptedModel, call
from outrider.trace_context import trace_context
from tests.mcp.starting import scripted
from tests.runtime.test_compaction import look, working
from tests.subagents.teams import Team, play, task
from tests.telemetry.sink import Sink, sink

SECRET = "sk-ant-REDACTED"


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    with sink() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        yield received


async def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"sunny in {city}"


def replied(*parts: object, **usage: float) -> Reply:
    message = Message.assistant(*parts)
    return Reply(message, StopReason.TOOL_USE if message.tool_calls else StopReason.END, Usage(**usage))


async def test_a_run_is_a_tree_of_spans_with_tokens_and_cost(endpoint: Sink) -> None:
    first = replied("Hm.", call("weather", city="Rome"), input_tokens=100, output_tokens=7, cached_tokens=60, cost=0.5)
    model = ScriptedModel([first, replied("Sunny.", input_tokens=120, output_tokens=3, reasoning_tokens=2, cost=0.25)])
    with Telemetry() as telemetry:
        session = Session(Agent(model, tools=[weather], name="guide"), observer=telemetry)
        await session.run("How is Rome?")
    assert endpoint.tree() == [
        "invoke_agent guide",
        "  turn 1",
        "    chat scripted",
        "    execute_tool weather",
        "  turn 2",
        "    chat scripted",
    ]
    run, turn, chat, tool, _, last = endpoint.spans
    assert endpoint.service == "outrider"
    assert len({span.trace for span in endpoint.spans}) == 1
    assert all(span.start <= span.end for span in endpoint.spans)
    assert run.start <= turn.start <= chat.start <= chat.end <= tool.end <= turn.end <= run.end
    assert run.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "gen_ai.agent.name": "guide",
        "gen_ai.conversation.id": session.id,
        "gen_ai.response.finish_reasons": ["end"],
        "outrider.run.status": "done",
        "outrider.run.turns": 2,
        "outrider.run.input_tokens": 220,
        "outrider.run.output_tokens": 10,
        "outrider.run.cost": 0.75,
    }
    assert chat["gen_ai.operation.name"] == "chat"
    assert chat["gen_ai.usage.input_tokens"] == 100
    assert chat["gen_ai.usage.cache_read.input_tokens"] == 60
    assert chat["gen_ai.usage.cost"] == 0.5
    assert chat["gen_ai.response.finish_reasons"] == ["tool_call"]
    assert chat["gen_ai.response.time_to_first_chunk"] >= 0
    assert last["gen_ai.usage.reasoning.output_tokens"] == 2
    assert tool["gen_ai.tool.name"] == "weather"
    assert tool["gen_ai.tool.call.id"] == "call_1"
    assert not any(span.failed for span in endpoint.spans)


async def test_each_model_and_each_agent_has_its_own_requests(endpoint: Sink) -> None:
    first, second = ScriptedModel([UnavailableError(f"down {SECRET}")]), ScriptedModel([call("handoff", to="billing")])
    first.name, second.name = "a/x", "b/y"
    third = ScriptedModel([replied("Done.", input_tokens=5)])
    third.name = "c/z"
    agent = Agent([first, second], name="triage", handoffs=[Agent(third, name="billing")])
    with Telemetry() as telemetry:
        assert (await agent.run("Pay", observer=telemetry)).status == "done"
    assert endpoint.tree() == [
        *("invoke_agent triage", "  turn 1", "    chat x", "    chat y", "    execute_tool handoff"),
        *("  turn 2", "    chat z"),
    ]
    chats = [span for span in endpoint.spans if span.attributes.get("gen_ai.operation.name") == "chat"]
    assert [(span["gen_ai.provider.name"], span.failed) for span in chats] == [("a", True), ("b", False), ("c", False)]


async def test_metrics_count_tokens_cost_and_seconds(endpoint: Sink) -> None:
    model = ScriptedModel([replied("Yes.", input_tokens=100, output_tokens=7, cost=0.5)])
    with Telemetry() as telemetry:
        await Agent(model).run("Well?", observer=telemetry)
    tokens = {_kind(point): point.sum for point in endpoint.metrics["gen_ai.client.token.usage"]}
    assert tokens == {"input": 100, "output": 7}
    assert [point.as_double for point in endpoint.metrics["outrider.cost"]] == [0.5]
    assert sum(point.count for point in endpoint.metrics["gen_ai.client.operation.duration"]) == 2


def _kind(point: object) -> str:
    return next(each.value.string_value for each in point.attributes if each.key == "gen_ai.token.type")  # type: ignore[attr-defined]


async def test_without_capture_no_text_leaves_the_process(endpoint: Sink) -> None:
    model = ScriptedModel([["PRIVATE-REPLY", call("weather", city="PRIVATE-CITY")], ProviderError("no answer")])
    with Telemetry() as telemetry:
        await Agent(model, system="PRIVATE-SYSTEM", tools=[weather]).run("PRIVATE-PROMPT", observer=telemetry)
    assert endpoint.spans
    assert b"PRIVATE" not in b"".join(body for _, body in endpoint.bodies)


async def test_capture_records_text_but_never_a_key(endpoint: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", "hunter2-hunter2")
    model = ScriptedModel([[f"I know {SECRET} too", call("weather", city="Rome hunter2-hunter2")], "Sunny."])
    agent = Agent(model, system="Be kind.", tools=[weather])
    with Telemetry(capture=True) as telemetry:
        await agent.run(f"My key is {SECRET} now", observer=telemetry)
    run, _, chat, tool, _, last = endpoint.spans
    assert json.loads(run["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "My key is … now"}]}
    ]
    assert json.loads(run["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be kind."}]
    assert json.loads(run["gen_ai.output.messages"])[0]["parts"][0]["content"] == "Sunny."
    assert json.loads(chat["gen_ai.output.messages"])[0]["parts"][1] == {
        "type": "tool_call",
        "id": "call_1",
        "name": "weather",
        "arguments": {"city": "Rome …"},
    }
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"city": "Rome …"}
    assert tool["gen_ai.tool.call.result"] == "sunny in Rome …"
    assert json.loads(last["gen_ai.input.messages"])[0]["parts"][0]["type"] == "tool_call_response"
    sent = b"".join(body for _, body in endpoint.bodies)
    assert SECRET.encode() not in sent
    assert b"hunter2" not in sent


async def test_capture_takes_any_text(endpoint: Sink) -> None:
    model = ScriptedModel([["\ud800 \x00", call("weather", city="\udfff")], "x" * 100_000])
    with Telemetry(capture=True) as telemetry:
        await Agent(model, tools=[weather]).run("\ud83d alone", observer=telemetry)
    run = endpoint.named("invoke_agent agent")
    assert "alone" in run["gen_ai.input.messages"]
    assert len(run["gen_ai.output.messages"]) < 30_000
    assert len(endpoint.spans) == 6


async def test_a_failed_run_and_its_request_are_errors(endpoint: Sink) -> None:
    with Telemetry() as telemetry:
        await Agent(ScriptedModel([ProviderError(f"bad key {SECRET}")])).run("Go.", observer=telemetry)
    run, _, chat = endpoint.spans
    assert run.failed
    assert chat.failed
    assert run["error.type"] == "error"
    assert run.reason == chat.reason == "bad key …"


async def test_a_request_that_is_retried_is_one_span(endpoint: Sink) -> None:
    model = ScriptedModel(
        [UnavailableError("busy", retryable=True, retry_after=0.01), replied("Here.", input_tokens=5)]
    )
    with Telemetry() as telemetry:
        result = await Agent(model).run("Go.", observer=telemetry)
    assert result.status == "done"
    assert endpoint.named("chat scripted").events == ["outrider.retry"]
    assert not endpoint.named("chat scripted").failed


async def test_calls_that_fail_or_are_denied_are_errors(endpoint: Sink) -> None:
    def broken() -> str:
        """Break."""
        raise ValueError("no")

    def decide(use: object, tool: object) -> Allow | Deny:
        return Deny("not today") if use.name == "weather" else Allow()  # type: ignore[attr-defined]

    model = ScriptedModel([[call("broken"), call("weather", city="Rome")], "Done."])
    with Telemetry() as telemetry:
        await Agent(model, tools=[broken, weather]).run("Go.", observer=telemetry, approve=decide)
    for name in ("execute_tool broken", "execute_tool weather"):
        assert endpoint.named(name).failed
        assert endpoint.named(name)["error.type"] == "tool_error"


async def test_a_subagent_is_inside_the_call_that_started_it(endpoint: Sink) -> None:
    team = Team(play([task("dig"), "Done."], {"dig": ["Dug."]}))
    with Telemetry() as telemetry:
        team.session.observe(telemetry)
        await team.run()
    assert endpoint.tree() == [
        "invoke_agent agent",
        "  turn 1",
        "    chat scripted",
        "    execute_tool Task",
        "      invoke_agent Helper",
        "        turn 1",
        "          chat scripted",
        "  turn 2",
        "    chat scripted",
    ]
    assert endpoint.named("invoke_agent Helper")["gen_ai.conversation.id"] != team.session.id


async def test_a_compaction_is_a_span_with_its_request(endpoint: Sink) -> None:
    agent = Agent(ScriptedModel(working(4), window=100_000), tools=[look])
    with Telemetry() as telemetry:
        session = Session(agent, observer=telemetry)
        await session.run("Count the files.")
        await session.compact()
    tree = endpoint.tree()
    assert tree[-2:] == ["compaction", "  chat scripted"]
    compaction = endpoint.named("compaction")
    assert compaction["outrider.compaction.reason"] == "manual"
    assert compaction["outrider.compaction.tokens_after"] < compaction["outrider.compaction.tokens_before"]


async def test_a_thought_alone_is_one_span(endpoint: Sink) -> None:
    with Telemetry() as telemetry:
        await Session(Agent(ScriptedModel(["Yes."])), observer=telemetry).think("Well?")
    assert endpoint.tree() == ["chat scripted"]


async def test_one_telemetry_keeps_sessions_apart(endpoint: Sink) -> None:
    import asyncio

    agents = [Agent(ScriptedModel([call("weather", city="Rome"), "Done."]), tools=[weather]) for _ in range(5)]
    with Telemetry() as telemetry:
        await asyncio.gather(*(agent.run("Go.", observer=telemetry) for agent in agents))
    assert len({span.trace for span in endpoint.spans}) == 5
    assert endpoint.tree().count("    execute_tool weather") == 5


async def test_spans_of_the_caller_and_of_tools_join_the_trace(endpoint: Sink) -> None:
    from outrider.telemetry.telemetry import tracer_provider

    provider = tracer_provider(at_exit=False)
    tracer = provider.get_tracer("program")

    async def measure() -> str:
        """Measure."""
        with tracer.start_as_current_span("inside"):
            return "1"

    model = ScriptedModel([[call("measure"), call("measure")], "Done."])
    with Telemetry(tracer_provider=provider) as telemetry, tracer.start_as_current_span("program"):
        await Agent(model, tools=[measure]).run("Go.", observer=telemetry)
    provider.shutdown()
    assert endpoint.tree() == [
        "program",
        "  invoke_agent agent",
        "    turn 1",
        "      chat scripted",
        "      execute_tool measure",
        "        inside",
        "      execute_tool measure",
        "        inside",
        "    turn 2",
        "      chat scripted",
    ]


async def test_an_mcp_server_receives_the_trace(endpoint: Sink, tmp_path: Path) -> None:
    record = tmp_path / "record"
    model = ScriptedModel([call("mcp__scripted__echo", text="hello"), "Done."])
    agent = Agent(model, mcp=[scripted(record=str(record), timeout=60)])
    with Telemetry() as telemetry:
        await agent.run("Say hello", observer=telemetry)
    (sent,) = (line for line in map(json.loads, record.read_text().splitlines()) if line.get("method") == "tools/call")
    call_span = endpoint.named("execute_tool mcp__scripted__echo")
    assert sent["params"]["_meta"]["traceparent"].split("-")[1:3] == [call_span.trace, call_span.id]
    assert not trace_context()


async def test_a_command_of_the_coding_agent_receives_the_trace(
    endpoint: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_TELEMETRY", "true")
    monkeypatch.setenv("OUTRIDER_MODEL", "demo")
    monkeypatch.setenv("OUTRIDER_PERMISSIONS", "all")
    monkeypatch.setenv("OUTRIDER_SANDBOX", "off")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20open-sesame")
    model = ScriptedModel([call("Bash", command="echo $TRACEPARENT; env", description="look"), "Done."])
    bench = Workbench(load(tmp_path, environment=os.environ).settings, tmp_path)
    with Log(data_folder()) as log:
        session = bench.open(log)
        session.agent = session.agent.replace(model=model)
        result = await session.run("Go.")
        await session.aclose()
    bench.close()
    printed = next(block.text for message in result.messages for block in message.tool_results)
    span = endpoint.named("execute_tool Bash")
    assert printed.split("-")[1:3] == [span.trace, span.id]
    assert "open-sesame" not in printed
    assert endpoint.headers[0]["authorization"] == "Basic open-sesame"


def test_a_program_that_ends_sends_what_is_left(endpoint: Sink) -> None:
    program = (
        "import asyncio; from outrider import Agent; from outrider.telemetry import Telemetry; "
        "asyncio.run(Agent('demo').run('Hello', observer=Telemetry()))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100, env=dict(os.environ))
    assert endpoint.tree()[0] == "invoke_agent agent"


def test_without_telemetry_nothing_of_opentelemetry_is_imported() -> None:
    program = (
        "import asyncio, sys; from outrider import Agent; asyncio.run(Agent('demo').run('Hello')); "
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100, env=dict(os.environ))


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin", "otlp, console or none"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
    ],
)
def test_variables_that_cannot_be_used_are_named(
    variable: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=variable) as error:
        Telemetry()
    assert says in str(error.value)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with pytest.raises(ConfigError, match=r"pip install 'PATH\[otel\]'"):
        Telemetry()


def test_the_names_are_those_of_the_conventions() -> None:
    known = {value for value in vars(gen_ai_attributes).values() if isinstance(value, str)}
    known |= {value for value in vars(gen_ai_metrics).values() if isinstance(value, str)}
    ours = {value for value in vars(conventions).values() if isinstance(value, str) and value.startswith("gen_ai.")}
    assert ours - known == {"gen_ai.usage.cost"}
