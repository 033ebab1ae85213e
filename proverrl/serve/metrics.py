"""The server's counters, in Prometheus' text format.

Flows in: requests and verdicts. Flows out: the page ``/metrics``. Names and labels are a contract
with dashboards. Not handled here: keeping anything over a restart.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from proverrl.serve.queue import Room
from proverrl.types import Verdict
from proverrl.verifier.base import PoolStats
from proverrl.verifier.cache import CachedVerifier

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """All counters of one server."""

    def __init__(self, room: Room, verifier: CachedVerifier) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Live(room, verifier))
        self._requests = Counter(
            "proverrl_requests",
            "Answers by path and status.",
            ("path", "code"),
            registry=self._registry,
        )
        self._verdicts = Counter(
            "proverrl_verdicts",
            "Verdicts given to clients.",
            ("language", "status", "cause"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "proverrl_verdict_seconds",
            "Time of the checker.",
            ("language",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._waits = Histogram(
            "proverrl_request_seconds",
            "From the request's arrival to the end of its answer.",
            ("path",),
            buckets=_SECONDS,
            registry=self._registry,
        )

    def count_request(self, path: str, code: int, seconds: float) -> None:
        """An answer was given."""
        self._requests.labels(path, str(code)).inc()
        self._waits.labels(path).observe(seconds)

    def count_verdict(self, language: str, verdict: Verdict) -> None:
        """A verdict was given."""
        self._verdicts.labels(language, verdict.status.value, verdict.cause).inc()
        self._seconds.labels(language).observe(verdict.seconds)

    def render(self) -> bytes:
        """The page."""
        return bytes(generate_latest(self._registry))


class _Live(Collector):
    """The figures that are read at the moment of asking."""

    def __init__(self, room: Room, verifier: CachedVerifier) -> None:
        self._room = room
        self._verifier = verifier

    def collect(self) -> Iterator[Metric]:
        stats = self._verifier.stats() or PoolStats()
        inside = self._room.num_inside
        yield GaugeMetricFamily("proverrl_inside", "Candidates that wait or run.", inside)
        yield GaugeMetricFamily("proverrl_queue", "Those that wait for a worker.", stats.queued)
        hits = self._verifier.num_hits
        yield CounterMetricFamily("proverrl_known", "Verdicts that were known already.", hits)
        yield GaugeMetricFamily("proverrl_workers", "Places for worker processes.", stats.workers)
        yield GaugeMetricFamily("proverrl_workers_busy", "Workers that judge.", stats.running)
        restarts = CounterMetricFamily(
            "proverrl_worker_replacements", "Workers replaced, by reason.", labels=("reason",)
        )
        restarts.add_metric(("fault",), stats.restarts)
        restarts.add_metric(("schedule",), stats.recycled)
        restarts.add_metric(("memory",), stats.memory_kills)
        yield restarts
        yield CounterMetricFamily("proverrl_retries", "Second attempts.", stats.retried)
