"""A run folder of the version before: every command reads it, and its training goes on.

``golden/earlier_run.tar.xz`` was written at commit ebe5a3c by a tiny policy on real Dafny, two
steps of GRPO, and stopped after the first. Its configuration has ``[audit]``, ``selfplay.guards``
and ``expert_iteration.restart``, its checkpoint ``audits``.
"""

from __future__ import annotations

import json
import tarfile
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

from proverrl.cli.main import cli
from proverrl.config import load_config, load_stored_config
from proverrl.errors import ConfigError
from proverrl.loops.checkpoint import latest_checkpoint, read_state
from proverrl.monitor.metrics import MetricsTail, read_metrics

GOLDEN = Path(__file__).parent / "golden" / "earlier_run.tar.xz"


@pytest.fixture
def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with tarfile.open(GOLDEN) as archive:
        # Debian 12's Python 3.11.2 has neither filters nor the argument for them.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


def call(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def test_every_command_reads_it(earlier: Path) -> None:
    config = load_stored_config(earlier)
    assert config.appeal.rate == 0.5
    assert config.expert_iteration.from_warm_start is True
    assert config.selfplay.filters[:2] == ("duplicate", "leak")
    assert call("report", "run") == "run/report.html\n"
    assert "step 1/2  solved 0.000" in call("watch", "run", "--once")
    assert "32 rollouts" in call("inspect", "run", "1", "--list")
    assert call("proofs", "run", "--out", "p.jsonl").startswith("p.jsonl: 0 proofs of 0 problems")


@pytest.mark.slow
def test_its_training_goes_on(earlier: Path) -> None:
    call("train", "--resume", "run")
    assert [row["step"] for row in read_metrics(earlier) if row["kind"] == "step"] == [1, 2]
    # 14 second looks before the run stopped: they are not forgotten, nor made again.
    checkpoint = latest_checkpoint(earlier / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.name == "step_000002"
    assert len(read_state(checkpoint)["appeals"]["observed"]) >= 14
    assert (earlier / "evals" / "after.json").exists()


def test_figures_under_their_former_names_are_read(tmp_path: Path) -> None:
    row = {"kind": "step", "step": 1, "guard_calls": 7, "guard_stops": {"leak": 2}}
    row |= {"guard_calls_total": 9, "audit_calls": 3, "audit_calls_total": 5}
    row |= {"audits_overturned_total": 1}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    new = {"kind": "step", "step": 1, "filter_calls": 7, "filter_stops": {"leak": 2}}
    new |= {"filter_calls_total": 9, "appeal_calls": 3, "appeal_calls_total": 5}
    new |= {"appeals_overturned_total": 1}
    assert read_metrics(tmp_path) == [new]
    assert MetricsTail(tmp_path / "metrics.jsonl").read() == ([new], True)


def test_former_keys_are_read_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[audit]\nrate = 0.5\n[expert_iteration]\nrestart = false\n")
    with pytest.warns(FutureWarning) as told:
        config = load_config(path, ["selfplay.late_guards=['trivial']", "audit.factor=8"])
    assert (config.appeal.rate, config.appeal.factor) == (0.5, 8.0)
    assert config.expert_iteration.from_warm_start is False
    assert config.selfplay.late_filters == ("trivial",)
    assert {one.filename for one in told} == {__file__}
    assert [str(one.message).split("; ")[0] for one in told] == [
        f"{path}: audit is now called appeal",
        f"{path}: expert_iteration.restart is now called expert_iteration.from_warm_start",
        "--set selfplay.late_guards=['trivial']: selfplay.late_guards is now called "
        "selfplay.late_filters",
        "--set audit.factor=8: audit is now called appeal",
    ]


def test_a_key_under_both_names_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[audit]\nrate = 0.5\n[appeal]\nrate = 0.1\n")
    with pytest.raises(ConfigError, match=r"run\.toml: audit is now called appeal; remove audit"):
        load_config(path)
    path.write_text("[appeal]\nrate = 0.1\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_config(path).appeal.rate == 0.1
