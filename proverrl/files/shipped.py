"""The files that come with ProverRL: configurations, problem sets, examples.

Flows in: a path that a user or a configuration names. Flows out: the same path where it is there,
else the file of that name that came with the package. In a checkout these are its own folders, in
an installed package they lie in ``proverrl/shipped`` (``setup.py`` puts them there).
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

FOLDERS = ("configs", "dafny", "examples", "lean")
"""The shipped folders; ``setup.py`` has the same names."""
LOOKED = "looked in the working folder and among the files that come with ProverRL"


def shipped_root() -> Path:
    """The folder that holds ``FOLDERS``."""
    package = Path(str(resources.files("proverrl")))
    inside = package / "shipped"
    return inside if inside.is_dir() else package.parent


def is_checkout() -> bool:
    """True when this package is used from its repository, not as an installed wheel."""
    return (shipped_root() / "pyproject.toml").is_file()


def name_root() -> Path:
    """``shipped_root``, as it is typed in the working folder."""
    root = shipped_root()
    return Path() if root.samefile(".") else root


def find_script(name: str) -> Path:
    """A shipped script, as it is typed in the working folder."""
    return name_root() / "scripts" / name


def find_file(path: str | Path) -> Path:
    """``path`` if it is there; else the shipped file or folder of that name; else ``path``."""
    path = Path(path)
    if path.is_absolute() or not path.parts or path.parts[0] not in FOLDERS or path.exists():
        return path
    shipped = shipped_root() / path
    return shipped if ".." not in path.parts and shipped.exists() else path


def name_file(path: Path) -> str:
    """The path that a user would type: of a shipped file without the folder of the package."""
    root = shipped_root()
    inside = any(path.is_relative_to(root / name) for name in FOLDERS)
    return str(path.relative_to(root) if inside else path)


def find_config(path: Path) -> Path | None:
    """The configuration file that ``path`` is, or names among the shipped ones: ``demo``,
    ``presets/dapo`` and ``configs/demo.toml`` alike. None where there is no such file."""
    if path.is_file():
        return path
    if path.is_absolute() or ".." in path.parts:
        return None
    named = shipped_root() / "configs" / path
    places = (find_file(path), named, named.with_name(f"{named.name}.toml"))
    return next((place for place in places if place.suffix == ".toml" and place.is_file()), None)


def find_extended(path: Path, parent: str) -> Path:
    """The file that a configuration extends: beside it, else a shipped one of that name. Where
    neither is there, the one that would lie beside it."""
    beside = path.parent / parent
    return beside if beside.is_file() else find_config(Path(parent)) or beside


def list_configs() -> list[str]:
    """The names of the shipped configurations, as ``find_config`` takes them."""
    folder = shipped_root() / "configs"
    found = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.toml"))
    return sorted(name.as_posix() for name in found)
