"""Hands elsewhere: the tools of a session in another process, on another machine or in a container."""
