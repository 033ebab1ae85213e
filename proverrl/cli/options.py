"""Types of options that several commands share.

Flows in: what was typed. Flows out: a value, or click's error.
"""

from __future__ import annotations

import json
import math
from typing import Any

import click

from proverrl.config.base import MAX_WORKERS

WORKERS = click.IntRange(1, MAX_WORKERS)


class GivenPath(click.Path):
    """A path that is not empty: pathlib would take an empty one for the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty; name one, or write . for the current folder.", param, ctx)
        return super().convert(value, param, ctx)


def set_text(key: str, value: object) -> str:
    """An override that sets a key to a text, whatever the text looks like: a folder may be called
    5 or true."""
    return f"{key}={json.dumps(str(value), ensure_ascii=False)}"


class FiniteRange(click.FloatRange):
    """A range of numbers without NaN and infinity. NaN is neither below nor above any bound, so
    that ``click.FloatRange`` lets it through."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number
