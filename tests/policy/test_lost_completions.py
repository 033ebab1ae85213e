"""Zero is loud: completions that were cut off or hold no candidate, wherever figures are shown."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from rich.console import Console

from proverrl.config import Config, parse_config
from proverrl.evaluation.evaluate import evaluate
from proverrl.evaluation.store import AttemptStore, count_completions
from proverrl.jobs import evaluate as evaluate_module
from proverrl.jobs.evaluate import evaluate_benchmarks
from proverrl.monitor import Monitor
from proverrl.monitor.display import LiveDisplay, PlainDisplay
from proverrl.monitor.metrics import RunLimits
from proverrl.monitor.search_display import (
    describe_glance,
    list_warnings,
    make_live_table,
    make_summary,
    take_glance,
)
from proverrl.monitor.watch import RunView, render_view, watch_run
from proverrl.report import build_page, headline_table
from proverrl.report.completions import (
    list_completion_rows,
    list_result_warnings,
    make_completion_table,
)
from proverrl.report.run import load_runs
from proverrl.rollout.completion_counts import (
    LOST,
    CompletionCounts,
    describe_lost,
    warn_of_lost,
)
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.run.evaluation import search_row
from proverrl.run.tally import Tally
from proverrl.search.folder import SearchFolder
from proverrl.search.run import TreeSearch
from proverrl.search.spending import SearchTurn
from proverrl.types import Completion, FinishReason, Rollout, Status, Turn
from tests import report_runs as made
from tests.builders import build_problem
from tests.evaluation.test_evaluate import CountingPolicy, build_evaluation
from tests.fake_verifier import FakeVerifier
from tests.policy.test_endpoint import Server, chat, says
from tests.report_page import Page
from tests.run.test_grpo import StubVerifier, judge, make_config
from tests.search_world import World, build_search

__all__ = ["make_config"]

CUT = "completions were cut off at the token limit: raise sampling.max_new_tokens"


def test_counts_shares_and_the_commonest_reason_by_hand() -> None:
    counts = CompletionCounts()
    assert counts.figures() == {
        "truncated": 0,
        "truncated_share": None,
        "without_candidate": 0,
        "without_candidate_share": None,
        "without_candidate_reason": "",
    }
    counts.add(truncated=True, reason="the statement of foo was changed")
    counts.add(truncated=False, reason="the statement of bar was changed")
    counts.add(truncated=True, reason="no code block in the answer")
    counts.add(truncated=True, reason="")
    assert counts.figures() == {
        "truncated": 3,
        "truncated_share": 0.75,
        "without_candidate": 3,
        "without_candidate_share": 0.75,
        # Of two problems, and still one reason.
        "without_candidate_reason": "the statement of ... was changed",
    }
    assert describe_lost(counts.figures()) == "75% cut off, 75% without a candidate"
    assert describe_lost(CompletionCounts(num=4).figures()) == ""
    assert describe_lost({"truncated_share": 0.004, "without_candidate_share": 0.005}) == (
        "<1% cut off, <1% without a candidate"
    )
    assert describe_lost({}) == ""


@pytest.mark.parametrize(("num_cut", "warned"), [(0, False), (2, False), (3, True), (4, True)])
def test_more_than_half_is_warned_of(num_cut: int, warned: bool) -> None:
    counts = CompletionCounts()
    for number in range(4):
        counts.add(truncated=number < num_cut, reason="")
    found = warn_of_lost(counts.figures(), max_new_tokens=2048)
    share = f"{25 * num_cut}%"
    expected = f"{share} of the {CUT} (now 2,048)" if warned else ""
    assert found == {"truncated": expected, "without_candidate": "", "composer_truncated": ""}


def test_a_filter_is_no_matter_of_the_layout() -> None:
    counts = CompletionCounts()
    counts.add(truncated=False, reason=LOST["content_filter"])
    found = warn_of_lost(counts.figures(), layout="dafny")["without_candidate"]
    assert found == (
        "100% of the completions hold no candidate, most often because: a filter of the server "
        "withheld the answer. Take another model or server"
    )


def test_warnings_name_the_key_to_change() -> None:
    figures = {
        "without_candidate_share": 0.62,
        "without_candidate_reason": "no code block in the answer",
        "composer_truncated_share": 0.9,
    }
    found = warn_of_lost(figures, layout="goedel")
    assert found["truncated"] == ""
    assert found["without_candidate"] == (
        "62% of the completions hold no candidate, most often because: no code block in the "
        "answer. Set policy.layout to the one that the policy writes (now 'goedel')"
    )
    assert found["composer_truncated"] == (
        "90% of the composer's completions were cut off at the token limit: raise "
        "selfplay.max_new_tokens"
    )


# In training ------------------------------------------------------------------------------------


def build_rollout(number: int, finish: FinishReason, reason: str) -> Rollout:
    completion = Completion("x", (1,), (5,), (-1.0,), finish, 0)
    turn = Turn(completion, None, None, reason=reason)
    return Rollout(str(number), build_problem("p"), "solver", (turn,))


def test_a_steps_metrics_hold_the_shares() -> None:
    tally = Tally()
    ends: list[tuple[FinishReason, str]] = [("length", "no"), ("length", ""), ("stop", "no")]
    rollouts = tuple(build_rollout(i, *end) for i, end in enumerate(ends))
    tally.add_draw([JudgedDraw(rollouts, 0)], 1.0)
    metrics = tally.metrics(1.0)
    assert (metrics["turns"], metrics["truncated"], metrics["without_candidate"]) == (3, 2, 2)
    assert (metrics["truncated_share"], metrics["without_candidate_share"]) == (0.6667, 0.6667)
    assert metrics["without_candidate_reason"] == "no"


STEP = {
    "solve_rate": 0.0,
    "turns": 40,
    "truncated": 38,
    "truncated_share": 0.95,
    "without_candidate": 30,
    "without_candidate_share": 0.75,
    "without_candidate_reason": "the code is empty",
}
FINE = {"solve_rate": 0.5, "turns": 40, **CompletionCounts(num=40).figures()}


def test_plain_lines_of_a_training_warn_once_while_there_is_cause(tmp_path: Path) -> None:
    stream = io.StringIO()
    with Monitor(
        tmp_path, live=False, limits=RunLimits(9), stream=stream, clock=lambda: 0.0
    ) as monitor:
        for number, values in enumerate((STEP, STEP, FINE, STEP), start=1):
            monitor.log("step", number, values)
    cut = f"warning: 95% of the {CUT}"
    none = (
        "warning: 75% of the completions hold no candidate, most often because: the code is empty. "
        "Set policy.layout to the one that the policy writes"
    )
    lost = "solved 0.000  95% cut off, 75% without a candidate"
    lines = [line.replace("  left 0s", "") for line in stream.getvalue().splitlines()]
    assert lines == [
        *(cut, none, f"step 1/9  {lost}", f"step 2/9  {lost}"),
        *("step 3/9  solved 0.500", cut, none, f"step 4/9  {lost}"),
    ]


def draw(display: LiveDisplay) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(display._render())
    return " ".join(console.export_text().replace("│", " ").split())


def test_a_live_panel_keeps_its_warnings_until_the_cause_is_gone() -> None:
    display = LiveDisplay(io.StringIO(), lambda: 0.0)
    state = {"step": 1, **STEP}
    display.show_step("", state)
    display.show_warning("truncated", f"95% of the {CUT}")
    # What a phase says is overwritten by the next one; a warning is not.
    display.show_phase("evaluation after", "8/16 attempts")
    text = draw(display)
    assert "cut off 95% no candidate 75%" in text
    assert f"warning: 95% of the {CUT}" in text
    display.show_warning("truncated", "")
    assert "warning" not in draw(display)
    display.close()


def test_watch_warns_of_the_last_step(tmp_path: Path) -> None:
    made.write_lines(tmp_path / "metrics.jsonl", [{"kind": "step", "step": 1, **STEP}])
    view = RunView(tmp_path)
    view.look()
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(render_view(view))
    assert f"95% of the {CUT}" in console.export_text()


# In evaluation ----------------------------------------------------------------------------------


def test_an_evaluation_counts_what_it_stored_of_each_completion(tmp_path: Path) -> None:
    server = Server(
        says(chat("nothing", finish_reason="length")),
        says(chat("```dafny\nassert true;\n```")),
        says(chat("nothing", finish_reason="length")),
    )
    problems = [build_problem(str(i)) for i in range(4)]
    settings = {"layout": "dafny"}
    plan = build_evaluation(
        tmp_path, problems=problems, samples=1, ks=(1,), max_new_tokens=9, settings=settings
    )
    told: list[str] = []
    warned: list[dict[str, str]] = []

    def show(standing: Any) -> None:
        told.append(standing.describe("attempts"))
        warned.append({k: text for k, text in standing.warnings.items() if text})

    policy = server.policy(concurrency=1)
    verifier = FakeVerifier(lambda _: Status.REJECTED)
    summary = asyncio.run(evaluate(plan, policy, verifier, progress=show))
    assert (summary["completions"], summary["truncated"], summary["truncated_share"]) == (
        4,
        3,
        0.75,
    )
    assert (summary["without_candidate"], summary["without_candidate_share"]) == (3, 0.75)
    assert summary["without_candidate_reason"] == "no code block in the answer"
    assert summary["warnings"] == [
        f"75% of the {CUT} (now 9)",
        "75% of the completions hold no candidate, most often because: no code block in the "
        "answer. Set policy.layout to the one that the policy writes (now 'dafny')",
    ]
    assert told[0] == "0/4 attempts, 0 proved"
    assert told[-1] == "4/4 attempts, 0 proved, 75% cut off, 75% without a candidate"
    assert list(warned[-1].values()) == summary["warnings"]
    rows = [json.loads(line) for line in (tmp_path / "e.jsonl").open()]
    assert [turn.get("reason", "") for row in rows for turn in row["turns"]].count("") == 1


def test_a_search_that_verifies_unwritten_bodies_counts_completions_only(tmp_path: Path) -> None:
    store = AttemptStore(tmp_path, "e", {})
    turns = [
        {"candidate": "a", "num_tokens": 7, "finish_reason": "length"},
        {"candidate": "b", "num_tokens": 0, "finish_reason": "stop"},
    ]
    store.add([{"problem_id": "p", "attempt": 0, "status": "rejected", "turns": turns}])
    assert (store.completions.num, store.completions.num_truncated) == (1, 1)


@pytest.fixture
def silent(
    make_config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    """Evaluates behind a server whose every answer is cut at the limit; returns the run folder."""

    def run(name: str = "run", **endpoint: Any) -> Path:
        monkeypatch.setattr(
            evaluate_module, "open_configured", lambda *_, **__: StubVerifier(judge)
        )
        usage = {"prompt_tokens": 100, "completion_tokens": 20}
        server = Server(says(chat("well,", finish_reason="length"), usage=usage))
        monkeypatch.setattr(
            evaluate_module, "open_policy", lambda config, _: server.policy(**endpoint)
        )
        table = make_config(name, evaluation={"samples": 1, "ks": [1]}).dump()
        server_table = {"url": "http://127.0.0.1:9/v1", "model": "m", **endpoint}
        table["endpoints"] = {"e": server_table}
        table["policy"]["path"] = "endpoint:e"
        config = parse_config(table, source="test")
        asyncio.run(evaluate_benchmarks(config, from_run=None, benchmarks={"eval": None}))
        return config.run

    return run


def render(renderable: Any, width: int = 220) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(renderable)
    return console.export_text()


def test_an_endpoint_that_is_cut_everywhere_is_loud(
    silent: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = silent()
    # The configuration names 8 tokens; what the server is given does not matter here.
    cut = f"100% of the {CUT} (now 8)"
    none = (
        "100% of the completions hold no candidate, most often because: no code block in the "
        "answer. Set policy.layout to the one that the policy writes (now 'dafny')"
    )
    out = capsys.readouterr().out
    assert out.count(f"warning: {cut}\n") == 1
    assert "12/12 attempts, 0 proved, 100% cut off, 100% without a candidate" in out
    result = run / "evals" / "eval.json"
    # Figures stand whole on a narrow terminal.
    lines = render(make_completion_table([result]), width=80).splitlines()
    heads = "evaluation completions cut off no candidate tokens in tokens out cost"
    assert " ".join(lines[1].split()) == heads
    assert lines[2].split()[1:] == ["12", "100%", "100%", "1,200", "240", "-"]
    assert list_result_warnings([result]) == [f"eval: {cut}", f"eval: {none}"]
    text = render(headline_table([run]))
    assert (
        "eval: of 12 completions 100% cut off, 100% without a candidate (most often: no code block "
        "in the answer); 1,200 tokens in, 240 out"
    ) in text
    assert f"warning: evaluation: eval: {cut}" in text
    page = Page(build_page([run]))
    assert cut in page.text
    assert list_completion_rows(load_runs([run])) == [
        {
            "where": "evaluation: eval",
            "completions": 12,
            "truncated_share": 1.0,
            "without_candidate_share": 1.0,
            "without_candidate_reason": "no code block in the answer",
            "prompt_tokens": 1200,
            "completion_tokens": 240,
            "cost": None,
        }
    ]


def test_training_is_summed_up_in_the_report(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", steps=2)
    assert list_completion_rows(load_runs([run]))[0]["completions"] is None
    rows = [{"kind": "step", "step": i, "seconds": i, **row} for i, row in ((1, STEP), (2, FINE))]
    made.write_lines(run / "metrics.jsonl", [*rows, {"kind": "step", "step": 3, **STEP}])
    row = list_completion_rows(load_runs([run]))[0]
    assert (row["where"], row["completions"]) == ("GRPO: training", 120)
    # 76 and 60 of 120.
    assert (row["truncated_share"], row["without_candidate_share"]) == (0.6333, 0.5)
    assert row["without_candidate_reason"] == "the code is empty"
    # A step that lost a figure is in no sum.
    made.write_lines(
        run / "metrics.jsonl", [*rows, {"kind": "step", "step": 3, **STEP, "turns": None}]
    )
    assert list_completion_rows(load_runs([run]))[0]["completions"] == 80
    made.write_lines(run / "metrics.jsonl", [*rows, {"kind": "step", "step": 3, **STEP}])
    page = build_page([run])
    assert "GRPO: training: 63% of the completions were cut off" in page
    assert "hold no candidate, most often" not in page  # half is not more than half


# What a server counts ---------------------------------------------------------------------------


def test_usage_is_added_up_and_survives_an_interruption(tmp_path: Path) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        choices = [chat("x", index=i) for i in range(json.loads(request.content)["n"])]
        usage = {"prompt_tokens": 10, "completion_tokens": 3 * len(choices)}
        return httpx2.Response(200, json={"choices": choices, "usage": usage})

    odd = says(chat("x"), usage={"prompt_tokens": None})
    server = Server(answer, odd, answer)
    problems = [build_problem(str(i)) for i in range(3)]
    plan = build_evaluation(
        tmp_path, problems=problems, samples=1, ks=(1,), prices=(2.0, 8.0), settings={}
    )
    verifier = FakeVerifier(lambda _: Status.REJECTED)
    summary = asyncio.run(evaluate(plan, server.policy(concurrency=1), verifier))
    # 20 prompt tokens at 2 and 6 completion tokens at 8, a million.
    assert summary["usage"] == {
        "requests": 3,
        "unreported": 1,
        "prompt_tokens": 20,
        "completion_tokens": 6,
        "cost": 8.8e-05,
    }
    (tmp_path / "e.json").unlink()
    # Three more attempts on each, of which the fourth of a block of two is thrown away, and paid.
    more = replace(plan, samples=3, prices=(0.0, 0.0))
    summary = asyncio.run(evaluate(more, server.policy(), verifier))
    assert len(server.requests) == 3 + 3 + 3
    assert summary["usage"]["requests"] == 9
    assert (summary["usage"]["prompt_tokens"], summary["usage"]["cost"]) == (80, None)
    # 3 in each of 5 answers with one choice, 6 in each of 3 with two.
    assert summary["usage"]["completion_tokens"] == 33


def test_cost_stands_in_table_report_and_terminal(silent: Callable[..., Path]) -> None:
    run = silent(prices=(1000.0, 5000.0))
    # 1,200 tokens in at 1,000 a million, 240 out at 5,000.
    assert json.loads((run / "evals" / "eval.json").read_text())["usage"]["cost"] == 2.4
    table = render(make_completion_table([run / "evals" / "eval.json"]))
    assert all(word in table for word in ("tokens in", "1,200", "tokens out", "240", "2.40"))
    assert "1,200 tokens in, 240 out, cost 2.40" in render(headline_table([run]))
    page = Page(build_page([run]))
    assert "Tokens in" in page.text
    assert "2.40" in page.text


def test_what_no_server_wrote_has_no_usage(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", steps=2)
    assert "Tokens in" not in Page(build_page([run])).text
    plan = build_evaluation(tmp_path, prices=(2.0, 8.0))
    verifier = FakeVerifier(lambda _: Status.REJECTED)
    assert "usage" not in asyncio.run(evaluate(plan, CountingPolicy(), verifier))
    table = render(make_completion_table([tmp_path / "e.json"]))
    assert "tokens in" not in table
    assert "cut off" in table


# Evaluations without a training ------------------------------------------------------------------


def test_a_folder_of_evaluations_is_told_as_that(silent: Callable[..., Path]) -> None:
    run = silent()
    text = render(headline_table([run]))
    assert "evaluation: 0 verifier calls, " in text
    assert "steps" not in text
    assert "GRPO" not in text
    page = Page(build_page([run]))
    assert "Evaluations only (eval): nothing was trained here." in page.text
    assert "GRPO" not in page.text.partition("Setup")[0]
    (run / "evals" / "later.jsonl").write_text("{}\n{}\n")
    stream = io.StringIO()

    def wait(_: float) -> None:
        raise AssertionError("there is nothing to wait for")

    watch_run(run, stream, live=False, sleep=wait)
    assert stream.getvalue().splitlines() == [
        f"{run}: evaluations only, no training to follow",
        "evaluated: eval, later (2 attempts so far)",
    ]


def test_a_plain_display_warns_between_phases() -> None:
    stream = io.StringIO()
    display = PlainDisplay(stream, lambda: 0.0)
    for text in ("1/9", "2/9"):
        display.show_phase("evaluation", text)
        display.show_warning("truncated", "loud")
    display.show_warning("truncated", "")
    display.show_warning("truncated", "loud again")
    display.close()
    assert stream.getvalue().splitlines() == [
        *("evaluation: 1/9", "warning: loud", "evaluation: 2/9", "warning: loud again"),
    ]


# In searches -------------------------------------------------------------------------------------


def cut_search(**changes: Any) -> TreeSearch:
    """A search of four completions: three are cut off, one of these and the last hold no body."""
    turns = [
        SearchTurn("a", 3, True, truncated=True),
        SearchTurn("", 3, False, truncated=True, reason="no code block in the answer"),
        SearchTurn("b", 3, True, truncated=True),
        SearchTurn("", 1, False, reason="no code block in the answer"),
        # Verified and never written, as in a search of several.
        SearchTurn("c", 0, True),
    ]
    search = build_search(World(), calls=12, **changes)
    search.spent.turns += turns
    return search


def test_a_search_shows_what_came_to_nothing_while_it_runs(tmp_path: Path) -> None:
    search = cut_search()
    glance = take_glance(search, 12)
    assert describe_glance(glance).endswith("  75% cut off, 50% without a candidate")
    assert "75% cut off, 50% without a candidate" in render(make_live_table([glance]))
    # It is kept by a resume.
    again = cut_search()
    again.spent.turns.clear()
    again.load_state_dict(json.loads(json.dumps(search.state_dict())))
    assert again.all_turns == search.all_turns


def test_a_search_says_at_its_end_what_came_to_nothing(tmp_path: Path) -> None:
    search = cut_search()
    settings = {"max_new_tokens": 9, "layout": "plain"}
    folder = SearchFolder(tmp_path, search.config, 0, settings)
    # Calls are spent: nothing more is written.
    search.spent.calls = 12
    shown = folder.write_result(search, asyncio.run(search.run()), None)
    assert (shown["completions"], shown["truncated"], shown["without_candidate"]) == (4, 3, 2)
    assert (shown["truncated_share"], shown["without_candidate_share"]) == (0.75, 0.5)
    table = render(make_summary("rmax_ts", [shown]))
    assert all(word in table for word in ("cut off", "75%", "no candidate", "50%"))
    # Half is not more than half.
    assert list_warnings([shown]) == [f"75% of the {CUT} (now 9)"]
    more = {**shown, "completions": 2, "truncated": 0, "without_candidate": 2}
    # 4 of 6 without a candidate, 3 of 6 cut off.
    assert list_warnings([shown, more]) == [
        "67% of the completions hold no candidate, most often because: no code block in the "
        "answer. Set policy.layout to the one that the policy writes (now 'plain')"
    ]
    old = {key: value for key, value in shown.items() if key != "completions"}
    assert list_warnings([old]) == []


def test_a_searchs_attempt_is_counted_like_any_other() -> None:
    search = cut_search()
    search.spent.calls = 12
    row = search_row(search.problem, 0, asyncio.run(search.run()))
    counts = count_completions([row])
    assert (counts.num, counts.num_truncated, counts.reasons.total()) == (4, 3, 2)
