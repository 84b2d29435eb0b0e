"""The version of this package; the wheel's metadata must say the same."""

__version__ = "0.1.0"
