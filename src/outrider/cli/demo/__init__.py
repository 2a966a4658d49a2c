"""`outrider demo`: nine short demos without a key. Each checks its own results."""

from __future__ import annotations

from functools import partial

from outrider.cli.command_parser import command_parser

DESCRIPTION = """\
Run nine short demos: a coding task, an image and a PDF from a tool, an editor session, a typed report from sub-agents,
a script that stores its conversation, a long day, a batch on workers, a repository of another agent, and a conversation
over six vendors. No API key is needed: the replies come from scripted rules, not from an LLM, and nothing leaves this
machine. The tools are real, and each demo checks its own results.
"""
EPILOG = "exit codes: 0 all checks passed, 1 a check failed, 2 wrong usage"
make_parser = partial(command_parser, "demo", DESCRIPTION, EPILOG)


def demo(arguments: list[str]) -> int:
    """Run the demos; return 0 if all checks passed."""
    make_parser().parse_args(arguments)
    from outrider.cli.demo.runner import run_stories  # imported late, so that --help stays fast

    return run_stories()
