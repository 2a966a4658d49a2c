"""What a user tries first, run by the Python of an environment into which only the distribution was installed.

python smoke.py FOLDER [EXTRA [ADDRESS OF A DATABASE]]
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import outrider
from outrider import Agent, Log, Session, think, tool
from outrider.batches import batch
from outrider.testing import ScriptedModel, call


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def plain(folder: Path) -> None:
    """Every public name, a model, a tool, a durable session, the program."""
    assert all(hasattr(outrider, name) for name in outrider.__all__)
    assert think("What is 2+2?", model="demo") == "4"
    asyncio.run(durable(str(folder / "log")))
    program = Path(sys.executable).with_name("outrider")
    assert outrider.__version__ in subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    said = subprocess.run([program, "-p", "What is 2+2?", "--model", "demo"], capture_output=True, text=True)
    assert said.stdout.strip() == "4", said


async def durable(place: str) -> None:
    """Run a tool in a session of a log, and open the session again."""
    agent = Agent(ScriptedModel([call("add", a=2, b=2), "It is 4."]), tools=[add])
    with Log(place) as log:
        async with Session.open(log, agent=agent) as session:
            result = await session.run("What is 2+2?")
            assert (result.status, result.text) == ("done", "It is 4.")
        assert [message.role for message in log.messages(session.id)] == ["user", "assistant", "user", "assistant"]


async def many(address: str) -> None:
    """Run a batch on a database."""
    agent = Agent(ScriptedModel(lambda request: "done"))
    with Log(address) as log:
        found = [each async for each in batch(agent, ["one", "two", "three"], log=log, workers=2, name="smoke")]
    assert [each.text for each in found] == ["done"] * 3


def traced() -> None:
    """Run an agent with telemetry, and find its span."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    meters = MeterProvider()
    with outrider.telemetry.Telemetry(tracer_provider=provider, meter_provider=meters) as telemetry:
        asyncio.run(Agent("demo").run("What is 2+2?", observer=telemetry))
    provider.force_flush()
    assert any(span.name.startswith("invoke_agent") for span in spans.get_finished_spans())


def through_litellm() -> None:
    """Make a request through LiteLLM; without a key it is refused before it leaves."""
    refused = ""
    try:
        think("Hello", model="litellm/groq/llama-3.3-70b-versatile")
    except outrider.ProviderError as error:
        refused = str(error)
    assert "key" in refused.lower(), refused


def main() -> None:
    """Try the plain parts, then those of the extra."""
    folder, extra, address = Path(sys.argv[1]), *(*sys.argv[2:], "", "")[:2]
    plain(folder)
    if extra == "postgres":
        asyncio.run(durable(address))
    elif extra == "dbos":
        asyncio.run(many(address))
    elif extra == "otel":
        traced()
    elif extra == "litellm":
        through_litellm()
    print("all of it works")


if __name__ == "__main__":
    main()
