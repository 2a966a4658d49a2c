"""A session in the hands of other processes: they see it live, answer its questions, talk to it and stop it."""
