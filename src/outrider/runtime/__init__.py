"""The runtime: agents, sessions and the loop."""
