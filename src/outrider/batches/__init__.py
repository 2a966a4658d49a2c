"""Batches: many tasks, each in a durable session of its own, on many workers."""
