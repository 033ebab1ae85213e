"""The curricula by name.

Flows in: a name of ``[curriculum]``. Flows out: what makes that curriculum of problems, the
section, and a seed. Not handled here: the curricula themselves, one module each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proverrl.config import CurriculumConfig, CurriculumName
from proverrl.curriculum.base import Curriculum
from proverrl.curriculum.cbrl import CbrlCurriculum
from proverrl.curriculum.dump import DumpCurriculum
from proverrl.curriculum.mopps import MoppsCurriculum
from proverrl.curriculum.pools import PoolsCurriculum
from proverrl.curriculum.posterior import PosteriorCurriculum
from proverrl.curriculum.prioritised import PrioritisedCurriculum
from proverrl.curriculum.sec import SecCurriculum
from proverrl.curriculum.sws import SwsCurriculum
from proverrl.curriculum.uniform import UniformCurriculum
from proverrl.types import Problem

MakeCurriculum = Callable[[Sequence[Problem], CurriculumConfig, int], Curriculum]

CURRICULA: dict[CurriculumName, MakeCurriculum] = {
    "uniform": UniformCurriculum,
    "posterior": PosteriorCurriculum,
    "prioritised": PrioritisedCurriculum,
    "mopps": MoppsCurriculum,
    "sec": SecCurriculum,
    "dump": DumpCurriculum,
    "cbrl": CbrlCurriculum,
    "sws": SwsCurriculum,
    "pools": PoolsCurriculum,
}
