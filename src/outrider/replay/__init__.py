"""Running a recorded session again: replies from its log, and what differs."""
