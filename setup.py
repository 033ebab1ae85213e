"""Puts the files that come with ProverRL into the package: a checkout has them beside it."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDERS = ("configs", "dafny", "examples", "lean")


class BuildWithFiles(build_py):
    """Copies ``FOLDERS`` to ``proverrl/shipped`` in the wheel; an editable install needs none."""

    def run(self) -> None:
        """Build, then copy what git would keep."""
        super().run()
        if self.editable_mode:
            return
        leave = shutil.ignore_patterns(".*", "__pycache__", "build", "lake-packages")
        shipped = Path(self.build_lib) / "proverrl" / "shipped"
        shutil.rmtree(shipped, ignore_errors=True)
        for name in FOLDERS:
            shutil.copytree(name, shipped / name, ignore=leave)
        (shipped / "scripts").mkdir()
        shutil.copy("scripts/setup_lean.sh", shipped / "scripts")


setup(cmdclass={"build_py": BuildWithFiles})
