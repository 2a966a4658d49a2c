"""Evaluate an Outrider agent with Inspect (inspect_ai): its data sets, scorers, log viewer and limits around our agent.

    pip install inspect_ai                                # beside Outrider
    python examples/inspect_eval.py                       # the demo model
    inspect eval examples/inspect_eval.py -T model=openai/fast
    inspect view                                          # look at the samples

Each sample runs in a session of its own in a durable log. If the evaluation is stopped, the same session goes on when
the sample is run again with the same `run` name.
"""

import tempfile
from hashlib import sha256

import inspect_ai
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, solver

from outrider import Agent, Limits, Log, RunResult, Session

CASES = {"What is 2+2?": "4", "What is 12*12?": "144", "What is 10-3?": "7"}


@solver  # type: ignore[untyped-decorator,unused-ignore]
def outrider_agent(model: str, run: str, folder: str) -> Solver:
    """Answer a sample with an agent instead of the model of the evaluation."""
    agent = Agent(model, system="Answer with the result alone.", limits=Limits(max_turns=20))
    log = Log(folder)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        name = sha256(f"{run} {state.sample_id} {state.epoch}".encode()).hexdigest()[:32]
        async with Session.open(log, name, agent, create=True) as session:
            result = await session.run("" if session.messages else state.input_text)
        state.output = output_of(session.provider.name, result)
        state.messages.append(state.output.message)
        state.metadata["outrider_session"] = session.id  # `outrider sessions show ID` has all calls
        state.completed = True
        return state

    return solve


def output_of(model: str, result: RunResult) -> ModelOutput:
    """Return the answer with its usage, or the reason why there is none."""
    if result.status == "error":
        raise RuntimeError(result.error)  # Inspect records it as the error of the sample
    used = result.usage
    output = ModelOutput.from_content(
        model, result.text, stop_reason="stop" if result.status == "done" else "max_tokens"
    )
    output.usage = ModelUsage(
        input_tokens=used.input_tokens, output_tokens=used.output_tokens, total_tokens=used.total_tokens
    )
    return output


@task  # type: ignore[untyped-decorator,unused-ignore]
def arithmetic(model: str = "demo", run: str = "first", folder: str = "") -> Task:
    """Sums, judged by whether the answer includes the target."""
    place = folder or tempfile.mkdtemp()  # use a permanent folder to be able to continue
    samples = [
        Sample(id=str(number), input=question, target=answer) for number, (question, answer) in enumerate(CASES.items())
    ]
    return Task(dataset=samples, solver=outrider_agent(model, run, place), scorer=includes())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as logs:
        (ended,) = inspect_ai.eval(arithmetic(), model="none", display="none", log_dir=logs)
    assert ended.results, ended.error
    print(f"{ended.status}: accuracy {ended.results.scores[0].metrics['accuracy'].value:.2f}")
