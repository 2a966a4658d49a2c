"""The page of results: tables, ratios, targets and plots from what was measured."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import plots
from bench.figure import Figure

OURS = "Outrider"
LOGGED = "Outrider, with the log"
SAME_TRANSPORT = "by hand, aiohttp"
LIMIT = "by hand, httptools"
Run = dict[str, Any]


@dataclass(frozen=True)
class Measure:
    """One column of figures: where it comes from, and how it reads."""

    title: str
    scenario: str
    unit: str
    of: Callable[[Run], float | None]
    digits: int = 2
    more_is_better: bool = False


def _per_turn(clock: str) -> Callable[[Run], float]:
    return lambda run: run[clock] / run["turns"] * 1e3


def _mark(name: str, factor: float) -> Callable[[Run], float | None]:
    return lambda run: run["marks"][name] * factor if name in run["marks"] else None


def _last_mark(run: Run) -> float | None:
    return max((int(name), cost) for name, cost in run["marks"].items())[1] * 1e3 if run["marks"] else None


STREAMED = Measure("CPU per turn, streamed", "streamed loop", "ms", _per_turn("cpu_seconds"))
AT_ONCE = Measure(
    "turns per second", "many", "", lambda run: run["turns"] / run["wall_seconds"], digits=0, more_is_better=True
)
LATE = Measure("CPU of the last turn", "growth", "ms", _last_mark)
IMPORT = Measure("CPU of the import", "import", "ms", lambda run: run["cpu_seconds"] * 1e3, digits=0)
IDLE = Measure("memory of an idle conversation", "idle", "kB", _mark("bytes", 1e-3), digits=0)
SECTIONS: dict[str, tuple[Measure, ...]] = {
    "Import": (IMPORT, Measure("memory", "import", "MB", _mark("rss", 1e-6), digits=1)),
    "One agent, 20 tool turns, streamed": (
        STREAMED,
        Measure("wall per turn", "streamed loop", "ms", _per_turn("wall_seconds")),
    ),
    "One agent, 20 tool turns, not streamed": (
        Measure("CPU per turn", "whole loop", "ms", _per_turn("cpu_seconds")),
        Measure("wall per turn", "whole loop", "ms", _per_turn("wall_seconds")),
    ),
    "Many agents at once in one process": (
        AT_ONCE,
        Measure("CPU per turn", "many", "ms", _per_turn("cpu_seconds")),
        Measure("peak memory", "many", "MB", lambda run: run["peak_rss_bytes"] / 1e6, digits=0),
    ),
    "Growth: one long conversation": (
        Measure("CPU of turn 20", "growth", "ms", _mark("20", 1e3)),
        Measure("CPU of turn 200", "growth", "ms", _mark("200", 1e3)),
        LATE,
    ),
    "Sub-agents: 100 sent out by one reply, two tool turns each": (
        Measure("CPU per sub-agent", "fan", "ms", _mark("cpu", 1e3)),
        Measure("wall per sub-agent", "fan", "ms", _mark("wall", 1e3)),
        Measure("peak memory", "fan", "MB", lambda run: run["peak_rss_bytes"] / 1e6, digits=0),
    ),
    "An idle conversation of 100 messages": (IDLE,),
}


class Measured:
    """What one command measured, by contender."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def values(self, measure: Measure, label: str) -> list[float]:
        """One value for each round."""
        runs = self.data["runs"].get(measure.scenario, {}).get(label, [])
        return [value for run in runs if (value := measure.of(run)) is not None]

    def median(self, measure: Measure, label: str) -> float | None:
        """The value that counts."""
        values = self.values(measure, label)
        return statistics.median(values) if values else None

    def frameworks(self, measure: Measure) -> dict[str, float]:
        """The medians of the frameworks that were measured."""
        labels = [label for label, kind in self.data["kinds"].items() if kind == "framework"]
        return {label: value for label in labels if (value := self.median(measure, label)) is not None}

    def best_framework(self, measure: Measure) -> tuple[str, float] | None:
        """The framework that does best, and how well."""
        found = self.frameworks(measure)
        if not found:
            return None
        best = max if measure.more_is_better else min
        return best(found.items(), key=lambda each: each[1])

    def version(self, label: str) -> str:
        """What the package of a contender says of itself."""
        for lines in self.data["runs"].values():
            for run in lines.get(label, []):
                return str(run["version"])
        return "–"


