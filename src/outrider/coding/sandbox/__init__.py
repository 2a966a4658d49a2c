"""Sandboxes for shell commands: what a command may touch, enforced by the system."""
