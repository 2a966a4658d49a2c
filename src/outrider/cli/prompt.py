"""`outrider -p PROMPT`: one answer from the command line, in a session that is stored and can be continued."""

from __future__ import annotations

import argparse
from contextlib import suppress
from signal import SIGINT
from typing import TYPE_CHECKING

from outrider.cli.options import UsageError
from outrider.cli.plain import plain_lines
from outrider.cli.prompt_options import format_in, parse

if TYPE_CHECKING:
    from outrider.cli.interrupts import Interrupts
    from outrider.cli.output import Outcome, Output


def prompt(arguments: list[str]) -> int:
    """Ask, or go on. Whatever happens, the output ends as its format promises."""
    options, fault = _understood(arguments)
    from outrider.cli.interrupts import Interrupts  # what is imported from here on takes longer than --help should
    from outrider.cli.output import Outcome, StandardOutput, output_for

    with StandardOutput() as stdout, Interrupts() as interrupts:
        output = output_for(format_in(arguments), stdout, quiet=bool(options and options.quiet))
        wrong = Outcome("error", error=fault, wrong_usage=True)
        outcome = _outcome(options, output, interrupts) if options else wrong
        with suppress(KeyboardInterrupt):  # it is ending already
            output.result(outcome)
            _tell_end(outcome, interrupts)
    if stdout.failure:
        raise stdout.failure
    if not stdout.is_read:
        return 0
    return interrupts.exit_code if outcome.status == "cancelled" else outcome.exit_code


def _understood(arguments: list[str]) -> tuple[argparse.Namespace | None, str]:
    try:
        return parse(arguments), ""
    except UsageError as error:
        return None, str(error)


def _outcome(options: argparse.Namespace, output: Output, interrupts: Interrupts) -> Outcome:
    from outrider.cli.output import Outcome

    try:
        from outrider.cli.one_answer import PromptRun  # which takes long enough to be interrupted

        return PromptRun(options, output, interrupts).outcome()
    except KeyboardInterrupt:
        return Outcome("cancelled")


def _tell_end(outcome: Outcome, interrupts: Interrupts) -> None:
    from outrider.cli.output import say

    if outcome.status == "cancelled" and interrupts.caught:
        goes_on = f"\n[outrider --resume {outcome.session[:8]} goes on]" if outcome.session else ""
        say(f"{goes_on}\n{'Interrupted' if interrupts.caught == SIGINT else 'Told to end'}.")
    elif outcome.status not in ("done", "error", "cancelled"):
        say(f"outrider: stopped by the limit {outcome.status}")
    if outcome.error:
        say(f"outrider: {plain_lines(outcome.error)}")