def machine() -> str:
    """What all this ran on."""
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = f" {names[0]}," if names else ""
    system = f"{platform.system()} {platform.machine()}"
    return f"{system},{model} {os.cpu_count()} cores, Python {platform.python_version()}"


def write(data: dict[str, Any], bench: Path) -> list[Path]:
    """RESULTS.md and its plots; what was written."""
    measured = Measured(data)
    plotted = dict(_plots(measured))
    (bench / "results").mkdir(parents=True, exist_ok=True)
    for name, svg in plotted.items():
        (bench / "results" / name).write_text(svg)
    why = bench / "results" / "why.md"
    page = bench / "RESULTS.md"
    page.write_text("\n".join(_page(measured, list(plotted), why.read_text() if why.exists() else "")))
    return [page, *(bench / "results" / name for name in plotted)]


def _page(measured: Measured, plotted: list[str], why: str) -> Iterator[str]:
    data = measured.data
    yield "# Outrider beside its peers\n"
    yield f"{data['date']}. {data['machine']}. Written by `python -m bench.frameworks`.\n"
    if data.get("quick"):
        yield "**A quick look** (`--quick`): smaller and fewer runs. Not for publication.\n"
    server = data["server"]
    yield (
        "Each contender runs in its own processes against one mock model server on loopback, in interleaved rounds. "
        "Figures are medians; brackets have the smallest and the largest round. A turn is one request, whose response"
        " has 20 words and a tool call, and the call itself, whose result has 2,000 bytes. Outrider always streams on"
        " the wire; in the tables without streaming its events are not read. It loads its HTTP client with the first "
        "request, so the import table has a second line that includes it.\n"
    )
    yield (
        f"With a trivial client the server answers {server['per_second']:,.0f} requests a second, at "
        f"{server['cpu_seconds'] * 1e6:.0f} µs of CPU each, on its own core: it can limit only the "
        "hand-written loops.\n"
    )
    yield from _targets(measured)
    if why:
        yield f"{why}\n"
    for title, measures in SECTIONS.items():
        yield from _section(measured, title, measures)
    yield from (f"![{name.removesuffix('.svg')}](results/{name})\n" for name in plotted)
    yield from _own(data.get("own", []))
    yield from _absent(data)


def _section(measured: Measured, title: str, measures: tuple[Measure, ...]) -> Iterator[str]:
    scenario = measures[0].scenario
    labels = [label for label in measured.data["kinds"] if measured.values(measures[0], label)]
    if not labels:
        return
    shown = [each for each in measures if any(measured.values(each, label) for label in labels)]
    yield f"## {title}\n"
    yield f"`{measured.data['scenarios'][scenario]}`\n"
    names = "".join(f" {each.title}{f', {each.unit}' if each.unit else ''} |" for each in shown)
    yield f"| | version |{names} / best framework | / {SAME_TRANSPORT} | / {LIMIT} |"
    yield "| --- | --- |" + " ---: |" * (len(shown) + 3)
    for label in labels:
        cells = "".join(f" {_cell(measured.values(each, label), each.digits)} |" for each in shown)
        yield f"| {label} | {measured.version(label)} |{cells} {_ratios(measured, shown[0], label)} |"
    yield f"\nThe ratios are for the first column: {shown[0].title}.\n"


def _cell(values: list[float], digits: int) -> str:
    if not values:
        return "–"
    middle = f"{statistics.median(values):,.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"


def _ratios(measured: Measured, measure: Measure, label: str) -> str:
    own = measured.median(measure, label)
    best = measured.best_framework(measure)
    beside = [best and best[1], measured.median(measure, SAME_TRANSPORT), measured.median(measure, LIMIT)]
    return " | ".join("–" if not own or not other else _ratio_text(own / other) for other in beside)


