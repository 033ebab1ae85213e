"""``python -m proverrl``, for launchers that start a module."""

from proverrl.cli.main import main

main()
