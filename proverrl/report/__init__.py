"""Reports on runs, as one self-contained HTML page and as a table for a terminal.

Flows in: run folders. Flows out: ``report.html``, the headline table.
"""

from proverrl.report.headline import headline_table
from proverrl.report.page import build_page, write_report

__all__ = ["build_page", "headline_table", "write_report"]
