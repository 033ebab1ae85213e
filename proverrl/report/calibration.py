"""The quality of predictions of difficulty: expected solve rates against measured ones.

Flows in: the Beta posterior of each family in a run's newest checkpoint, the solve rate of each
level over its last steps, the tallies of its evaluation. Flows out: bins of problems by predicted
rate with the measured rate of each. Problems without a prediction are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proverrl.evaluation.tally import ProblemTally
from proverrl.report.figures import Chart, plain_chart, plain_series
from proverrl.report.headline import choose_evaluation
from proverrl.report.run import RunRecord, read_posterior
from proverrl.statistics import mean_interval

NUM_BINS = 10
STEPS_READ = 20

Predict = Callable[[ProblemTally], float | None]


@dataclass(frozen=True, slots=True)
class Bin:
    """Problems whose predicted rate lies in [low, high): how many, and means of both rates."""

    low: float
    high: float
    problems: int
    attempts: int
    predicted: float
    measured: float
    interval: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Calibration:
    """One predictor of one run. ``error`` is the mean absolute distance of the measured from the
    predicted rate over problems; ``spread`` the same distance had every problem been predicted at
    the mean measured rate, which a useful predictor beats. ``unjudged`` counts attempts."""

    run: int
    title: str
    kind: str
    source: str
    bins: Sequence[Bin]
    problems: int
    without: int
    unjudged: int
    error: float
    spread: float


def measure_calibrations(runs: Sequence[RunRecord]) -> list[Calibration]:
    """Every predictor of every run that has kept the attempts of an evaluation."""
    found = []
    for number, run in enumerate(runs):
        evaluation = choose_evaluation(run)
        if evaluation is None or not evaluation.attempts.total:
            continue
        tallies = list(evaluation.attempts.problems.values())
        for kind, source, predict in list_predictors(run):
            measured = _measure(number, run.label, (kind, source), predict, tallies)
            if measured is not None:
                found.append(measured)
    return found


def list_predictors(run: RunRecord) -> list[tuple[str, str, Predict]]:
    """Predictors of a problem's difficulty in the run's files: (short name, source, function)."""
    found: list[tuple[str, str, Predict]] = []
    families = read_beliefs(run)
    if families:
        source = "the curriculum’s estimate for its family, in the newest checkpoint"
        found.append(("the curriculum", source, lambda tally: families.get(tally.family)))
    levels = read_level_rates(run)
    if levels:
        source = f"its level’s solve rate over the last {min(STEPS_READ, len(run.steps))} steps"
        found.append(("the level", source, lambda tally: levels.get(tally.level)))
    return found


def read_beliefs(run: RunRecord) -> dict[str, float]:
    """Mean of each family's Beta posterior in the newest checkpoint; empty when there is none.
    Raises RunError: the checkpoint's state cannot be read."""
    files = sorted((run.path / "checkpoints").glob("step_*/state.json"))
    posterior = read_posterior(files[-1]) if files else {}
    return {name: a / (a + b) for name, (a, b) in posterior.items()}


def read_level_rates(run: RunRecord) -> dict[str, float]:
    """Solved over attempts of each level, over the last ``STEPS_READ`` steps or rounds."""
    solved: dict[str, float] = {}
    attempts: dict[str, float] = {}
    for row in run.steps[-STEPS_READ:]:
        for name, counts in (row.get("levels") or {}).items():
            solved[name] = solved.get(name, 0.0) + float(counts.get("solved") or 0)
            attempts[name] = attempts.get(name, 0.0) + float(counts.get("attempts") or 0)
    return {name: solved[name] / total for name, total in attempts.items() if total}


def bin_problems(pairs: Sequence[tuple[float, float, int]]) -> list[Bin]:
    """Bins of equal width over (predicted rate, measured rate, judged attempts), empty ones left
    out; a predicted rate of 1 lies in the last."""
    held: dict[int, list[tuple[float, float, int]]] = {}
    for pair in pairs:
        held.setdefault(min(NUM_BINS - 1, int(pair[0] * NUM_BINS)), []).append(pair)
    bins = []
    for place, members in sorted(held.items()):
        rates = [measured for _, measured, _ in members]
        bins.append(
            Bin(
                low=place / NUM_BINS,
                high=(place + 1) / NUM_BINS,
                problems=len(members),
                attempts=sum(count for _, _, count in members),
                predicted=sum(predicted for predicted, _, _ in members) / len(members),
                measured=sum(rates) / len(rates),
                interval=mean_interval(rates),
            )
        )
    return bins


def _measure(
    run: int, title: str, names: tuple[str, str], predict: Predict, tallies: Sequence[ProblemTally]
) -> Calibration | None:
    pairs = []
    for tally in tallies:
        predicted = predict(tally)
        if predicted is not None and tally.judged:
            pairs.append((predicted, tally.solved / tally.judged, tally.judged))
    if not pairs:
        return None
    mean = sum(measured for _, measured, _ in pairs) / len(pairs)
    return Calibration(
        run=run,
        title=title,
        kind=names[0],
        source=names[1],
        bins=bin_problems(pairs),
        problems=len(pairs),
        without=len(tallies) - len(pairs),
        unjudged=sum(tally.unjudged for tally in tallies),
        error=sum(abs(predicted - measured) for predicted, measured, _ in pairs) / len(pairs),
        spread=sum(abs(mean - measured) for _, measured, _ in pairs) / len(pairs),
    )


def build_calibration_charts(calibrations: Sequence[Calibration]) -> list[Chart]:
    """One chart for each source of predictions, a line of points for each run."""
    charts = []
    for kind in dict.fromkeys(item.kind for item in calibrations):
        series = [
            plain_series(
                item.title,
                item.run,
                [part.predicted for part in item.bins],
                [part.measured for part in item.bins],
                low=[part.interval[0] for part in item.bins],
                high=[part.interval[1] for part in item.bins],
                bars=True,
            )
            for item in calibrations
            if item.kind == kind
        ]
        charts.append(
            plain_chart(
                f"Predicted by {kind}",
                "measured solve rate, 95 % intervals over problems; dotted: as predicted",
                [*series, plain_series("as predicted", 0, [0.0, 1.0], [0.0, 1.0], guide=True)],
                holder="calibration-charts",
                axis="predicted solve rate",
                axis_percent=True,
            )
        )
    return charts
