"""The version, for modules that the package itself leads to."""

from importlib import metadata

__version__ = "0.1.0"


def find_version(package: str) -> str | None:
    """The version of an installed package; None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
