"""Commands of installed packages, beside ours: the entry points ``proverrl.command``.

Flows in: names of entry points. Flows out: click commands. One is imported when it is called, or
when the list of all is asked for; what is broken is left out of that list with a warning, so that
all other commands go on.
"""

from __future__ import annotations

import warnings

import click

from proverrl.errors import UsageError
from proverrl.plugins import find_installed, find_package, list_installed, load

GROUP = "command"


class OwnCommands(click.Group):
    """Our commands, which come first, and those of installed packages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        found = super().list_commands(ctx)
        for name in sorted(set(list_installed(GROUP)) - {*found}):
            try:
                load_command(name)
            except UsageError as error:
                warnings.warn(f"{error}; it is left out", stacklevel=2)
            else:
                found.append(name)
        return sorted(found)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in list_installed(GROUP):
            return own
        return load_command(cmd_name)


def load_command(name: str) -> click.Command:
    """The command of an installed package. Raises ``UsageError``, which names the package: it
    cannot be imported, or is no click command."""
    place = find_installed(GROUP, name)
    key = f"command {name!r} of the installed package {find_package(GROUP, name)}"
    found = load(key, place)
    if not isinstance(found, click.Command):
        raise UsageError(f"{key}: {place} is no click command, but {type(found).__name__}")
    return found
