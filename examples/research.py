"""Research in parallel: one agent for each question, typed reports, and one agent that weighs them."""

import asyncio
from dataclasses import dataclass

from outrider import Agent, Limits, tool
from outrider.providers import Request
from outrider.testing import ScriptedModel, Step, call

LIBRARY = {
    "cost": "A heat pump costs 12,000, and 900 a year. A gas boiler costs 5,000, and 1,900 a year.",
    "noise": "A heat pump is about as loud as a refrigerator, 40 dB at three metres.",
}


@dataclass
class Finding:
    claim: str
    source: str
    confidence: float


@dataclass
class Report:
    findings: list[Finding]
    open_questions: list[str]


@tool(effect="read")
def search(topic: str) -> str:
    """Search the library for a topic."""
    return LIBRARY.get(topic, "nothing found")


def play(request: Request) -> Step:
    """Stand in for a model in this example."""
    topic = request.messages[0].text.split()[-1].strip("?")
    if not any(each.name == "search" for each in request.tools):
        return "Buy the heat pump: it is quiet, and cheaper after seven years."
    if len(request.messages) == 1:
        return call("search", topic=topic)
    found = request.messages[-1].tool_results[0].text
    finding = {"claim": found, "source": f"library: {topic}", "confidence": 0.9}
    return call("report_back", findings=[finding], open_questions=[])


async def main() -> None:
    model = ScriptedModel(play)  # use the name of a real model instead
    researcher = Agent(
        model,
        system="Answer one question from the library. Report claims with their sources.",
        tools=[search],
        limits=Limits(max_turns=8, max_cost=0.20),
        name="researcher",
    )
    questions = ["What about the cost?", "What about the noise?"]
    at_once = asyncio.Semaphore(5)  # requests to an API are limited

    async def report_on(question: str) -> Report:
        async with at_once:
            return await researcher.ask(question, Report)

    reports = await asyncio.gather(*(report_on(question) for question in questions))
    findings = [finding for report in reports for finding in report.findings if finding.confidence > 0.5]
    for finding in findings:
        print(f"- {finding.claim} [{finding.source}]")
    editor = Agent(model, system="Weigh the findings, and answer in one sentence.", name="editor")
    print(await editor.ask("Heat pump or gas boiler?\n\n" + "\n".join(finding.claim for finding in findings)))


asyncio.run(main())
