"""The demo model: a model without a network."""
