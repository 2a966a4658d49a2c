"""Documents: extract the text and the tables of files that are neither plain text nor pictures."""
