"""The web page: look at sessions, search them, answer their questions. `outrider serve` serves it to one person."""
