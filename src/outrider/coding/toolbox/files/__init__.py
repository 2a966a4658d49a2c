"""Files: read, written and changed."""
