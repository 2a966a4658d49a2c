"""The first story: several calls at once, of which one fails, and what each API is sent of it."""

from __future__ import annotations

import asyncio
import json

from outrider.cli.demo.apis import APIS, Json, body_for, results_of
from outrider.cli.demo.sample import read_file
from outrider.cli.demo.stage import Stage
from outrider.cli.styles import RED
from outrider.conversation.history import violations
from outrider.providers.render import FAILED
from outrider.runtime.agent import Agent
from outrider.runtime.session import Session

PROMPT = "Read notes.txt, winter.txt and routes.csv."


def blocks_on_the_wire(stage: Stage) -> str:
    """Three calls, one user message, four APIs."""
    stage.about("three calls at once, and one of them fails")
    session = Session(Agent(model=stage.model, tools=[read_file]), cwd=stage.sample, observer=stage.screen.show)
    stage.screen.question(PROMPT)
    ended = asyncio.run(session.run(PROMPT))
    calls = [call for message in ended.conversation for call in message.tool_calls]
    answers = [message.tool_results for message in ended.conversation if message.tool_results]
    stage.rest()
    stage.say("", "The three results are one user message of the history. On the wire:")
    for api in APIS:
        results = results_of(body_for(api, session))
        stage.say("", f"  {api.name} · {api.results}")
        for result in results:
            stage.show("  ", result, RED if is_flagged(result) else "")
        stage.check(
            {
                f"{api.name} does not get one result for each call": len(results) == len(calls),
                f"{api.name} does not get the results in the order of the calls": are_in_order(results, session),
                f"{api.name} is not told of the failure, and of it alone": [*map(is_flagged, results)]
                == [False, True, False],
            }
        )
    stage.check(
        {
            f"the run ended as {ended.status!r}, not 'done'": ended.status == "done",
            "three calls were to be made at once": len(calls) == 3,
            "their results were to be one message": len(answers) == 1,
            "the history cannot be sent": not violations(session.history.sendable()),
        }
    )
    return "Three calls at once: answered in order on four APIs, the failed one flagged."


def is_flagged(result: Json) -> bool:
    """Whether the model is told that the call failed."""
    said = json.dumps(result)
    return result.get("is_error") is True or FAILED in said or '"error":' in said


def are_in_order(results: list[Json], session: Session) -> bool:
    """Whether each result has the words of its own call."""
    words = [block.text for message in session.messages for block in message.tool_results]
    return len(words) == len(results) and all(
        json.dumps(text)[1:-1] in json.dumps(result) for text, result in zip(words, results, strict=True)
    )
