"""The output of a run while it goes on: metrics on disk always, and a terminal display.

Flows in: figures and rollouts from the loops. Flows out: ``metrics.jsonl``,
``rollouts/step_N.jsonl``, and lines or a live panel. Not handled here: the HTML page.
"""

from proverrl.monitor.console import can_draw_live
from proverrl.monitor.metrics import read_metrics
from proverrl.monitor.monitor import Monitor

__all__ = ["Monitor", "can_draw_live", "read_metrics"]
