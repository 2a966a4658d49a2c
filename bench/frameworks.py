"""Outrider beside what a user would pick instead: `python -m bench.frameworks` writes bench/RESULTS.md.

With `--quick`, all of Outrider's own figures and a short form of the rest, in less than a quarter of an hour. Its page
is `.quick/RESULTS.md`, which is not published.

Each contender runs in processes of its own, with its own Python, against one mock model server. The rounds are
interleaved; a contender that has used up its time in a scenario sits out the further rounds of it.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bench import mock_rate, mockserver, results_page
from bench.__main__ import figures
from bench.peers import setup

BENCH = Path(__file__).parent
QUICK_PAGE = BENCH / ".quick"
QUICK_SECONDS = 12 * 60.0
"""After so long, a quick look begins no other run."""
TIMEOUT = 900.0
QUICK_TIMEOUT = 60.0
OWN = "own"
"""The figures of `python -m bench`, where scenarios are named."""


@dataclass(frozen=True)
class Contender:
    """One line of the results."""

    label: str
    kind: str
    """ours, limit, sdk or framework."""
    environment: str
    python: Path
    driver: Path
    arguments: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    """Where it takes part, if not everywhere."""


@dataclass(frozen=True)
class Scenario:
    """What is asked of every contender."""

    name: str
    arguments: tuple[str, ...]
    rounds: int
    budget: float
    """Seconds in which a contender may begin another round."""


SCENARIOS = (
    Scenario("import", ("import",), 3, 30),
    Scenario("streamed loop", ("loop", "--turns", "20", "--stream"), 5, 20),
    Scenario("whole loop", ("loop", "--turns", "20"), 5, 15),
    Scenario("growth", ("growth", "--turns", "380", "--stream"), 3, 40),
    Scenario("many", ("many", "--agents", "200", "--turns", "10", "--stream"), 3, 60),
    Scenario("fan", ("fan", "--agents", "100", "--turns", "2", "--stream"), 3, 20),
    Scenario("idle", ("idle", "--agents", "20", "--stream"), 2, 20),
)
QUICK = (
    Scenario("import", ("import",), 1, 10),
    Scenario("streamed loop", ("loop", "--turns", "20", "--stream"), 2, 10),
    Scenario("whole loop", ("loop", "--turns", "20"), 2, 10),
    Scenario("many", ("many", "--agents", "50", "--turns", "10", "--stream"), 1, 10),
    Scenario("growth", ("growth", "--turns", "100", "--stream"), 1, 10),
    Scenario("fan", ("fan", "--agents", "20", "--turns", "2", "--stream"), 1, 10),
    Scenario("idle", ("idle", "--agents", "10", "--stream"), 1, 10),
)
"""For a look: smaller, and not to be published."""


def contenders() -> Iterator[Contender]:
    """Outrider, then the lines of versions.toml in their order."""
    drivers = BENCH / "peers" / "drivers"
    turns = tuple(each.name for each in SCENARIOS if each.name != "import")
    for label, arguments, scenarios in (
        ("Outrider", (), ()),
        ("Outrider, with its HTTP client", ("--with-client",), ("import",)),
        ("asyncio and msgspec alone", ("--floor",), ("import",)),
        ("Outrider, Anthropic", ("--api", "anthropic"), turns),
        ("Outrider, with the log", ("--log",), turns),
    ):
        yield Contender(label, "ours", "", Path(sys.executable), drivers / "outrider.py", arguments, scenarios)
    for name, table in setup.versions().items():
        python = setup.ENVIRONMENTS / name / "bin" / "python"
        driver = drivers / f"{name.replace('-', '_')}.py"
        lines = table.get("lines", {name: []})
        assert isinstance(lines, dict)
        for label, extra in lines.items():
            yield Contender(label, str(table.get("kind", "framework")), name, python, driver, tuple(extra))


def main() -> int:
    """Measure what is there and write the page, or write it anew from what was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.frameworks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="our own figures, and smaller and fewer runs of the peers")
    parser.add_argument("--only", nargs="+", metavar="LINE", help="only these lines of the results; others stay")
    parser.add_argument("--scenarios", nargs="+", metavar="NAME", help=f"only these, or {OWN}; the rest stays")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page anew")
    args = parser.parse_args()
    folder = QUICK_PAGE if args.quick else BENCH
    kept = folder / "results" / "measured.json"
    if not args.page:
        kept.parent.mkdir(parents=True, exist_ok=True)
        until = time.monotonic() + QUICK_SECONDS if args.quick else math.inf
        asked = QUICK if args.quick else SCENARIOS
        scenarios = [each for each in asked if not args.scenarios or each.name in args.scenarios]
        lines = [each for each in contenders() if not args.only or each.label in args.only]
        known = json.loads(kept.read_text()) if args.scenarios and kept.exists() else None
        measured = known or _begun(quick=args.quick)
        if known is None or OWN in args.scenarios:
            measured["own"] = [msgspec.to_builtins(each) for each in figures()]
        _measure(scenarios, lines, measured, kept, until)
    for path in results_page.write(json.loads(kept.read_text()), folder):
        print(path.relative_to(BENCH.parent))
    return 0


