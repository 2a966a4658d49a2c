"""Processes that this program starts, each group ended with everything that it started."""
