"""`outrider batch`: run the tasks of a file on many workers."""

from __future__ import annotations

import argparse

from outrider.cli.command_parser import add_tools_option, command_parser, reported
from outrider.cli.options import WRONG_INPUT, UsageError
from outrider.environment import LOG_HELP, WORKSPACE_HELP

DESCRIPTION = """\
Run many tasks, each in a session of its own. TASKS.jsonl has one JSON object a line: {"id": "a", "prompt": "…"}, and
where it differs from the options below: model, effort, cwd, schema, limits, permissions, allow, tools, metadata.
Instead of cwd, a task can have a git repository and a revision, which the worker checks out into a folder of its own,
or an image, of which the worker makes a container for the task.
Results are appended to the output file in the order in which they come, each once, whatever is killed when. Ctrl-C lets
the running tasks finish; --resume continues. With --ask-later, calls that need approval are not denied: their tasks
wait, without a worker, until the questions are answered.
"""
EXAMPLES = """\
examples:
  outrider batch tasks.jsonl --output results.jsonl
  outrider batch tasks.jsonl --output results.jsonl --resume
  outrider batch tasks.jsonl --output results.jsonl --workers 8 --model anthropic/fast --budget 20
  outrider batch tasks.jsonl --output results.jsonl --schema verdict.json --rate anthropic=50
  outrider batch tasks.jsonl --output results.jsonl --log postgresql://db.example.com/outrider --workers 0
  outrider batch tasks.jsonl --output results.jsonl --ask-later --wait

With --log postgresql://… the tasks can be run on many machines: start `outrider worker --log URL` there.

exit codes: 0 all done, 1 error or failed tasks, 2 wrong usage, 3 budget used up, 6 tasks wait for answers, 129 hung up,
  130 interrupted, 143 terminated
"""


def batch(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)

    def run() -> int:
        _check(options)
        from outrider.cli.batch_run import BatchRun  # imported late, so that --help stays fast

        return BatchRun(options).run()

    return reported("batch", run, (*WRONG_INPUT, ValueError))


def make_parser() -> argparse.ArgumentParser:
    parser = command_parser("batch", DESCRIPTION, EXAMPLES)
    add = parser.add_argument
    add("tasks", metavar="TASKS.jsonl", help="the tasks, one JSON object a line; - for standard input")
    add("-o", "--output", required=True, metavar="FILE", help="the file that results are appended to")
    add("--resume", action="store_true", help="continue: run what has no result yet")
    add("--workers", type=int, default=4, metavar="N", help="worker processes on this machine (default 4); 0 for none")
    add("--concurrency", type=int, default=1, metavar="N", help="tasks that each worker runs at once (default 1)")
    add("--log", metavar="PLACE", help=LOG_HELP)
    add("--budget", metavar="DOLLARS", help="stop when all tasks together have cost this much")
    add(
        *("--rate",),
        action="append",
        default=[],
        metavar="PROVIDER=N",
        help="at most N requests a minute to a provider or model, over all workers; may be repeated",
    )
    _add_defaults(parser)
    add("--wait", action="store_true", help="stay until the questions of all tasks are answered")
    add("-q", "--quiet", action="store_true", help="print only errors on standard error, no progress")
    return parser


def _add_defaults(parser: argparse.ArgumentParser) -> None:
    """Add the options that tasks have as fields."""
    add = parser.add_argument_group("for tasks that do not say otherwise").add_argument
    add("-m", "--model", metavar="MODEL", help="the model to use; `outrider models` lists them")
    add("--effort", metavar="LEVEL", help="how much the model thinks: none, low, medium, high or max")
    add("--schema", metavar="FILE", help="a JSON Schema; answers are JSON that satisfies it")
    add("--permissions", metavar="MODE", help="which calls run: ask (read-only ones, the default), edits, all or plan")
    add("--allow", action="append", default=[], metavar="RULE", help="let these calls run; may be repeated")
    add(
        *("--ask-later",),
        action="store_true",
        help="let calls that need approval wait in the log: `outrider sessions questions` lists them, and after "
        "`outrider sessions answer` any worker goes on with the task",
    )
    add_tools_option(
        parser,
        "TOOLS",
        "built-in tools to offer, as in Read,Grep (default: all), or none; or a Python file with @tool functions "
        "to add, which every worker needs; may be repeated",
    )
    add("--in", dest="workspace", metavar="PLACE", help=WORKSPACE_HELP)
    add("--image", metavar="IMAGE", help="make a container of this image for each task, and remove it afterwards")
    add("--cwd", metavar="DIR", help="the folder to work in (default: the one that the worker is started in)")
    add("--system-prompt", metavar="TEXT", help="replace the system prompt")
    add("--max-turns", metavar="N", help="stop a task after N model replies (default 50)")
    add("--max-cost", metavar="DOLLARS", help="stop a task when it has cost this much")


def _check(options: argparse.Namespace) -> None:
    if options.workers < 0:
        raise UsageError("--workers must be 0 or more")
    if options.concurrency < 1:
        raise UsageError("--concurrency must be 1 or more")
    if options.budget is not None:
        options.budget = positive("--budget", options.budget)
    options.rates = dict(rate(each) for each in options.rate)


def rate(text: str) -> tuple[str, float]:
    """Return the provider and the requests a minute of `--rate`. Raises UsageError.

    >>> rate("anthropic=50")
    ('anthropic', 50.0)
    """
    provider, equals, number = text.rpartition("=")
    if not equals or not provider:
        raise UsageError(f"--rate {text}: write a provider and the requests a minute, as in --rate anthropic=50")
    return provider.strip(), positive("--rate", number)


def positive(option: str, text: str) -> float:
    """Return a number over 0. Raises UsageError."""
    try:
        number = float(text.removeprefix("$"))
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise UsageError(f"{option}: {text!r} is not a number over 0")
    return number
