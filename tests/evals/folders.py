"""Tasks for tests of evals."""

from __future__ import annotations

from pathlib import Path

GREETING = """\
mkdir -p "${OUTRIDER_LOGS:-/logs}/verifier"
if [ "$(cat greeting.txt 2>/dev/null)" = hello ]; then reward=1; else reward=0; fi
echo $reward > "${OUTRIDER_LOGS:-/logs}/verifier/reward.txt"
"""


def make_task(
    folder: Path,
    name: str = "greet",
    *,
    instruction: str = "Write the word hello into greeting.txt.",
    test: str = GREETING,
    solution: str = "echo hello > greeting.txt\n",
    settings: str = "[agent]\ntimeout_sec = 60\n",
    environment: dict[str, str] | None = None,
) -> Path:
    """Write a task, and return its folder."""
    task = folder / name
    files = {"task.toml": settings, "instruction.md": instruction, "tests/test.sh": test, "solution/solve.sh": solution}
    files |= {f"environment/{each}": text for each, text in (environment or {"notes.txt": "be kind\n"}).items()}
    for file, text in files.items():
        (task / file).parent.mkdir(parents=True, exist_ok=True)
        (task / file).write_text(text)
    return task
