"""Version of nbaudio; written into every corpus."""

__version__ = "0.1.0"
