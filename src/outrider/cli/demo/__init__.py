"""`outrider demo`: five short stories on the demo model, each of which checks what it promises."""

from __future__ import annotations

DESCRIPTION = """\
Watch five short stories: a coding task, a picture and a PDF from a tool, an editor, a typed report, and a script that
holds its conversation. No key is needed: the demo model is not an LLM, and nothing leaves this machine.
"""


def demo(arguments: list[str]) -> int:
    """Tell the stories; 0 if every promise in them held."""
    import argparse

    argparse.ArgumentParser(
        prog="outrider demo",
        description=DESCRIPTION,
        epilog="exit codes: 0 every promise held, 1 one did not, 2 wrong usage",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args(arguments)
    from outrider.cli.demo.program import tell_all  # brings the event loop, which --help should not wait for

    return tell_all()
