"""``proverrl bench pool``: the pool's own cost, what faults cost, warm Dafny against cold.

Flows in: sizes. Flows out: one JSON object and a table with the target beside each figure.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from proverrl.bench.faults import measure_faults
from proverrl.bench.overhead import measure_overhead, measure_utilisation
from proverrl.bench.warm_speed import load_dafnybench, load_generated, measure_dafny

Say = Callable[[str], None]
PARTS = ("overhead", "faults", "dafny")
_GENERATED = Path("dafny/curriculum/heldout.jsonl")
_SERVICE_MS = (5.0, 50.0)


async def measure_pool(
    *,
    parts: tuple[str, ...],
    calls: int,
    num: int,
    workers: int,
    dafnybench: Path | None,
    say: Say,
    generated: Path = _GENERATED,
) -> dict[str, Any]:
    """All figures of the named parts. ``calls`` sizes the parts without a prover, ``num`` counts
    Dafny programs of each kind, ``workers`` the Dafny processes. ``say`` hears of each step."""
    results: dict[str, Any] = {
        "machine": {
            "processors": len(os.sched_getaffinity(0)),
            "python": platform.python_version(),
            "load_before": os.getloadavg(),
        }
    }
    if "overhead" in parts:
        say(f"overhead: {calls} calls")
        results["overhead"] = asdict(await measure_overhead(calls=calls))
        results["utilisation"] = []
        for service_ms in _SERVICE_MS:
            say(f"utilisation: {service_ms:g} ms of service")
            some = max(64, calls // 12)
            measured = await measure_utilisation(service_ms, calls=some)
            results["utilisation"].append(asdict(measured))
    if "faults" in parts:
        results["faults"] = []
        for fault in ("crash", "hang"):
            say(f"faults: 1 % {fault}")
            results["faults"].append(
                asdict(await measure_faults(fault, candidates=max(100, calls // 10)))
            )
    if "dafny" in parts:
        results["dafny"] = []
        sets = {"generated": load_generated(generated, num)}
        if dafnybench is not None:
            sets["dafnybench"] = load_dafnybench(dafnybench, num)
        for name, candidates in sets.items():
            say(f"dafny: {len(candidates)} {name} programs, twice")
            results["dafny"].append(asdict(await measure_dafny(name, candidates, workers=workers)))
    results["machine"]["load_after"] = os.getloadavg()
    return results


def make_table(results: dict[str, Any]) -> Table:
    """One row per figure that has a target."""
    table = Table(title="proverrl bench pool")
    table.add_column("figure")
    table.add_column("measured", justify="right")
    table.add_column("target", justify="right")
    if overhead := results.get("overhead"):
        table.add_row("CPU per call", f"{overhead['cpu_ms_per_call']:.3f} ms", "<= 1 ms")
        table.add_row("calls per second", f"{overhead['calls_per_second']:.0f}", ">= 3000")
    for row in results.get("utilisation", ()):
        name = f"utilisation at {row['service_ms']:g} ms"
        table.add_row(name, f"{row['share_of_nominal']:.1%}", ">= 97 %")
        table.add_row(f"{name}, of the time really taken", f"{row['share_busy']:.1%}", "")
    for row in results.get("faults", ()):
        name = f"{row['faults']} of {row['candidates']} {row['fault']}"
        table.add_row(f"{name}: verdicts lost", str(row["lost"]), "0")
        table.add_row(f"{name}: neighbours changed", str(row["changed"]), "0")
        table.add_row(f"{name}: of the bound", f"{row['bound_share']:.1%}", ">= 90 %")
    for row in results.get("dafny", ()):
        target = ">= 4" if row["name"] == "generated" else ">= 3.5"
        name = f"{row['programs']} {row['name']} programs"
        table.add_row(f"{name}: warm over cold", f"{row['ratio']:.2f}", target)
        speeds = f"{row['warm_per_second']:.2f}, {row['cold_per_second']:.2f}"
        table.add_row(f"{name}: per second, warm and cold", speeds, "")
        table.add_row(f"{name}: verdicts that differ", str(row["disagreements"]), "0")
    return table
