"""The log in a folder: the SQLite file `log.db`, and `attachments/` beside it."""
