"""The report in a real browser: it draws, filters, changes its theme, and loads nothing."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from proverrl.policy.loading import train_tokenizer
from proverrl.report import write_report
from tests import report_runs as made
from tests.report.test_report_comparison import ONE, TWO, write_run
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


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small evaluations with known outcomes, one of them of a Lean problem too."""
    folder = tmp_path_factory.mktemp("compared")
    one, two = (write_run(folder / name, data) for name, data in (("one", ONE), ("two", TWO)))
    lean = "theorem t (n : Nat) : n + 0 = n := by\n  /*{HOLE}*/ -- a comment\n"
    problems = [{"id": "b", "language": "lean", "preamble": "", "statement": lean}]
    made.write_lines(one / "heldout.jsonl", problems)
    return write_report([one, two])


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


def scroll_to(browser: Browser, node: str) -> None:
    """Lists are made when they come near the window."""
    browser.run(f"document.getElementById('{node}').scrollIntoView()")


def choose(browser: Browser, select: str, value: str) -> None:
    browser.run(
        f"const s = document.getElementById('{select}'); s.value = '{value}';"
        "s.dispatchEvent(new Event('change'))"
    )


GROUPS = "document.querySelectorAll('#rollout-list > .group')"


def test_a_phone_shows_the_page_without_sideways_scrolling(report: Path) -> None:
    with Browser(width=390, height=844, dark=True) as browser:
        browser.open(report)
        scroll_to(browser, "rollouts")
        wait_for(browser, f"{GROUPS}.length === 4")
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


def test_on_a_phone_charts_stay_in_their_cards(report: Path) -> None:
    with Browser(width=390, height=844) as browser:
        browser.open(report)
        scroll_to(browser, "charts")
        wait_for(browser, "document.querySelector('#charts .plot .xtick')")
        over = (
            "return [...document.querySelectorAll('.plot .main-svg')].filter(plot => "
            "plot.getBoundingClientRect().right > plot.closest('.chart')"
            ".getBoundingClientRect().right).length"
        )
        assert browser.run(over) == 0


def test_a_run_that_has_only_begun_opens_on_a_phone(tmp_path: Path) -> None:
    made.write_json(tmp_path / "resolved.json", made.make_resolved("grpo", 300))
    with Browser(width=390, height=844) as browser:
        browser.open(write_report([tmp_path]))
        assert browser.run("return document.querySelectorAll('section').length") == 1
        assert browser.run("return document.documentElement.scrollWidth") == 390
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
        scroll_to(browser, "rollouts")
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
        scroll_to(browser, "rollouts")
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
        assert browser.run(f"return {cards}.length") == 0
        scroll_to(browser, "problems")
        wait_for(browser, f"{cards}.length === 20")
        choose(browser, "problem-order", "hardest")
        choose(browser, "problem-level", "4")
        wait_for(browser, f"{cards}.length === 6")
        # Rates over the three columns together: Before, and two runs after.
        tallies = browser.run(
            f"return [...{cards}].map(n => [...n.querySelectorAll('.rate')].map("
            "c => c.childNodes[1].textContent.split('/').map(Number)))"
        )
        assert {len(row) for row in tallies} == {3}
        rates = [sum(s for s, _ in row) / sum(j for _, j in row) for row in tallies]
        assert rates == sorted(rates)
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
        scroll_to(browser, "problems")
        wait_for(browser, "document.querySelector('#problem-list .warn')")
        scroll_to(browser, "rollouts")
        wait_for(browser, "document.querySelector('#rollout-list .warn')")
        text = browser.run("return document.querySelector('#rollout-list .warn').textContent")
        assert "it lacks DecompressionStream" in text
        assert "proverrl inspect" in text
        assert browser.console() == []


CARDS = "document.querySelectorAll('#problem-list > .card')"
NAMES = f"return [...{CARDS}].map(card => card.dataset.problem)"


