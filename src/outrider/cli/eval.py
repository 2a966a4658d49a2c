"""`outrider eval`: let models try tasks, and say how many they solve."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.cli.command_parser import command_parser, reported
from outrider.cli.options import WRONG_INPUT, UsageError
from outrider.cli.styles import aligned, fit
from outrider.environment import LOG_HELP
from outrider.text import counted, dollars, thousands
from outrider.text.visible import safe_line, safe_lines

if TYPE_CHECKING:
    from outrider.batches.task import TaskResult
    from outrider.evals.containers import TrialContainers
    from outrider.evals.figures import Figures
    from outrider.evals.task_folder import TaskFolder
    from outrider.evals.trial import Outcome, Trial
    from outrider.evals.verifier import Verdict

LONGEST_MODEL = 36
LONGEST_ERROR = 300
DESCRIPTION = """\
Let models try tasks, each several times, and say how many they solve, how sure that is, and what it costs. A task is a
folder in Harbor's format: task.toml, instruction.md, environment/, tests/test.sh, solution/. Each trial is a session
in a copy of the environment, with the permissions `all` in the sandbox; the tests run afterwards on a copy of what it
left. A task with an image or a Dockerfile gets a container for each trial, where docker or podman runs; --image IMAGE
gives one to the others, with their files in /app. Results are appended to the output file, each once, whatever is
killed when; --resume continues. Results at one temperature still differ from run to run, so repeat: a task that only
some trials solve is listed. A trial that ended with an error, as of the API, says nothing of the model: it does not
count, and --resume starts it again.
"""
EXAMPLES = """\
examples:
  outrider eval tasks/ --oracle
  outrider eval tasks/ -o before.jsonl --model anthropic/fast --repeats 3
  outrider eval tasks/ -o after.jsonl --model anthropic/fast --repeats 3 --set lean=on --against before.jsonl
  outrider eval tasks/ -o both.jsonl --model ollama/qwen3 --model openai/fast --budget 5 --resume
  outrider eval tasks/ -o boxed.jsonl --model openai/fast --image python:3.12
  outrider eval --show after.jsonl --against before.jsonl

exit codes: 0 all trials have results, 1 error, also of a trial, or the oracle found a task that is wrong, 2 wrong
  usage, 3 budget used up, 130 interrupted, 143 terminated
