"""Loops and commands of one's own: chosen by name, asked what they go with, and called."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from proverrl import plugins
from proverrl.cli.main import cli
from proverrl.config import Config
from proverrl.config.loops import check_loop, find_traits, loop_traits
from proverrl.errors import UsageError
from proverrl.monitor.metrics import read_metrics
from proverrl.report import headline_table
from proverrl.run.session import Session
from tests.run.test_grpo import (  # noqa: F401  (fixtures)
    StubVerifier,
    make_config,
    run,
    step_lines,
    verifiers,
)


class Counting(BaseModel):
    """Options of ``count_up``."""

    most: int = 2


def refuse_odd(config: Config, options: Counting) -> str:
    assert config.loop == COUNTING
    return "counting takes even numbers; set loop_options.most = 2" if options.most % 2 else ""


@loop_traits("counting", takes=frozenset({"experiments"}), against=refuse_odd)
async def count_up(session: Session, *, options: Counting) -> None:
    """A loop that learns nothing."""
    for step in range(1, options.most + 1):
        session.monitor.log("step", step, {"loss": 0.0})


async def plain(session: Session) -> None:
    """A loop that says nothing of itself."""


COUNTING = "tests.run.test_plugin_loops:count_up"


def test_a_loop_of_ones_own_runs(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
) -> None:
    settings = {"evaluation": {"before": False, "after": False}, "loop_options": {"most": 4}}
    folder = run(make_config("own", loop=COUNTING, warm_start__steps=1, **settings))
    assert [row["step"] for row in step_lines(folder)] == [1, 2, 3, 4]
    assert (folder / "policy" / "config.json").exists()
    assert any(row["kind"] == "step" for row in read_metrics(folder))
    assert headline_table([folder]) is not None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"loop_options": {"most": 3}}, "takes even numbers"),
        (
            {"loop_options": {"mots": 4}},
            "loop_options: unknown 'mots'; tests.run.test_plugin_loops",
        ),
        ({"learner__shard": "fsdp2"}, 'learner.shard is for loop = "warm_start" or "grpo", not'),
        ({"loop": "nowhere:f"}, "loop: no module 'nowhere'"),
        ({"loop": "json:tool"}, "loop: json has no 'tool'"),
        ({"loop": "math:pi"}, "loop: math:pi is no function"),
        ({"loop": "grpo", "loop_options": {"most": 3}}, "loop_options are for a plug-in (loop = "),
    ],
)
def test_what_does_not_fit_is_said_before_anything_starts(
    make_config: Callable[..., Config],  # noqa: F811
    changes: dict[str, object],
    said: str,
) -> None:
    config = make_config("own", **{"loop": COUNTING, **changes})
    with pytest.raises(UsageError) as error:
        run(config)
    assert said in str(error.value)
    assert not config.run.exists()


def test_traits() -> None:
    found = find_traits(COUNTING)
    assert (found.title, found.unit, found.counts) == ("counting", "step", None)
    own = find_traits("tests.run.test_plugin_loops:plain")
    assert (own.title, own.takes, own.against) == ("plain", frozenset(), None)
    check_loop(Config(loop="tests.run.test_plugin_loops:plain"))
    assert find_traits("expert_iteration").unit == "round"


@click.command()
@click.option("--times", default=1)
def shout(times: int) -> None:
    """Say it loudly."""
    click.echo("HEY " * times)


def give_commands(monkeypatch: pytest.MonkeyPatch, **places: str) -> None:
    given = [EntryPoint(name, place, "proverrl.command") for name, place in places.items()]
    monkeypatch.setattr(
        plugins, "entry_points", lambda *, group: given if group == "proverrl.command" else []
    )


def test_a_command_of_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    place = "tests.run.test_plugin_loops:shout"
    give_commands(monkeypatch, shout=place, train=place)
    result = CliRunner().invoke(cli, ["shout", "--times", "2"])
    assert (result.exit_code, result.output) == (0, "HEY HEY \n")
    listed = CliRunner().invoke(cli, ["--help"]).output
    assert "Say it loudly." in listed
    # A command of ours keeps its name.
    assert "Train a policy as CONFIG_FILE" in listed


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("broken_command:go", "broken_command cannot be imported: RuntimeError: no licence"),
        ("tests.run.test_plugin_loops:plain", "is no click command, but function"),
        ("nowhere", "has to be package.module:function"),
    ],
)
def test_a_broken_command_stops_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, said: str
) -> None:
    (tmp_path / "broken_command.py").write_text("raise RuntimeError('no licence')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.load.cache_clear()
    give_commands(monkeypatch, broken=place)
    with pytest.warns(UserWarning, match="it is left out") as warned:
        result = CliRunner().invoke(cli, ["--help"])
    assert said in str(warned[0].message)
    assert result.exit_code == 0
    assert "broken" not in result.output
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert CliRunner().invoke(cli, ["plan", "--help"]).exit_code == 0
    asked = CliRunner().invoke(cli, ["broken"])
    assert isinstance(asked.exception, UsageError)
    assert said in str(asked.exception)
    plugins.load.cache_clear()
