-- What a worker of batches needs beside log_role.sql, once the first `outrider batch` has created the tables.
GRANT USAGE ON SCHEMA dbos, outrider_batch TO outrider_worker;
GRANT SELECT ON dbos.dbos_migrations, dbos.queues, dbos.workflow_input TO outrider_worker;
GRANT SELECT, INSERT, UPDATE ON dbos.application_versions, dbos.workflow_output TO outrider_worker;
GRANT SELECT, UPDATE ON dbos.workflow_status, outrider_batch.batch TO outrider_worker;
GRANT SELECT, INSERT, UPDATE ON outrider_batch.pace TO outrider_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON outrider_batch.executor, outrider_batch.parked TO outrider_worker;
