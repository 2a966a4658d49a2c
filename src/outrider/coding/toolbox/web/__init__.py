"""The WebFetch tool: pages and files from the web."""
