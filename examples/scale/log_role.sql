-- A role for programs and workers that share a log in Postgres: docs/scale.md. Run it as the owner of the schema.
CREATE ROLE outrider_worker LOGIN;
GRANT CONNECT ON DATABASE outrider TO outrider_worker;
GRANT USAGE ON SCHEMA outrider TO outrider_worker;
GRANT SELECT ON outrider.format TO outrider_worker;
GRANT SELECT, INSERT ON outrider.event, outrider.reference, outrider.chunk, outrider.passage TO outrider_worker;
GRANT SELECT, INSERT, UPDATE ON outrider.session, outrider.file, outrider.indexed TO outrider_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON outrider.question, outrider.signal, outrider.listener TO outrider_worker;
GRANT USAGE ON SEQUENCE outrider.opening, outrider.session_number_seq TO outrider_worker;
