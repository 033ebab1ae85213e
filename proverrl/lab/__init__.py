"""Experiments beside the core, each in a module or folder of its own.

An experiment is joined to the core by the seams that users' plug-ins have (``proverrl.plugins``). A
configuration names it as ``package.module:function``, or by the short name of its entry point in
pyproject.toml. Its options stand in the table beside the name. The core imports nothing from here,
and its tests pass without this folder.

What stands here may change or go without notice. It moves into the core when ``results/`` shows a
gain outside the interval on two seeds, and goes when nobody has measured it by the next release.
docs/lab/README.md lists the experiments.
"""
