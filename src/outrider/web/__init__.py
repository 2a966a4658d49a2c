"""The web page: look at sessions, search them, answer their questions. `outrider web` serves it to one person."""
