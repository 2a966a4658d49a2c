"""The types of the protocol."""
