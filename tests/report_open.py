"""How long a page takes to open in headless Chromium: ``python -m tests.report_open PAGE``.

Prints, as medians over the openings, milliseconds from the start of the navigation until the page
has loaded (curves drawn), and until the lists of problems and rollouts are there too.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from tests.report_browser import Browser

OPENINGS = 5
READY = """
return new Promise(done => {
  const look = () => document.querySelector('#problem-list .card')
    && document.querySelector('#rollout-list .card')
    ? done([performance.getEntriesByType('navigation')[0].loadEventEnd, performance.now()])
    : setTimeout(look, 5);
  look();
})
"""


def measure(page: Path) -> list[tuple[float, float]]:
    """(loaded, lists there) in milliseconds, for each opening in a browser of its own."""
    found = []
    for _ in range(OPENINGS):
        with Browser() as browser:
            browser.open(page)
            loaded, ready = browser.run(READY)
            found.append((float(loaded), float(ready)))
            assert browser.console() == []
    return found


if __name__ == "__main__":
    times = measure(Path(sys.argv[1]))
    loaded, ready = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"{OPENINGS} openings: loaded {loaded:.0f} ms, lists there {ready:.0f} ms")
