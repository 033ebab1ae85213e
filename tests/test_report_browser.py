"""The report in a real browser: it draws, filters, changes its theme, and loads nothing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from proverrl.policy.tokenizer import train_tokenizer
from proverrl.report import write_report
from tests import report_runs as made
from tests.report_browser import CHROMEDRIVER, CHROMIUM, Browser

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER), reason="needs chromium and chromedriver"
)
HOSTILE = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 2'>"


ERROR_COUNT = "return document.querySelectorAll('.warn').length"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    grpo = made.make_run(folder / "grpo", steps=60)
    rollouts = made.make_rollouts(60, random.Random(5), count=32)
    rollouts[0] |= {"body": HOSTILE, "status": "rejected", "diagnostics": made.FAILURES}
    made.write_lines(grpo / "rollouts" / "step_60.jsonl", rollouts)
    turns = [made.make_turns_rollout("0-p-0"), made.make_turns_rollout("0-p-1", in_group=False)]
    turns[0]["turns"][0]["diagnostics"] = [HOSTILE]
    made.write_lines(grpo / "rollouts" / "step_1.jsonl", turns)
    tokenizer = train_tokenizer(["while i < n"], vocab_size=300)
    tokenizer.save_pretrained(grpo / "policy")
    expert = made.make_run(folder / "expert", loop="expert_iteration", steps=5)
    return write_report([grpo, expert])


def wait_for(browser: Browser, condition: str) -> None:
    """Until the page has unpacked what it was asked for."""
    browser.run(
        "return new Promise((done, fail) => {"
        "  let left = 400;"
        f"  const look = () => ({condition}) ? done(true)"
        "    : left-- ? setTimeout(look, 25) : fail(new Error('it never came'));"
        "  look();"
        "})"
    )


def choose(browser: Browser, select: str, value: str) -> None:
    browser.run(
        f"const s = document.getElementById('{select}'); s.value = '{value}';"
        "s.dispatchEvent(new Event('change'))"
    )


GROUPS = "document.querySelectorAll('#rollout-list > .group')"


def test_a_phone_shows_the_page_without_sideways_scrolling(report: Path) -> None:
    with Browser(width=390, height=844, dark=True) as browser:
        browser.open(report)
        choose(browser, "rollout-step", "1")
        wait_for(browser, f"{GROUPS}.length === 1")
        for _ in range(3):  # a group, then its rollouts, then their turns
            browser.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
            browser.run("return new Promise(done => requestAnimationFrame(() => done(true)))")
        wait_for(browser, "document.querySelectorAll('.t').length > 10")
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
        assert browser.run("return window.Plotly === undefined") is True
        count = browser.run("return document.querySelectorAll('.plot').length")
        assert count > 5
        for place in range(count):
            plot = f"document.querySelectorAll('.plot')[{place}]"
            browser.run(f"{plot}.scrollIntoView({{ block: 'center' }})")
            wait_for(browser, f"{plot}.querySelector('.main-svg')")
        # 32 rollouts are four groups of eight; step 60 is the newest and stands first.
        wait_for(browser, f"{GROUPS}.length === 4")
        assert "Step 60: 32 rollouts in 4 groups" in browser.run(
            "return document.getElementById('step-count').textContent"
        )
        choose(browser, "rollout-learned", "no")
        wait_for(browser, f"{GROUPS}.length === 0")
        choose(browser, "rollout-learned", "yes")
        wait_for(browser, f"{GROUPS}.length === 4")
        choose(browser, "rollout-level", "1")
        wait_for(browser, f"{GROUPS}.length === 1")
        browser.run(f"{GROUPS}[0].open = true")
        wait_for(browser, "document.querySelectorAll('.rollout').length === 8")
        browser.run("document.querySelector('.rollout').open = true")
        wait_for(browser, "document.querySelector('.rollout .code')")
        listing = browser.run("return document.querySelector('.rollout .code').textContent")
        assert HOSTILE in listing
        assert made.FAILURES[0]["message"] in listing
        assert browser.run("return window.owned ?? null") is None

        ink = "return document.querySelector('.plot .xtick text').style.fill"
        light = browser.run(ink)
        browser.run("document.getElementById('theme').click()")
        assert browser.run("return document.documentElement.dataset.theme") == "dark"
        assert (light, browser.run(ink)) == ("rgb(91, 100, 112)", "rgb(154, 164, 177)")
        assert browser.console() == []


def test_a_rollout_is_shown_token_by_token(report: Path) -> None:
    with Browser() as browser:
        browser.open(report)
        wait_for(browser, f"{GROUPS}.length === 4")
        choose(browser, "rollout-step", "1")
        wait_for(browser, f"{GROUPS}.length === 1")
        assert browser.run("return document.querySelector('.steppers button').disabled") is True
        browser.run(f"{GROUPS}[0].open = true")
        wait_for(browser, "document.querySelectorAll('.rollout').length === 2")
        browser.run("document.querySelector('.rollout').open = true")
        wait_for(browser, "document.querySelectorAll('.rollout .t').length")
        # Turn 1: prompt 3, completion 3; turn 2: feedback 2, completion 2.
        tokens = browser.run(
            "return [...document.querySelectorAll('.rollout .t')].map(n => ["
            "n.token.id, n.token.mask, n.token.advantage ?? null, n.token.logprob ?? null,"
            "n.className])"
        )
        assert tokens == [
            *([token, 0, None, None, "t masked"] for token in (1, 2, 3)),
            [5, 1, -0.5, -0.5, "t neg"],
            [6, 1, -0.5, -0.25, "t neg"],
            [7, 1, -0.5, -1.5, "t neg"],
            *([9, 0, None, None, "t masked"] for _ in range(2)),
            [8, 1, 0.75, -0.125, "t pos"],
            [6, 1, -0.25, -2.0, "t neg"],
        ]
        heads = "return [...document.querySelectorAll('.rollout h5')].map(n => n.textContent)"
        assert [head[:11] for head in browser.run(heads)] == ["Turn 1 of 2", "Turn 2 of 2"]
        assert HOSTILE in browser.run("return document.querySelector('.verdict').textContent")

        readout = "return document.querySelector('.readout').textContent"
        browser.run("document.querySelectorAll('.rollout .t')[3].click()")
        # e to the -0.5 is 0.607.
        assert browser.run(readout).endswith(
            "token 1 of 3 · id 5 · log-prob −0.500 (60.7 %) · advantage −0.500 · mask 1"
        )
        box = "document.querySelectorAll('.rollout .t')[3].parentNode"
        press = f"{box}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'ArrowRight'}}))"
        assert browser.run(f"{box}.focus(); return document.activeElement === {box}") is True
        browser.run(press)
        assert "token 2 of 3 · id 6" in browser.run(readout)
        browser.run("document.querySelectorAll('.rollout .t')[7].click()")
        assert browser.run(readout).endswith("token 2 of 2 · id 9 · mask 0")
        assert browser.run("return window.owned ?? null") is None

        browser.run("document.querySelectorAll('.steppers button')[1].click()")
        wait_for(browser, "document.getElementById('rollout-step').value === '55'")
        assert browser.run(ERROR_COUNT) == 0
        assert browser.console() == []


def test_problems_filter_sort_and_open(report: Path) -> None:
    with Browser() as browser:
        browser.open(report)
        cards = "document.querySelectorAll('#problem-list > .card')"
        wait_for(browser, f"{cards}.length === 20")
        choose(browser, "problem-order", "hardest")
        choose(browser, "problem-level", "4")
        wait_for(browser, f"{cards}.length === 6")
        tallies = browser.run(
            f"return [...{cards}].map(n => parseInt(n.children[0].lastChild.textContent))"
        )
        assert tallies == sorted(tallies)
        browser.run(f"{cards}[5].open = true")
        wait_for(browser, f"{cards}[5].querySelector('.code')")
        text = browser.run(f"return {cards}[5].textContent")
        assert "the shortest proofs and the most frequent failures" in text
        assert "method Total" in text
        assert browser.console() == []


def test_a_browser_that_cannot_unpack_is_told_so(report: Path) -> None:
    with Browser() as browser:
        source = "delete window.DecompressionStream"
        browser.command("Page.addScriptToEvaluateOnNewDocument", {"source": source})
        browser.open(report)
        wait_for(browser, "document.querySelectorAll('.warn').length === 2")
        text = browser.run("return document.querySelector('#rollout-list .warn').textContent")
        assert "it lacks DecompressionStream" in text
        assert "proverrl inspect" in text
        assert browser.console() == []
