"""The user's consent to what a project starts, reaches or widens: what it covers, and where it is stored."""