def test_the_matrix_filters_the_list(compared: Path) -> None:
    with Browser() as browser:
        browser.open(compared)
        cell = "document.querySelector('.count[data-pair=\\'{} {}\\']')"
        browser.run(cell.format(0, 1) + ".click()")
        # Only the first solved a; b was solved by both, d has no judged attempt in the first.
        wait_for(browser, f"{CARDS}.length === 1")
        assert browser.run(NAMES) == ["a"]
        assert browser.run("return " + cell.format(0, 1) + ".textContent") == "1"
        assert browser.run("return " + cell.format(0, 1) + ".ariaPressed") == "true"
        pill = "document.querySelector('.pill')"
        assert "solved by After one, not by After two" in browser.run(f"return {pill}.textContent")
        browser.run(cell.format(1, 1) + ".click()")
        wait_for(browser, f"{CARDS}.length === 3")
        assert browser.run(NAMES) == ["b", "c", "d"]
        browser.run(f"{pill}.click()")
        wait_for(browser, f"{CARDS}.length === 4")
        found = browser.run("return document.getElementById('problem-found').textContent")
        assert found == "4 of 4 problems; 3 of their attempts are unjudged and in no rate."

        # After two: a 0/3, b 1/3, c 1/3, d 3/3; after one: a 1/3, b 3/3, c 0/3, d unknown.
        choose(browser, "problem-order", "down-1")
        assert browser.run(NAMES) == ["d", "b", "c", "a"]
        choose(browser, "problem-order", "up-0")
        assert browser.run(NAMES) == ["c", "a", "b", "d"]
        choose(browser, "problem-outcome", "every")
        assert browser.run(NAMES) == ["b"]
        choose(browser, "problem-outcome", "")
        browser.run(
            "const s = document.getElementById('problem-search'); s.value = 'FC';"
            "s.dispatchEvent(new Event('input'))"
        )
        assert browser.run(NAMES) == ["c"]
        assert browser.console() == []


def test_a_link_opens_one_problem_with_the_attempts_of_all_runs(compared: Path) -> None:
    with Browser() as browser:
        browser.open(compared, fragment="problem=b")
        card = "document.querySelector('[data-problem=b]')"
        wait_for(browser, f"{card}?.querySelectorAll('.code').length === 3")
        assert browser.run(f"return document.activeElement === {card}.firstChild") is True
        heads = f"return [...{card}.querySelectorAll('.attempts-of')].map(n => n.textContent)"
        assert browser.run(heads) == ["After one", "After two"]
        marks = f"return [...{card}.querySelectorAll('.marks i')].map(n => n.className)"
        assert browser.run(marks) == ["proved"] * 4 + ["rejected"] * 2
        # Lean: "theorem", "by" as keywords, Nat as a type, 0 as a number, the comment.
        spans = (
            f"return [...{card}.querySelector('.code').querySelectorAll('[class^=hl-]')]"
            ".map(n => n.className + ' ' + n.textContent)"
        )
        assert browser.run(spans) == [
            "hl-k theorem",
            "hl-t Nat",
            "hl-n 0",
            "hl-k by",
            "hl-c -- a comment",
        ]
        browser.run("location.hash = 'problem=c'")
        wait_for(browser, "document.querySelector('[data-problem=c]').open")
        browser.run("location.hash = 'problem=none'")
        wait_for(browser, "document.querySelector('#problem-list .warn')")
        assert browser.console() == []


def test_colours_leave_the_text_as_it_is(compared: Path) -> None:
    source = '/* a\nb */ method M(s: string) // x\n{ var i := "a // b"; assert i == 0x1F; }'
    with Browser() as browser:
        browser.open(compared)
        found = browser.run(
            f"const text = {json.dumps(source)};"
            "const node = Listing.build({statement: '/*{HOLE}*/', language: 'dafny'},"
            "  {body: text, messages: [], cut: 0});"
            "const lines = [...node.querySelectorAll('code')].map(n => n.textContent).join('\\n');"
            "return [lines === text, [...node.querySelectorAll('.hl-c')].map(n => n.textContent),"
            "  [...node.querySelectorAll('.hl-k')].map(n => n.textContent),"
            "  [...node.querySelectorAll('.hl-s')].map(n => n.textContent)]"
        )
        assert found == [
            True,
            ["/* a", "b */", "// x"],
            ["method", "var", "assert"],
            ['"a // b"'],
        ]
