"""The log in a Postgres database, for many machines. asyncpg is imported when such a log is opened."""
