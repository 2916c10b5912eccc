"""Version of nbaudio; written into every corpus."""

__version__ = "0.2.0"
