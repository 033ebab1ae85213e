"""Servers on a Ray cluster of several nodes on this machine, for real: nodes that are killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proverrl.errors import ToolchainError, UsageError, VerifierError
from proverrl.lang.open import open_verifier
from proverrl.types import Candidate, Problem, Status, Verdict
from proverrl.verifier.cluster import ClusterOptions, ClusterSize, ClusterVerifier
from tests.serve_world import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.dafny]
HEAD = """
import json, sys
from ray.cluster_utils import Cluster
def list_pids(node):
    return [one.process.pid for group in node.all_processes.values() for one in group]
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
nodes = [cluster.add_node(num_cpus=1) for _ in range(int(sys.argv[1]))]
print(json.dumps({
    "address": cluster.address,
    "head": list_pids(cluster.head_node),
    "nodes": [list_pids(node) for node in nodes],
}), flush=True)
sys.stdin.read()
cluster.shutdown()
"""


class Nodes:
    """A cluster whose nodes are processes here. Each node has one processor, the head none."""

    def __init__(self, num: int) -> None:
        pytest.importorskip("ray")
        self._process = subprocess.Popen(
            [sys.executable, "-c", HEAD, str(num)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        said = json.loads(self._process.stdout.readline())
        self.address: str = said["address"]
        self._head: list[int] = said["head"]
        self._nodes: list[list[int]] = said["nodes"]

    def kill(self, place: int) -> None:
        """A node is gone without a word, its server too."""
        for pid in (*_list_children(self._nodes[place]), *self._nodes[place]):
            _kill(pid)

    def kill_head(self) -> None:
        for pid in self._head:
            _kill(pid)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        for pids in (self._head, *self._nodes):
            for pid in (*_list_children(pids), *pids):
                _kill(pid)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _list_children(pids: list[int]) -> list[int]:
    """All processes below these, from /proc."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(") ", 1)[1].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    found = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - set(pids))


@pytest.fixture
def make_nodes() -> Iterator[Callable[[int], Nodes]]:
    made: list[Nodes] = []

    def make(num: int) -> Nodes:
        made.append(Nodes(num))
        return made[-1]

    yield make
    for nodes in made:
        nodes.close()


def lemma(n: int) -> Candidate:
    statement = f"lemma L(x: int)\n  ensures x + {n} > x\n{{\n  /*{{HOLE}}*/\n}}\n"
    return Candidate(Problem(f"p{n}", "dafny", "statements", "", statement), "")


async def ask_all(verifier: Any, numbers: range) -> list[Verdict]:
    asked = (verifier.verify(lemma(n), deadline_seconds=60.0) for n in numbers)
    return list(await asyncio.gather(*asked))


def test_servers_come_with_the_work_and_a_killed_node_costs_no_verdict(
    make_nodes: Callable[[int], Nodes],
) -> None:
    nodes = make_nodes(2)
    verifier = ClusterVerifier(ClusterOptions(nodes.address, 1, 2, workers=1))

    async def run() -> list[Verdict]:
        verifier.open_backend("dafny", rlimit=3_000_000, states=False)
        assert verifier.num_servers == 1
        asked = asyncio.ensure_future(ask_all(verifier, range(1, 61)))
        # A server starts in half a minute where three other tests are at work.
        await wait_for(lambda: verifier.num_servers == 2, seconds=200.0)
        await asyncio.to_thread(nodes.kill, 0)
        verdicts = await asked + await ask_all(verifier, range(61, 66))
        await verifier.aclose()
        return verdicts

    verdicts = asyncio.run(run())
    assert [verdict.status for verdict in verdicts] == [Status.PROVED] * 65


def test_a_cluster_without_its_head_ends_the_run(make_nodes: Callable[[int], Nodes]) -> None:
    nodes = make_nodes(1)
    verifier = open_verifier(workers=1, cluster=(nodes.address, 1, 1))

    async def ask_on() -> None:
        for number in range(3, 10_000):
            await verifier.verify(lemma(number), deadline_seconds=60.0)

    async def run() -> None:
        await ask_all(verifier, range(1, 3))
        await asyncio.to_thread(nodes.kill_head)
        with pytest.raises(VerifierError, match=r"is lost: .*start it again and resume"):
            await asyncio.wait_for(ask_on(), 120)
        await verifier.aclose()

    asyncio.run(run())


def test_what_cannot_be_had_is_said() -> None:
    pytest.importorskip("ray")
    with pytest.raises(ToolchainError, match=r"cluster 127.0.0.1:1 cannot be reached"):
        ClusterVerifier(ClusterOptions("127.0.0.1:1"))
    with pytest.raises(UsageError, match="at least 1 server"):
        ClusterOptions("local", 3, 2)
    with pytest.raises(UsageError, match="leave one empty"):
        open_verifier(servers=("http://a",), cluster=("local", 1, 1))


def test_as_many_servers_as_there_is_work_for_and_one_less_a_minute() -> None:
    # Two workers each, two candidates a worker: a server for every four.
    size = ClusterSize(ClusterOptions("local", fewest=1, most=5, workers=2), now=0.0)
    looks = [(0, 0), (4, 1), (5, 2), (100, 3), (12, 60), (12, 63), (12, 64), (12, 100), (0, 124)]
    assert [size.choose(asked, now) for asked, now in looks] == [1, 1, 2, 5, 5, 5, 4, 4, 4]
    # At 125 another one is given back; work that comes again is given a server at once.
    looks = [(0, 125), (16, 130), (0, 190), (0, 191)]
    assert [size.choose(asked, now) for asked, now in looks] == [3, 4, 4, 3]
    assert [size.choose(0, now) for now in (260, 330, 400, 470)] == [2, 1, 1, 1]
