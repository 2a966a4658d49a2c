"""Settings: their declarations, the files they are read from, and the user's consent to a project's values."""