"""


def eval(arguments: list[str]) -> int:  # noqa: A001 - the name of the command
    options = make_parser().parse_args(arguments)

    def run() -> int:
        _check(options)
        if options.show:
            return _print_report(options.show, options.against)
        if options.against and not options.oracle:
            _read(options.against)  # its error comes before anything is spent
        from outrider.evals.task_folder import find_tasks  # imported late, so that --help stays fast

        tasks = [task.slowed(options.timeout_multiplier) for task in find_tasks(map(Path, options.tasks))]
        return _start([task.in_image(options.image) for task in tasks] if options.image else tasks, options)

    return reported("eval", run, (*WRONG_INPUT, ValueError))


def make_parser() -> argparse.ArgumentParser:
    parser = command_parser("eval", DESCRIPTION, EXAMPLES)
    add = parser.add_argument
    add("tasks", nargs="*", metavar="TASKS", help="folders of tasks, or with tasks in them")
    add("-o", "--output", metavar="FILE", help="the file that results are appended to")
    add("-m", "--model", action="append", default=[], metavar="MODEL", help="the model to try; may be repeated")
    add("--repeats", type=int, default=1, metavar="N", help="trials of each task and model (default 1)")
    add(
        *("--set",),
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the agent that is measured, as in lean=on; may be repeated",
    )
    add(
        *("--image",),
        metavar="IMAGE",
        help="make a container of this image for each trial of a task that has none of its own",
    )
    add("--in", dest="place", help=argparse.SUPPRESS)  # refused with a reason
    add("--against", metavar="FILE", help="compare with the results of an earlier eval")
    add("--resume", action="store_true", help="continue: run the trials that have no result, or an error")
    add("--workers", type=int, default=2, metavar="N", help="trials that run at once (default 2)")
    add("--budget", metavar="DOLLARS", help="stop when all trials together have cost this much")
    add("--max-turns", type=int, metavar="N", help="stop a trial after N model replies (default 50)")
    add(
        *("--timeout-multiplier",),
        type=float,
        default=1.0,
        metavar="X",
        help="give the agent X times the seconds of each task, for slow models (default 1)",
    )
    add("--log", metavar="PLACE", help=LOG_HELP)
    add("--oracle", action="store_true", help="check the tasks: their solutions pass, and nothing does not")
    add("--show", metavar="FILE", help="print the table of an eval, and run nothing")
    add("-q", "--quiet", action="store_true", help="print only the table")
    return parser


def _check(options: argparse.Namespace) -> None:
    from outrider.cli.batch import positive

    if options.show:
        return
    if options.place is not None:
        raise UsageError(
            "an eval has no --in: each trial begins with an untouched environment, which a place that is there already "
            "cannot give. Use --image IMAGE for a container for each trial, or run outrider eval on the other machine"
        )
    if not options.tasks:
        raise UsageError("name a folder with tasks, as in outrider eval tasks/")
    if options.oracle:
        return
    if not options.output:
        raise UsageError("--output FILE is missing: the results go there")
    if not options.model:
        raise UsageError("--model MODEL is missing: an eval says which models it measures")
    if options.repeats < 1 or options.workers < 1:
        raise UsageError("--repeats and --workers must be 1 or more")
    if not 0 < options.timeout_multiplier <= 1_000:
        raise UsageError("--timeout-multiplier must be over 0, and at most 1000")
    if options.budget is not None:
        options.budget = positive("--budget", options.budget)


def _start(tasks: Sequence[TaskFolder], options: argparse.Namespace) -> int:
    """Check the tasks, or try them, in containers where they need one. Those that cannot be run here are named."""
    containers, why = _containers(tasks)
    several = "Outrider makes one, not several"
    left_out = {task.name: several if task.is_composed else why for task in tasks if task.container}
    for task in tasks:
        if reason := left_out.get(task.name):
            said = f"{task.name} is left out: it needs a container ({task.container}), and {reason}"
            print(safe_lines(f"outrider eval: {said}"), file=sys.stderr)
    possible = [task for task in tasks if not left_out.get(task.name)]
    if not possible:
        raise UsageError("every task needs a container; there is nothing to run here")
    try:
        return asyncio.run(_oracle(possible, containers)) if options.oracle else _run(possible, options, containers)
    finally:
        if containers:
            asyncio.run(containers.close())


def _containers(tasks: Sequence[TaskFolder]) -> tuple[TrialContainers | None, str]:
    """Return what makes containers, or why there is nothing that does."""
    if not any(task.container for task in tasks):
        return None, ""
    from outrider.coding.config.loading import load
    from outrider.coding.hands.containers import Containers, Engine
    from outrider.errors import HandsError
    from outrider.evals.containers import TrialContainers

    try:
        engine = Engine(load(Path.cwd(), environment=os.environ).settings.container_program or "")
        asyncio.run(engine.run("ps", "--quiet"))
    except HandsError as error:
        return None, str(error)
    return TrialContainers(Containers(engine)), ""


# The oracle


async def _oracle(tasks: Sequence[TaskFolder], containers: TrialContainers | None) -> int:
    """Show for each task that its tests fail on the untouched environment, and pass after its solution."""
    from outrider.evals.verifier import verify

    async def tried(task: TaskFolder, script: Path | None) -> Verdict:
        if containers and task.container:
            return await containers.try_solution(task, script)
        return await verify(task, task.environment, script)

    wrong = 0
    for task in tasks:
        before = await tried(task, None)
        after = await tried(task, task.solution) if task.solution else None
        faults = ["the tests pass without a solution"] if before.is_solved else []
        faults += ["it has no solution/solve.sh"] if after is None else []
        if error := before.error or (after.error if after else ""):
            faults.append(error)
        elif after and not after.is_solved:
            faults.append(f"the solution fails: {after.output.strip()[-300:]}")
        print(f"wrong {task.name}: {'; '.join(faults)}" if faults else f"ok    {task.name}", flush=True)
        wrong += bool(faults)
    print(f"{len(tasks) - wrong} of {len(tasks)} tasks are sound.")
    return 1 if wrong else 0


# Trials


def _run(tasks: Sequence[TaskFolder], options: argparse.Namespace, containers: TrialContainers | None) -> int:
    from outrider.cli.batch_run import BatchRun
    from outrider.coding.batch_sessions import check_task
    from outrider.environment import workspaces_folder
    from outrider.evals.trial import store, trials_of
    from outrider.sync import default_log

    results = Path(options.output).absolute()
    folder = workspaces_folder() / "evals" / _name_of(results)
    if not options.resume and not results.exists():
        shutil.rmtree(folder, ignore_errors=True)  # what an earlier eval with this output file has written
    trials = trials_of(tasks, options.model, options.repeats, folder)
    if options.resume and results.exists():
        errors = _errors(options.output)
        trials = [each.started_after(errors[each.task.name, each.model, each.repeat]) for each in trials]
    settings = dict(map(_setting, options.set))
    limits: dict[str, Any] = {} if options.max_turns is None else {"max_turns": options.max_turns}
    if containers:
        done = _done(options) if options.resume else set()
        asyncio.run(containers.prepare(trial for trial in trials if trial.task.container and trial.id not in done))
    made = [trial.batch_task(settings | _place(trial, containers), limits).checked() for trial in trials]
    for task in {task.model: task for task in made}.values():
        check_task(task, os.environ, here=False)
    for trial in trials:
        trial.prepare()
    options.concurrency, options.rates, options.wait = 1, {}, False
    with default_log() as log:
        keep = partial(store, log, folder.name)
        judge = _Judge({trial.id: trial for trial in trials}, options.workers, keep, containers)
        code = BatchRun(options, judge).run_tasks(made)
    if not _outcomes(options.output):
        return code  # it was stopped before the first result
    wrong = _print_report(options.output, options.against)
    print("`outrider serve` shows it with plots, and each trial.", file=sys.stderr)
    return wrong if code in (0, 1) else code  # limits that were reached are results


def _done(options: argparse.Namespace) -> set[str]:
    """Return the ids of the trials that have a result."""
    from outrider.batches.files import ResultsFile

    with ResultsFile(options.output, resume=True) as results:
        return set(results.ids)


def _errors(output: str) -> Counter[tuple[str, str, int]]:
    """Return how often each trial has ended with an error."""
    from outrider.batches.files import ResultsFile

    with ResultsFile(output, resume=True):  # cuts off a line that a kill left unfinished
        return Counter(each.trial for each in _outcomes(output) if each.is_error)


def _place(trial: Trial, containers: TrialContainers | None) -> dict[str, str]:
    return containers.settings(trial) if containers and trial.id in containers.names else {}


def _name_of(results: Path) -> str:
    from hashlib import sha256

    return f"{results.stem}-{sha256(os.fsencode(results)).hexdigest()[:8]}"


def _setting(text: str) -> tuple[str, Any]:
    from outrider.coding.config.editing import parsed
    from outrider.coding.config.settings import SETTINGS

    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise UsageError(f"--set {text}: write a key and a value, as in --set lean=on")
    if key == "workspace":
        raise UsageError("--set workspace: a trial works in a copy of its environment, or in the container of its task")
    return key, parsed(key, [value]) if key in SETTINGS else value  # other keys are named when the task is checked


class _Judge:
    """Runs the tests of trials, a few at a time."""

    def __init__(
        self,
        trials: Mapping[str, Trial],
        at_once: int,
        store: Callable[[Outcome], None],
        containers: TrialContainers | None,
    ) -> None:
        self._trials, self._store, self._containers = trials, store, containers
        self._room = asyncio.Semaphore(at_once)

    async def __call__(self, result: TaskResult) -> TaskResult | None:
        """Return the result with what the tests say; None for one of more repeats or tasks that began before."""
        from outrider.evals.trial import judged, outcome_of
        from outrider.evals.verifier import verify

        if (trial := self._trials.get(result.id)) is None:
            return None
        async with self._room:
            in_container = self._containers if trial.task.container else None
            verdict = await (in_container.verify(trial) if in_container else verify(trial.task, trial.folder))
            result = judged(result, verdict)
            outcome = outcome_of(result)
            if outcome and outcome.session:
                await asyncio.to_thread(self._store, outcome)
            return result


# The table


def _read(name: str) -> list[Outcome]:
    """Return the outcomes in a results file, one for each trial. Raises UsageError."""
    from outrider.evals.trial import standing

    if outcomes := standing(_outcomes(name)):
        return outcomes
    raise UsageError(f"{name} has no results of an eval")


def _outcomes(name: str) -> list[Outcome]:
    """Return all outcomes in a results file. Raises UsageError."""
    import msgspec

    from outrider.batches.files import is_torn
    from outrider.batches.task import TaskResult
    from outrider.evals.trial import outcome_of
    from outrider.struct_types import described

    decoder = msgspec.json.Decoder(described(TaskResult))
    try:
        with Path(name).open("rb") as lines:
            found = [outcome_of(decoder.decode(line)) for line in lines if not is_torn(line)]
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError:
        raise UsageError(f"{name} is not the results file of an eval") from None
    return [outcome for outcome in found if outcome]


def _print_report(name: str, against: str | None) -> int:
    """Print the table of a results file. Return the exit code: 1 if there are trials that ended with an error."""
    outcomes = _read(name)
    print("\n".join(_report(outcomes, against)))
    return int(any(each.is_error for each in outcomes))


def _report(outcomes: Sequence[Outcome], against: str | None) -> list[str]:
    from outrider.evals.figures import comparison_lines

    lines = _table_lines(outcomes)
    return [*lines, *comparison_lines(outcomes, _read(against))] if against else lines


def _table_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a row for each model, and the tasks whose trials disagree."""
    from outrider.evals.figures import figures_of

    found = figures_of(outcomes)
    rows = [["model", "solved", "95 %", "trials", "turns", "tokens", "seconds", "cost"], *map(_row, found)]
    if any(each.errors for each in found):
        rows = [[*row, last] for row, last in zip(rows, ["errors", *(str(each.errors) for each in found)], strict=True)]
    lines = list(aligned(rows))
    for each in found:
        if each.errors:
            lines.append(fit(safe_line(f"{each.model}: {_said_of_errors(each)}"), LONGEST_ERROR))
        if each.sometimes:
            lines.append(safe_line(f"{each.model}: some trials solve {', '.join(each.sometimes)}; others do not."))
    return lines


def _said_of_errors(figures: Figures) -> str:
    count = f"{figures.errors} of {counted(figures.trials, 'trial')}"
    return f"{count} ended with an error, which does not count; --resume starts them again. The first: {figures.reason}"


def _row(figures: Figures) -> list[str]:
    low, high = figures.interval
    known = [
        f"{figures.solved:.0%}",
        f"{low:.0%}-{high:.0%}",
        str(figures.trials - figures.errors),
        f"{figures.turns:.1f}",
        thousands(round(figures.tokens)),
        f"{figures.seconds:.1f}",
    ]
    return [
        fit(safe_line(figures.model), LONGEST_MODEL),
        *(known if figures.is_known else ["–", "–", "0", "–", "–", "–"]),
        "unknown" if figures.cost is None else dollars(figures.cost) or "$0",
    ]
