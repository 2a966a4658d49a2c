"""Settings: what can be set, where it was set, and what a project may change."""
