"""The options of `outrider -p` and their help."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Literal, TypeAlias

from outrider.cli.log_option import option_value
from outrider.cli.options import Parser, UsageError

Format: TypeAlias = Literal["text", "json", "stream-json"]
FORMATS: tuple[Format, ...] = ("text", "json", "stream-json")
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
    if options.wait and not options.ask_later:
        raise UsageError("--wait is for questions that wait: write --ask-later --wait")
    return options


def output_format(arguments: Sequence[str]) -> Format:
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
