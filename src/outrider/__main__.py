"""The program. A signal while it is imported ends it without a traceback."""

import sys


def main() -> int:
    """Import and run the command line program. Return its exit code."""
    try:
        from outrider.cli import main

        return main()
    except KeyboardInterrupt:  # before the program handles signals itself
        print("\nInterrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
