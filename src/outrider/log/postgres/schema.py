"""The tables of the log in Postgres, in the schema `outrider`, and their migrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import asyncpg

from outrider.errors import LogError, NewerLogError

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[Any]
else:
    Connection = asyncpg.Connection
SCHEMA = "outrider"
MIGRATION_LOCK = 0x4F555452
"""The key of the advisory lock that lets one process at a time migrate."""

# Read from the catalog itself: after a wait for the lock, `to_regclass` would answer from a cache.
_HAS_SCHEMA = "SELECT true FROM pg_catalog.pg_namespace WHERE nspname = $1"
_EXISTS = f"""
    SELECT true FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = '{SCHEMA}' AND relname = 'format'
"""

MIGRATIONS = (
    """
    CREATE TABLE format (version integer NOT NULL PRIMARY KEY, since timestamptz NOT NULL DEFAULT now());
    CREATE SEQUENCE opening;  -- counts up with every use, independent of clocks
    CREATE TABLE session (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id text COLLATE "C" NOT NULL UNIQUE,
        parent text COLLATE "C" NOT NULL DEFAULT '',
        title text NOT NULL DEFAULT '',
        model text NOT NULL DEFAULT '',
        settings text NOT NULL DEFAULT '{}',  -- the newest value of each setting, as JSON
        created double precision NOT NULL,
        updated double precision NOT NULL,
        opened bigint NOT NULL DEFAULT nextval('opening'),
        last bigint NOT NULL DEFAULT 0,  -- the seq of the newest event
        turns bigint NOT NULL DEFAULT 0,
        size bigint NOT NULL DEFAULT 0,
        entries bigint NOT NULL DEFAULT 0,
        input_tokens bigint NOT NULL DEFAULT 0,
        output_tokens bigint NOT NULL DEFAULT 0,
        cached_tokens bigint NOT NULL DEFAULT 0,
        cache_write_tokens bigint NOT NULL DEFAULT 0,
        reasoning_tokens bigint NOT NULL DEFAULT 0,
        cost double precision,
        holder text NOT NULL DEFAULT '',  -- the process that has it open, as JSON
        fence bigint NOT NULL DEFAULT 0,  -- counts up with every holder; writes with an older number fail
        beat bigint NOT NULL DEFAULT 0,   -- counts up while the holder is alive
        beaten double precision NOT NULL DEFAULT 0  -- by the clock of the database
    ) WITH (fillfactor = 70);  -- room for the next form of a row, beside the last
    CREATE INDEX session_opened ON session (opened);
    CREATE INDEX session_parent ON session (parent) WHERE parent <> '';
    CREATE TABLE event (
        session bigint NOT NULL,  -- no foreign key: its check would double the time of an append
        seq bigint NOT NULL,
        time double precision NOT NULL,
        kind text COLLATE "C" NOT NULL,
        body bytea NOT NULL,
        checksum bigint NOT NULL,
        PRIMARY KEY (session, seq)
    );
    CREATE INDEX event_snapshot ON event (session) WHERE kind = 'snapshot';
    CREATE TABLE reference (
        session bigint NOT NULL,
        sha256 text COLLATE "C" NOT NULL,
        PRIMARY KEY (session, sha256)
    );
    CREATE INDEX reference_file ON reference (sha256);
    CREATE TABLE file (
        sha256 text COLLATE "C" PRIMARY KEY,
        upload uuid NOT NULL UNIQUE,
        size bigint NOT NULL,
        touched timestamptz NOT NULL DEFAULT now()
    );
    CREATE TABLE chunk (
        upload uuid NOT NULL,  -- an upload that was not finished has chunks and no file
        n integer NOT NULL,
        data bytea NOT NULL,
        stored timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (upload, n)
    );
    ALTER TABLE chunk ALTER COLUMN data SET STORAGE EXTERNAL;  -- pictures and PDFs are compressed already
    CREATE TABLE question (
        id text COLLATE "C" PRIMARY KEY,
        session bigint NOT NULL,
        fence bigint NOT NULL,  -- of the holder that asks
        call_id text NOT NULL,
        body text NOT NULL,
        asked double precision NOT NULL,
        answer text,            -- NULL while it waits
        answered_by text NOT NULL DEFAULT '',
        answered double precision
    );
    CREATE INDEX question_session ON question (session);
    CREATE TABLE signal (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        session bigint NOT NULL,
        fence bigint NOT NULL,  -- of the holder that it is for
        body text NOT NULL,
        sent double precision NOT NULL,
        taken double precision
    );
    CREATE INDEX signal_session ON signal (session);
    CREATE TABLE listener (session bigint PRIMARY KEY, fence bigint NOT NULL);  -- holders that take messages
    CREATE TABLE indexed (
        session bigint PRIMARY KEY REFERENCES session ON DELETE CASCADE,
        id text NOT NULL,
        seq bigint NOT NULL,       -- the newest entry that is in the search index
        checksum bigint NOT NULL,
        messages bigint NOT NULL,  -- the number of messages up to there
        calls text NOT NULL        -- the calls that had no result by then, as JSON
    );
    CREATE TABLE passage (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        session bigint NOT NULL REFERENCES session ON DELETE CASCADE,
        seq bigint NOT NULL,
        time double precision NOT NULL,
        message bigint NOT NULL,
        reference text COLLATE "C" NOT NULL,
        kind text COLLATE "C" NOT NULL,
        tool text COLLATE "C" NOT NULL,
        folded text COLLATE "C" NOT NULL,  -- the text in lower case
        trigrams text[] COLLATE "C" NOT NULL
    );
    CREATE UNIQUE INDEX passage_message ON passage (session, message, md5(reference), kind);
    CREATE INDEX passage_reference ON passage (session, md5(reference));
    CREATE INDEX passage_trigrams ON passage USING gin (trigrams);
    """,
    """
    CREATE TABLE usage_indexed (
        session bigint PRIMARY KEY REFERENCES session ON DELETE CASCADE,
        id text NOT NULL,
        seq bigint NOT NULL,  -- the newest entry that is in the usage index
        checksum bigint NOT NULL,
        model text NOT NULL,
        folder text NOT NULL
    );
    CREATE TABLE used (
        session bigint NOT NULL REFERENCES session ON DELETE CASCADE,
        quarter bigint NOT NULL,  -- of an hour
        model text COLLATE "C" NOT NULL,  -- empty for that of the session
        requests bigint NOT NULL,
        input_tokens bigint NOT NULL,
        output_tokens bigint NOT NULL,
        cached_tokens bigint NOT NULL,
        cost double precision NOT NULL,
        first_token double precision NOT NULL,
        measured bigint NOT NULL,
        PRIMARY KEY (session, quarter, model)
    );
    CREATE TABLE turn (
        session bigint NOT NULL REFERENCES session ON DELETE CASCADE,
        seq bigint NOT NULL,
        time double precision NOT NULL,
        tokens bigint NOT NULL,  -- of the context
        is_compaction boolean NOT NULL,
        cost double precision,
        PRIMARY KEY (session, seq)
    );
    """,
    """
    ALTER TABLE session ADD COLUMN chain bytea NOT NULL DEFAULT '';  -- the newest link of its entries
    """,
)
"""The scripts that upgrade the schema, one a version."""


async def version_of(connection: Connection) -> int:
    """Return the version of the log in the database; 0 if there is none."""
    if not await connection.fetchval(_EXISTS):
        return 0
    found: int | None = await connection.fetchval("SELECT max(version) FROM outrider.format")
    version = found or 0
    if version > len(MIGRATIONS):
        raise NewerLogError(
            f"the log in this database was written by a newer version of Outrider (format {version}, this version "
            f"reads up to {len(MIGRATIONS)}); upgrade Outrider to use it"
        )
    return version


async def migrate(connection: Connection) -> None:
    """Bring the schema to this version in one transaction, even if other processes try the same."""
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
            version = await version_of(connection)
            if version == 0 and not await connection.fetchval(_HAS_SCHEMA, SCHEMA):
                await connection.execute(f"CREATE SCHEMA {SCHEMA}")
            for number in range(version, len(MIGRATIONS)):
                await connection.execute(MIGRATIONS[number])
                await connection.execute("INSERT INTO format VALUES ($1)", number + 1)
    except asyncpg.InsufficientPrivilegeError as error:
        raise LogError(
            f"the tables of the log must be brought to format {len(MIGRATIONS)}, which this role may not do ({error}); "
            "run a command such as `outrider sessions` once with the URL of the owner of the schema"
        ) from None
