"""The archive of a run that composes problems: opened, and drawn when the run ends.

Flows in: a session. Flows out: ``archive.jsonl`` in its folder, and a picture beside it.
Not handled here: what is written into it (``rounds``, ``data_loop``).
"""

from __future__ import annotations

import hashlib

from proverrl.compose.archive import ARCHIVE_FILE, ProblemArchive
from proverrl.compose.archive_picture import draw_archive
from proverrl.files.lines import write_atomically
from proverrl.loops.checkpoint import latest_checkpoint
from proverrl.loops.session import Session


def open_archive(session: Session) -> ProblemArchive:
    """The run's archive; empty before its first checkpoint."""
    archive = ProblemArchive(session.folder / ARCHIVE_FILE)
    if latest_checkpoint(session.checkpoints) is None:
        # What a run wrote that was stopped before its first checkpoint is made again.
        archive.load_state_dict({"num_lines": 0, "sha256": hashlib.sha256().hexdigest()})
    return archive


def draw_lineage(session: Session) -> None:
    """Draw the archive beside it, as far as there is one."""
    path = session.folder / ARCHIVE_FILE
    if path.exists():
        write_atomically(path.with_suffix(".svg"), draw_archive(ProblemArchive(path)))
