"""Models without a network: the scripted model for tests, and the demo model."""
