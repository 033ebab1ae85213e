"""``import proverrl``: verdicts without an event loop and within one, on a scripted verifier."""

from __future__ import annotations

import ast
import asyncio
import os
from pathlib import Path

import pytest

import proverrl
import proverrl.api as api
from proverrl.errors import UsageError, VerifierError
from proverrl.types import Candidate, Problem, Status
from tests.fake_verifier import FakeVerifier

PROBLEM = Problem("p", "dafny", "statements", "", "lemma L() { /*{HOLE}*/ }")
STUB = Path(proverrl.__file__).with_name("__init__.pyi")


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> list[FakeVerifier]:
    """Each verifier that was opened; a body is proved that says so."""
    opened: list[FakeVerifier] = []

    def open_fake(**options: object) -> FakeVerifier:
        assert options == {"needed": (), "workers": 3}
        opened.append(FakeVerifier(lambda c: Status.PROVED if "yes" in c.body else Status.REJECTED))
        return opened[-1]

    monkeypatch.setattr(api, "open_verifier", open_fake)
    return opened


def test_verdicts_come_in_order_and_the_workers_end(fakes: list[FakeVerifier]) -> None:
    candidates = [Candidate(PROBLEM, body) for body in ("yes", "no", "yes 2")]
    verdicts = api.verify(candidates, workers=3)
    assert [verdict.proved for verdict in verdicts] == [True, False, True]
    [fake] = fakes
    with pytest.raises(VerifierError):
        asyncio.run(fake.verify(candidates[0], deadline_seconds=1))


def test_a_caller_with_an_event_loop_may_ask_too(fakes: list[FakeVerifier]) -> None:
    async def ask_as_a_notebook_does() -> list[bool]:
        with api.SyncVerifier(workers=3) as verifier:
            first = verifier.verify([Candidate(PROBLEM, "yes")])
            second = verifier.verify([Candidate(PROBLEM, "no")])
        return [verdict.proved for verdict in (*first, *second)]

    assert asyncio.run(ask_as_a_notebook_does()) == [True, False]
    assert len(fakes) == 1


def test_a_fork_is_told_so(fakes: list[FakeVerifier]) -> None:
    with api.SyncVerifier(workers=3) as verifier:
        verifier.verify([Candidate(PROBLEM, "yes")])
        if (child := os.fork()) == 0:
            try:
                verifier.verify([Candidate(PROBLEM, "yes")])
            except UsageError as error:
                os._exit(7 if "open one in each process" in str(error) else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("given", [{}, {"config": "demo", "run": "runs/x"}])
def test_what_is_evaluated_is_named_once(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="a configuration or a run, one of the two"):
        api.evaluate(**given)


def test_keys_do_not_go_over_a_built_configuration() -> None:
    config = api.load_config(Path("demo"), ["seed=3"])
    assert config.seed == 3
    with pytest.raises(UsageError, match="a Config is used as it is"):
        api.train(config, "seed=4")


def test_what_type_checkers_read_is_what_there_is() -> None:
    tree = ast.parse(STUB.read_text("utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    said = {name.name for node in imports for name in node.names}
    assert said == {*proverrl.__all__}
    assert all(getattr(proverrl, name) is getattr(api, name) for name in said - {"__version__"})
