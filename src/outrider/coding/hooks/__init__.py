"""Hooks in files of users, projects and plugins: programs that run at certain points of a session."""
