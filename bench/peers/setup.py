"""Make an environment for each peer in versions.toml, or for those named: `python bench/peers/setup.py agno litellm`.

An environment that already has the pinned packages is left as it is. One that fails is told, and the others go on.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parent / ".peers"


def versions() -> dict[str, dict[str, object]]:
    """The environments by name."""
    return tomllib.loads((HERE / "versions.toml").read_text())


def main() -> int:
    """Set up what is named, or all; 1 if one failed."""
    wanted = versions()
    names = sys.argv[1:] or list(wanted)
    unknown = [name for name in names if name not in wanted]
    if unknown:
        print(f"There is no peer {unknown[0]!r}; there are: {', '.join(wanted)}", file=sys.stderr)
        return 2
    failed = {name: said for name in names if (said := _set_up(name, wanted[name]["packages"]))}
    for name, said in failed.items():
        print(f"{name}: failed\n{said}", file=sys.stderr)
    return 1 if failed else 0


def _set_up(name: str, packages: object) -> str:
    """Make one environment; what went wrong, or nothing."""
    assert isinstance(packages, list)
    folder = ENVIRONMENTS / name
    ready = folder / "ready.json"
    if ready.exists() and json.loads(ready.read_text()) == packages:
        print(f"{name}: is there", flush=True)
        return ""
    print(f"{name}: {' '.join(packages)}", flush=True)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return "\n".join((done.stdout + done.stderr).splitlines()[-12:])
    ready.write_text(json.dumps(packages))
    return ""


if __name__ == "__main__":
    sys.exit(main())
