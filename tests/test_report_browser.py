"""The report in a real browser: it draws, filters, changes its theme, and loads nothing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from proverrl.report import write_report
from tests import report_runs as made
from tests.report_browser import CHROMEDRIVER, CHROMIUM, Browser

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER), reason="needs chromium and chromedriver"
)
HOSTILE = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 2'>"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    grpo = made.make_run(folder / "grpo", steps=60)
    rollouts = made.make_rollouts(60, random.Random(5), count=32)
    rollouts[0] |= {"body": HOSTILE, "status": "rejected", "diagnostics": made.FAILURES}
    made.write_lines(grpo / "rollouts" / "step_60.jsonl", rollouts)
    expert = made.make_run(folder / "expert", loop="expert_iteration", steps=5)
    return write_report([grpo, expert])


def test_a_phone_shows_the_page_without_sideways_scrolling(report: Path) -> None:
    with Browser(width=390, height=844, dark=True) as browser:
        browser.open(report)
        browser.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert browser.run("return document.documentElement.scrollWidth") == 390
        assert browser.run("return getComputedStyle(document.body).backgroundColor") == (
            "rgb(20, 23, 27)"
        )
        assert browser.console() == []


def test_the_page_works_and_loads_nothing(report: Path) -> None:
    with Browser() as browser:
        browser.open(report)
        # The plotting library tries an image format on bytes of its own, in a data: address.
        loaded = [address for address in browser.requested() if not address.startswith("data:")]
        assert loaded == [report.resolve().as_uri()]
        assert browser.run("return document.querySelectorAll('.plot .main-svg').length") > 10
        shown = (
            "return [...document.querySelectorAll('#rollout-list .badge')].map(n => n.innerText)"
        )
        assert len(browser.run(shown)) == 20
        browser.run(
            "const s = document.getElementById('filter-status'); s.value = 'rejected';"
            "s.dispatchEvent(new Event('change'))"
        )
        assert set(browser.run(shown)) == {"rejected"}

        browser.run("document.querySelector('#rollout-list details').open = true")
        browser.run("return new Promise(done => setTimeout(done, 200))")
        listing = browser.run("return document.querySelector('#rollout-list .code').textContent")
        assert HOSTILE in listing
        assert made.FAILURES[0]["message"] in listing
        assert browser.run("return window.owned ?? null") is None

        ink = "return document.querySelector('.plot .xtick text').style.fill"
        light = browser.run(ink)
        browser.run("document.getElementById('theme').click()")
        assert browser.run("return document.documentElement.dataset.theme") == "dark"
        assert (light, browser.run(ink)) == ("rgb(91, 100, 112)", "rgb(154, 164, 177)")
        assert browser.console() == []