def _ratio_text(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def _targets(measured: Measured) -> Iterator[str]:
    yield "## Targets\n"
    yield "| figure | target | measured | |"
    yield "| --- | --- | ---: | --- |"
    for figure, target, value, limit in _judged(measured):
        if value is None:
            yield f"| {figure} | {target} | – | not measured |"
            continue
        verdict = "met" if value <= limit else f"**missed**: {value / limit:.2f} × the limit"
        yield f"| {figure} | {target} | {value:.3g} × | {verdict} |"
    yield "\nEach figure is a ratio that must not exceed its target. For rates it is theirs divided by ours.\n"


def _judged(measured: Measured) -> Iterator[tuple[str, str, float | None, float]]:
    """The figure, its target in words, the ratio, and what it may be."""
    name = _best_name(measured, STREAMED)
    yield STREAMED.title, f"≤ 1/10 of the best framework{name}", _to_best(measured, STREAMED), 0.1
    yield STREAMED.title, f"≤ 1.7 × {SAME_TRANSPORT}", _ratio(measured, STREAMED, SAME_TRANSPORT), 1.7
    name = _best_name(measured, AT_ONCE)
    yield "turns per second, many agents", f"≥ 10 × the best framework{name}", _to_best(measured, AT_ONCE), 0.1
    slower = _ratio(measured, AT_ONCE, SAME_TRANSPORT)
    yield "turns per second, many agents", f"≥ 0.5 × {SAME_TRANSPORT}", slower and 1 / slower, 1 / 0.5
    yield LATE.title, f"≤ 2 × {LIMIT}, which keeps rendered bytes", _ratio(measured, LATE, LIMIT), 2.0
    yield LATE.title, f"≤ 2 × {SAME_TRANSPORT}, which keeps them too", _ratio(measured, LATE, SAME_TRANSPORT), 2.0
    name = _best_name(measured, LATE)
    yield LATE.title, f"≤ 1/10 of the best framework{name}", _to_best(measured, LATE), 0.1
    name = _best_name(measured, IMPORT)
    yield IMPORT.title, f"≤ 1/8 of the lightest framework{name}", _to_best(measured, IMPORT), 0.125
    name = _best_name(measured, IDLE)
    yield IDLE.title, f"below every framework{name}", _to_best(measured, IDLE), 1.0
    logged, plain = measured.median(STREAMED, LOGGED), measured.median(STREAMED, OURS)
    ratio = logged / plain if logged and plain else None
    yield f"with the durable log: {STREAMED.title}", "≤ 1.8 × without", ratio, 1.8
    for measure in (STREAMED, AT_ONCE, LATE):
        words = f"ahead of every framework without one{_best_name(measured, measure)}"
        yield f"with the durable log: {measure.title}", words, _to_best(measured, measure, LOGGED), 1.0


def _ratio(measured: Measured, measure: Measure, other: str) -> float | None:
    own, beside = measured.median(measure, OURS), measured.median(measure, other)
    return own / beside if own and beside else None


def _to_best(measured: Measured, measure: Measure, label: str = OURS) -> float | None:
    own, best = measured.median(measure, label), measured.best_framework(measure)
    if not own or best is None:
        return None
    return best[1] / own if measure.more_is_better else own / best[1]


def _best_name(measured: Measured, measure: Measure) -> str:
    best = measured.best_framework(measure)
    return f" ({best[0]})" if best else ""


def _plots(measured: Measured) -> Iterator[tuple[str, str]]:
    grown = {label: runs[0].get("every") for label, runs in measured.data["runs"].get("growth", {}).items()}
    series = {
        label: [(10.0 * number + 5, cost * 1e3) for number, cost in enumerate(every) if cost > 0]
        for label, every in grown.items()
        if every
    }
    if series:
        yield "growth.svg", plots.lines("CPU per turn as a conversation grows, 2 kB results", "turn", "ms", series)
    rates = {label: rate for label in measured.data["kinds"] if (rate := measured.median(AT_ONCE, label))}
    if rates:
        ordered = dict(sorted(rates.items(), key=lambda each: -each[1]))
        yield "concurrency.svg", plots.bars("Many agents at once in one process", "turns per second", ordered)


def _own(figures: list[dict[str, Any]]) -> Iterator[str]:
    """What Outrider promises by itself: the programs' start, the log, sub-agents, an editor's updates."""
    if not figures:
        return
    yield "## Outrider by itself\n"
    yield "`python -m bench`, in the same run. For ratios, both sides were measured alternately.\n"
    yield "| figure | measured | at most | |"
    yield "| --- | ---: | ---: | --- |"
    for each in figures:
        figure = Figure(**each)
        limit = "" if figure.at_most is None else f"{figure.at_most:g}"
        missed = "" if figure.holds else "**missed** "
        row = figure.name, f"{figure.value:,.3g} {figure.unit}".strip(), limit, f"{missed}{figure.detail}"
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"
    yield ""


def _absent(data: dict[str, Any]) -> Iterator[str]:
    if data["missing"] or data["failed"]:
        yield "## What is missing\n"
        yield from (f"- {label}: {why}" for label, why in (data["missing"] | data["failed"]).items())
        yield ""
