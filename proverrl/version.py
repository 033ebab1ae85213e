"""The version, for modules that the package itself leads to."""

__version__ = "0.1.0"
