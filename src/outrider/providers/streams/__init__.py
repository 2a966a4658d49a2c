"""Streamed responses: bytes to events, deltas and a reply."""
