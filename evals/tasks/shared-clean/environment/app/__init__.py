"""The catalogue of a small shop."""
