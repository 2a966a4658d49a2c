"""Evals on the page: the log's trials, their figures, and the way from a trial to its session."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from outrider.errors import UnknownSessionError
from outrider.evals.figures import figures_of
from outrider.evals.trial import Outcome, store, stored_evals
from outrider.log.log import Log
from outrider.sync import default_log
from outrider.web.figures import list_evals, one_eval
from tests.web.logs import session
from tests.web.pages import NARROW, PATIENCE, visitor, web_server
from tests.web.test_page import check

expect.set_options(timeout=PATIENCE)
HOSTILE = "greet\x1b]0;x\x07\u202e"


async def trial(log: Log, eval_name: str, task: str, repeat: int, reward: float, model: str = "acme/tiny") -> Outcome:
    name = await session(log, f"Do {task}", ["Done."], origin="batch")
    outcome = Outcome(task, model, repeat, reward, "done", 3, 4_200, 0.0125, 12.5, name)
    store(log, eval_name, outcome)
    return outcome


async def test_a_log_has_what_the_trials_said() -> None:
    with default_log() as log:
        told = [await trial(log, "before-1a", "greet", repeat, reward) for repeat, reward in ((1, 1.0), (2, 0.25))]
        later = await trial(log, "after-2b", HOSTILE, 1, 1.0)
        await session(log, "Another batch", ["Done."], origin="batch")
        forged = await session(log, "Forged", ["Done."], origin="batch")
        log.annotate(forged, metadata={"eval": "before-1a", "task": "x", "reward": "much"})
        store(log, "before-1a", Outcome("gone", "acme/tiny", 1, 1.0, "error", 0, 0, None, 0.0, "no-such-session"))

        newest, oldest = stored_evals(log)
        assert (newest.title, newest.outcomes) == ("after", [later])
        assert sorted(oldest.outcomes, key=lambda each: each.repeat) == told

        view = one_eval(log, "after-2b", "before-1a")
        assert view.tasks[0].task != HOSTILE
        assert "\x1b" not in view.tasks[0].task
        assert view.comparison == ["acme/tiny: the two evals have no task in common."]
        assert [each.title for each in list_evals(log).evals] == ["after", "before"]
        assert list_evals(log).evals[1].figures[0].solved == figures_of(told)[0].solved == 0.5
        with pytest.raises(UnknownSessionError, match="no eval 'nothing'"):
            one_eval(log, "nothing")


async def test_of_the_errors_of_a_trial_the_newest_stands() -> None:
    with default_log() as log:
        for number in (1, 2):
            name = await session(log, f"Start {number}", ["Done."], origin="batch")
            failed = Outcome("greet", "acme/tiny", 1, 0.0, "error", 0, 0, None, 0.0, name, f"HTTP {number}")
            store(log, "before-1a", failed)
        (found,) = stored_evals(log)
        assert found.outcomes == [failed]


@pytest.mark.timeout(400)
async def test_a_person_compares_two_evals_and_opens_a_trial(browser: Browser) -> None:
    with default_log() as log:
        for task in ("greet", "count", "rename"):
            await trial(log, "before-1a", task, 1, 0.0)
            await trial(log, "after-2b", task, 1, 1.0)
        await trial(log, "after-2b", "greet", 1, 0.0, "other/large")
    async with web_server() as server, visitor(browser, server, viewport=NARROW, bypass_csp=True) as guest:
        page = guest.page
        await page.get_by_role("link", name="Evals").click()
        await page.get_by_role("link", name="after").click()
        await expect(page.get_by_role("img", name="100 %, between 44 % and 100 %")).to_be_visible()
        await page.get_by_label("Compare with").select_option(index=1)
        await expect(page.get_by_text("+100 points")).to_contain_text("better at 3 tasks")
        await check(page)
        await page.get_by_role("row", name="rename").get_by_role("link", name="trial 1: solved").click()
        await expect(page.get_by_role("article", name="Model")).to_contain_text("Done.")
