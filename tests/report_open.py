"""How long a page takes to open in headless Chromium: ``python -m tests.report_open PAGE``.

Prints, as medians over the openings, milliseconds from the start of the navigation until the first
contents are painted, until the page has loaded and takes clicks, and, for pages that unpack a list
when it comes near the window, from scrolling there until each list stands.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from tests.report_browser import Browser

OPENINGS = 5
LISTS = ("problem-list", "rollout-list")
LOADED = """
return new Promise(done => {
  const look = () => {
    const [entry] = performance.getEntriesByType('navigation');
    const painted = performance.getEntriesByName('first-contentful-paint')[0];
    // A task of its own after the load: what the page still does would come before it.
    const idle = () => done([painted.startTime, performance.now()]);
    entry.loadEventEnd && painted ? setTimeout(idle, 0) : setTimeout(look, 5);
  };
  look();
})
"""
CURVES = """
return new Promise(done => {
  const start = performance.now();
  document.getElementById('charts').scrollIntoView();
  const look = () => document.querySelector('#charts .main-svg')
    ? done(performance.now() - start) : setTimeout(look, 5);
  look();
})
"""
LIST = """
return new Promise(done => {
  const start = performance.now();
  document.getElementById('%s').scrollIntoView();
  const look = () => document.querySelector('#%s .card')
    ? done(performance.now() - start) : setTimeout(look, 5);
  look();
})
"""


def measure(page: Path) -> list[tuple[float, ...]]:
    """(first paint, usable, a curve, problems, rollouts) in milliseconds, for each opening in a
    browser of its own."""
    found = []
    for _ in range(OPENINGS):
        with Browser() as browser:
            browser.open(page)
            painted, usable = browser.run(LOADED)
            curves = float(browser.run(CURVES))
            lists = [float(browser.run(LIST % (name, name))) for name in LISTS]
            found.append((float(painted), float(usable), curves, *lists))
            assert browser.console() == []
    return found


if __name__ == "__main__":
    times = measure(Path(sys.argv[1]))
    painted, usable, curves, problems, rollouts = (
        statistics.median(column) for column in zip(*times, strict=True)
    )
    print(
        f"{OPENINGS} openings: first paint {painted:.0f} ms, loaded and idle {usable:.0f} ms; "
        f"after scrolling there: a curve {curves:.0f} ms, problems {problems:.0f} ms, "
        f"rollouts {rollouts:.0f} ms"
    )
