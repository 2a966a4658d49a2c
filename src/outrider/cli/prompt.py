"""`outrider -p PROMPT`: print one answer. The session is stored and can be resumed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from outrider.cli.log_option import option_value
from outrider.cli.options import Parser, UsageError, resume_command
from outrider.processes.signals import exit_code, sentence
from outrider.text.visible import safe_lines

if TYPE_CHECKING:
    from outrider.cli.interrupts import Interrupts
    from outrider.cli.prompt_output import PromptOutcome, PromptOutput

FORMATS = ("text", "json", "stream-json")
INPUT_FORMATS = ("text", "stream-json")

DESCRIPTION = """\
Run one prompt and print the answer. The agent works in the current folder, with the tools and permissions that you give
it. The answer goes to standard output, progress to standard error. The session is stored as it runs: after a crash or
an interrupt, --continue resumes it.
"""
EXAMPLES = """\
examples:
  outrider -p "What is a monad?"
  git diff | outrider -p "Review this."  --model anthropic/balanced
  outrider -p "What does this image show?" --attach chart.png
  outrider -p "Which functions are never called?" --tools Read,Grep,Glob
  outrider -p "Fix the failing test." --permissions edits --max-turns 20 --max-cost 0.50
  outrider -p "Tidy up the data folder." --tools my_tools.py
  outrider -p "List the public functions." --schema functions.json --output-format json
  outrider -p --continue                   finish the last session's interrupted run
  outrider --resume 3f2a -p "And now?"

exit codes: 0 done, 1 error, 2 wrong usage, 3 limit, 4 refused, 5 cut off, 6 waiting, 129 hung up, 130 interrupted,
  143 terminated
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options. Raises UsageError; --help prints and raises SystemExit."""
    options = make_parser().parse(arguments)
    if options.schema is not None and options.input_format == "stream-json":
        raise UsageError("--schema describes one answer; leave out --input-format stream-json")
    if options.until is not None and not options.until.strip():
        raise UsageError("--until names no command; write one, as in --until 'pytest -q'")
    if options.wait and not options.ask_later:
        raise UsageError("--wait is for questions that wait: write --ask-later --wait")
    return options


def output_format(arguments: Sequence[str]) -> str:
    """Return the requested output format, even if the other arguments are invalid."""
    found, others = option_value(list(arguments), "--output-format")
    while (later := option_value(others, "--output-format"))[0] is not None:  # the last one counts
        found, others = later
    return next((each for each in FORMATS if each == found), "text")


def make_parser() -> Parser:
    parser = Parser(usage='outrider -p "PROMPT" [options]', description=DESCRIPTION, epilog=EXAMPLES)
    add = parser.add_argument
    add("-p", "--print", action="store_true", help="print one answer and exit")
    parser.add_common_options(
        prompt="the prompt; piped standard input is appended to it",
        permissions="ask: only read-only calls run (the default); edits: also edits of files in the folder; all: every "
        "call that no rule denies; plan: nothing that changes anything. -p does not ask: calls that need approval are "
        "denied, and the model is told why",
    )
    add(
        *("--ask-later",),
        action="store_true",
        help="let questions wait in the log: the run ends (exit code 6), and goes on with `outrider sessions continue` "
        "once they are answered, by `outrider sessions answer` or on the web page",
    )
    add(
        *("--until",),
        metavar="COMMAND",
        help="work until this command succeeds, as in --until 'pytest -q', or a limit is reached (exit code 3). When "
        "the model has answered it runs, at `write` in the sandbox; while it fails, the model gets its output",
    )
    add("--wait", action="store_true", help="with --ask-later: stay until the questions are answered, and go on")
    add(
        *("--output-format",),
        choices=FORMATS,
        default="text",
        help="text: the answer (the default); json: one object with answer, status and usage; "
        "stream-json: one object per line, each event as it happens, then the result",
    )
    add(
        *("--input-format",),
        choices=INPUT_FORMATS,
        default="text",
        help="text: standard input is a part of the prompt (the default); stream-json: each line of it is a user "
        "message, which steers the agent while it works",
    )
    add("--system-prompt", metavar="TEXT", help="replace the system prompt; the project's instructions still follow")
    add("--append-system-prompt", metavar="TEXT", help="add to the system prompt")
    add("--schema", metavar="FILE", help="a JSON Schema; the answer is JSON that satisfies it, in one line")
    add("-q", "--quiet", action="store_true", help="print only errors on standard error, no progress")
    return parser


def prompt(arguments: list[str]) -> int:
    """Run a prompt, or resume a session. On every path the output ends as its format requires."""
    options, usage_error = _parse_options(arguments)
    from outrider.cli.interrupts import Interrupts  # imported late, so that --help stays fast
    from outrider.cli.prompt_output import PromptOutcome, StandardOutput, output_for

    with StandardOutput() as stdout, Interrupts() as interrupts:
        output = output_for(output_format(arguments), stdout, quiet=bool(options and options.quiet))
        wrong = PromptOutcome("error", error=usage_error, wrong_usage=True)
        outcome = _run_prompt(options, output, interrupts) if options else wrong
        with suppress(KeyboardInterrupt):  # the program is ending already
            output.write_result(outcome)
            _report_end(outcome, interrupts, options.workspace if options else None)
    if stdout.failure:
        raise stdout.failure
    if not stdout.has_reader:
        return 0
    return exit_code(interrupts.caught) if outcome.status == "cancelled" else outcome.exit_code


def _parse_options(arguments: list[str]) -> tuple[argparse.Namespace | None, str]:
    try:
        return parse(arguments), ""
    except UsageError as error:
        return None, str(error)


def _run_prompt(options: argparse.Namespace, output: PromptOutput, interrupts: Interrupts) -> PromptOutcome:
    from outrider.cli.prompt_output import PromptOutcome
    from outrider.preloading import HTTP, preload

    if options.model != "demo":
        preload(HTTP)
    try:
        from outrider.cli.prompt_run import PromptRun  # this import is slow enough to be interrupted

        return PromptRun(options, output, interrupts).run()
    except KeyboardInterrupt:
        return PromptOutcome("cancelled")


def _report_end(outcome: PromptOutcome, interrupts: Interrupts, place: str | None) -> None:
    from outrider.cli.prompt_output import print_stderr, question_lines
    from outrider.log.session_id import shown_id

    if outcome.status == "cancelled" and interrupts.caught:
        hint = f"\n[to resume: {resume_command(outcome.session, place)}]" if outcome.session else ""
        print_stderr(f"{hint}\n{sentence(interrupts.caught)}")
    elif outcome.status == "waiting":
        for line in question_lines(outcome.questions):
            print_stderr(line)
        print_stderr(f"Then: outrider sessions continue {shown_id(outcome.session or '')}")
    elif outcome.status not in ("done", "error", "cancelled", "budget"):
        print_stderr(f"outrider: stopped by the limit {outcome.status}")
    if outcome.error:
        print_stderr(f"outrider: {safe_lines(outcome.error)}")
