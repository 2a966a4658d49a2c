"""What documents say: the text and the tables of files that are neither plain text nor pictures."""
