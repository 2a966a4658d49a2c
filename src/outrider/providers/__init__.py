"""Models by name, and the adapters to their APIs. Start with `base` (what a model is) and `resolution` (names)."""
