"""The version of Outrider, without other imports."""

__version__ = "0.4.0"
