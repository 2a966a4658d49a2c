"""Evaluate an agent on a set of cases: run them as a batch, score the answers, and show what went wrong.

The batch has a name and a log: stop it at any time, and the same command goes on where it stopped.
"""

import asyncio
import tempfile
from dataclasses import dataclass

from outrider import Agent, Limits, Log
from outrider.batches import BatchLimits, Task, TaskResult, batch

CASES = {
    "What is 2+2?": "4",
    "What is 12*12?": "144",
    "What is 10-3?": "7",
    "What is the capital of France?": "Paris",
}


@dataclass
class Score:
    passed: int = 0
    seconds: float = 0.0
    cost: float = 0.0

    def add(self, result: TaskResult, *, passed: bool) -> None:
        self.passed += passed
        self.seconds += result.seconds
        self.cost += result.usage.cost or 0.0


def is_right(result: TaskResult) -> bool:
    """Judge an answer. A judge can be a model as well: `ask("Is this right? …", output=bool)`."""
    return result.is_done and result.metadata["expected"].lower() in result.text.lower()


async def main() -> None:
    # Name the models that you compare; each is a batch of its own.
    for model in ("demo",):
        agent = Agent(model, system="Answer with the result alone.", limits=Limits(max_turns=5))
        tasks = [Task(question, id=question, metadata={"expected": answer}) for question, answer in CASES.items()]
        score = Score()
        limits = BatchLimits(budget=1.00)
        with Log(tempfile.mkdtemp()) as log:  # use a permanent folder to be able to continue
            async for result in batch(agent, tasks, log=log, name=f"arithmetic-{model}", workers=4, limits=limits):
                passed = is_right(result)
                score.add(result, passed=passed)
                if not passed:
                    print(f"✗ {result.id} → {result.text[:60]!r} {result.error} (session {result.session})")
        print(f"{model}: {score.passed} of {len(CASES)}, {score.seconds:.1f} s, ${score.cost:.2f}")


asyncio.run(main())
