"""What `outrider -p` can be told on the command line, and the help that says so."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Literal, TypeAlias

from outrider.cli.options import Parser

Format: TypeAlias = Literal["text", "json", "stream-json"]
FORMATS: tuple[Format, ...] = ("text", "json", "stream-json")

DESCRIPTION = """\
Ask a model, from the command line; it works in the current folder, with the tools and within the permissions that you
give it. The answer goes to standard output, what happens on the way to standard error. What is said and done is stored
as it happens: after any end, --continue goes on where it stopped.
"""
EXAMPLES = """\
examples:
  outrider -p "What is a monad?"
  git diff | outrider -p "Review this."  --model anthropic/balanced
  outrider -p "What is on this picture?" --attach chart.png
  outrider -p "Which functions are never called?" --tools Read,Grep,Glob
  outrider -p "Fix the failing test." --permissions edits --max-turns 20 --max-cost 0.50
  outrider -p "Tidy up the data folder." --tools my_tools.py
  outrider -p "List the public functions." --schema functions.json --output-format json
  outrider --continue                      finish what the last session was doing
  outrider --resume 3f2a -p "And now?"

exit codes: 0 done, 1 an error, 2 wrong usage, 3 turns or budget used up, 130 interrupted, 143 told to end
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options. Raises UsageError; --help prints and raises SystemExit."""
    return _parser().parsed(arguments)


def format_in(arguments: Sequence[str]) -> Format:
    """The output format that is wanted, also where the rest cannot be understood."""
    found = "text"
    for number, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument == "--output-format" and number + 1 < len(arguments):
            found = arguments[number + 1]
        elif argument.startswith("--output-format="):
            found = argument.partition("=")[2]
    return next((each for each in FORMATS if each == found), "text")


def _parser() -> Parser:
    parser = Parser(usage='outrider -p "PROMPT" [options]', description=DESCRIPTION, epilog=EXAMPLES)
    add = parser.add_argument
    add("-p", "--print", action="store_true", help="answer once, and end")
    parser.add_shared(
        prompt="what to ask; standard input comes after it",
        permissions="without a question may be done what only reads (ask, the default), also edits in the folder "
        "(edits), everything (all), nothing that changes anything (plan). -p never asks: what would need a question "
        "is refused, and the model is told",
    )
    add(
        *("--output-format",),
        choices=FORMATS,
        default="text",
        help="text: the answer (the default); json: one object with answer, status and usage; "
        "stream-json: an object a line, each event as it happens and the result as the last",
    )
    add("--schema", metavar="FILE", help="a JSON Schema: the answer is data that satisfies it, as JSON in one line")
    add("-q", "--quiet", action="store_true", help="no progress on standard error: only what went wrong")
    return parser