def _begun(*, quick: bool) -> dict[str, Any]:
    """Results without any yet."""
    about = {"date": time.strftime("%Y-%m-%d"), "machine": results_page.machine(), "quick": quick, "own": []}
    return about | {name: {} for name in ("kinds", "scenarios", "runs", "missing", "failed")}


def _measure(
    scenarios: list[Scenario], lines: list[Contender], measured: dict[str, Any], kept: Path, until: float
) -> None:
    """Run everything. What is there is kept after each scenario, so that a long run may be cut off."""
    measured["kinds"] |= {each.label: each.kind for each in lines}
    measured["scenarios"] |= {each.name: " ".join(each.arguments) for each in scenarios}
    asked = {each.label for each in lines}
    missing = {each.label: f"`make bench-peers` sets up {each.environment}" for each in lines if not _is_there(each)}
    for label, why in missing.items():
        print(f"missing: {label}: {why}", flush=True)
    measured["missing"] = {label: why for label, why in measured["missing"].items() if label not in asked} | missing
    there = [each for each in lines if _is_there(each)]
    with mockserver.running() as url:
        measured["server"] = mock_rate.measure(url)
        print(f"the server alone: {measured['server']['per_second']:,.0f} requests/s", flush=True)
        for scenario in scenarios:
            runs = measured["runs"].setdefault(scenario.name, {})
            runs.update(_rounds(scenario, there, url, measured["failed"], until))
            kept.write_text(json.dumps(measured, indent=1) + "\n")


def _is_there(contender: Contender) -> bool:
    return contender.python.exists() and contender.driver.exists()


def _rounds(
    scenario: Scenario, lines: list[Contender], url: str, failed: dict[str, str], until: float
) -> dict[str, list[dict[str, Any]]]:
    lines = [each for each in lines if not each.scenarios or scenario.name in each.scenarios]
    runs: dict[str, list[dict[str, Any]]] = {each.label: [] for each in lines}
    spent = dict.fromkeys(runs, 0.0)
    for _ in range(scenario.rounds):
        for line in lines:
            if spent[line.label] >= scenario.budget or time.monotonic() > until:
                continue
            started = time.monotonic()
            try:
                runs[line.label].append(_run(line, scenario, url, TIMEOUT if until == math.inf else QUICK_TIMEOUT))
            except (subprocess.SubprocessError, ValueError, IndexError) as error:
                failed[f"{line.label}, {scenario.name}"] = _said(error)
                spent[line.label] = scenario.budget
            spent[line.label] += time.monotonic() - started
            print(f"{scenario.name:<14} {line.label:<28} {time.monotonic() - started:6.1f} s", flush=True)
    return {label: each for label, each in runs.items() if each}


def _run(line: Contender, scenario: Scenario, url: str, timeout: float) -> dict[str, Any]:
    command = [str(line.python), str(line.driver), *scenario.arguments, "--url", url, *line.arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout)
    run: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return run


def _said(error: Exception) -> str:
    """The last line of what a process said about its failure."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it took more than {error.timeout:.0f} seconds"
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    return (said.strip().splitlines() or ["it said nothing"])[-1]


if __name__ == "__main__":
    sys.exit(main())
