"""The version of this package; written into every corpus."""

__version__ = "0.1.0"
