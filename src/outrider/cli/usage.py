"""`outrider usage`: what requests have used, by day, model or folder, and today's cost against the budget."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from outrider.cli.command_parser import JSON_HELP, command_parser, reported
from outrider.cli.styles import aligned
from outrider.log.usage_tables import Dimension, UsageSums
from outrider.text import clean, counted, dollars, thousands
from outrider.text.visible import safe_line

DIMENSIONS: dict[str, Dimension] = {"day": "quarter", "model": "model", "folder": "folder"}
DESCRIPTION = """\
Show what the requests of all sessions have used and cost, and what today has cost against the budget of the settings
(budget.day, budget.folder_day). Sub-agents, summaries and titles count. A cost of – is not known; one with ≥ lacks
requests whose price is not known.
"""
EXAMPLES = """\
examples:
  outrider usage
  outrider usage --days 30 --by model
  outrider usage --json
"""


def make_parser() -> argparse.ArgumentParser:
    parser = command_parser("usage", DESCRIPTION, EXAMPLES)
    parser.add_argument("--days", type=int, default=7, metavar="N", help="the last N days, with today (default 7)")
    parser.add_argument("--by", choices=(*DIMENSIONS,), default="day", help="a row for each day, model or folder")
    parser.add_argument("--json", action="store_true", help=JSON_HELP)
    return parser


def usage(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.days < 1:
        parser.error("--days must be 1 or more")
    return reported("usage", lambda: _print(options))


def _print(options: argparse.Namespace) -> int:
    from outrider.coding.config.loading import load
    from outrider.log.usage_tables import day_of, named
    from outrider.runtime.budget import spent_today
    from outrider.sync import default_log

    folder = Path.cwd()
    budget = load(folder, environment=os.environ).settings.budget
    with default_log() as log:
        noon = day_of(time.time()).start + 43_200  # a day may have 23 or 25 hours
        found = named(log.used(DIMENSIONS[options.by], since=day_of(noon - (options.days - 1) * 86_400).start).sums)
        spent = list(spent_today(budget, log.spent, str(folder)))
        today = named(log.used("folder", since=day_of(time.time()).start).sums) if spent else {}
    if options.json:
        rows = [{"name": name, **_fields(found[name])} for name in sorted(found)]
        budgets = [{"name": each.name, "cost": each.cost, "budget": each.budget} for each in spent]
        print(json.dumps({"by": options.by, "rows": rows, "today": budgets}, indent=2, ensure_ascii=False))
        return 0
    _print_table(found)
    for each in spent:
        counted_in = [today.get(clean(str(folder)), UsageSums())] if each.name == "folder_day" else today.values()
        print(f"Budget: {each.text}{_left_out(sum(sums.unpriced for sums in counted_in))}")
    if not spent:
        print("No budget is set. To set one: outrider config set budget.day 5")
    return 0


def _fields(sums: UsageSums) -> dict[str, float | None]:
    names = ("requests", "input_tokens", "cached_tokens", "output_tokens", "unpriced")
    counts = {name: getattr(sums, name) for name in names}
    return counts | {"cost": sums.known_cost, "cached_share": sums.cached_share}


def _left_out(unpriced: int) -> str:
    """Return what a budget does not count."""
    return f"; {counted(unpriced, 'request')} without a known price not counted" if unpriced else ""


def _print_table(found: dict[str, UsageSums]) -> None:
    """Print a row for each name, and their sum."""
    rows: list[tuple[str, ...]] = [("", "requests", "input", "cached", "output", "cost")]
    total = UsageSums()
    for name in sorted(found):
        total.merge(found[name])
        rows.append((safe_line(name) or "–", *_cells(found[name])))
    rows.append(("all", *_cells(total)))
    for line in aligned(rows):
        print(line)
    if total.unpriced:
        print(f"{counted(total.unpriced, 'request')} of {total.requests:,} without a known price.")


def _cells(sums: UsageSums) -> tuple[str, ...]:
    share = "–" if sums.cached_share is None else f"{sums.cached_share:.0%}"
    cost = f"{'≥ ' if sums.unpriced else ''}{dollars(sums.known_cost)}" if sums.known_cost is not None else "–"
    return f"{sums.requests:,}", thousands(sums.input_tokens), share, thousands(sums.output_tokens), cost
