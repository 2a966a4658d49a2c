"""`outrider -p PROMPT`: print one answer. The session is stored and can be resumed."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import TYPE_CHECKING

from outrider.cli.options import UsageError, resume_command
from outrider.cli.prompt_options import output_format, parse
from outrider.processes.signals import exit_code, sentence
from outrider.text.visible import safe_lines

if TYPE_CHECKING:
    from outrider.cli.interrupts import Interrupts
    from outrider.cli.prompt_output import PromptOutcome, PromptOutput


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
    from outrider.preloading import preload

    if options.model != "demo":
        preload(["aiohttp"])  # it parses certificates for 90 ms without Python's lock
    try:
        from outrider.cli.prompt_run import PromptRun  # this import is slow enough to be interrupted

        return PromptRun(options, output, interrupts).run()
    except KeyboardInterrupt:
        return PromptOutcome("cancelled")


def _report_end(outcome: PromptOutcome, interrupts: Interrupts, place: str | None) -> None:
    from outrider.cli.prompt_output import print_stderr, question_lines

    if outcome.status == "cancelled" and interrupts.caught:
        hint = f"\n[to resume: {resume_command(outcome.session, place)}]" if outcome.session else ""
        print_stderr(f"{hint}\n{sentence(interrupts.caught)}")
    elif outcome.status == "waiting":
        for line in question_lines(outcome.questions):
            print_stderr(line)
        print_stderr(f"Then: outrider sessions continue {(outcome.session or '')[:8]}")
    elif outcome.status not in ("done", "error", "cancelled", "budget"):
        print_stderr(f"outrider: stopped by the limit {outcome.status}")
    if outcome.error:
        print_stderr(f"outrider: {safe_lines(outcome.error)}")
