"""Pages and files from the web."""
