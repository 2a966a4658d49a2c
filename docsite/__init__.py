"""The documentation site: `python -m docsite` assembles its pages, builds it and checks its links."""
