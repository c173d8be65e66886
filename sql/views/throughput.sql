-- The last three hours by minute, for charts.
create view fencepost.throughput as
select m.minute, t.type, m.enqueued, m.completed, m.failed, m.dead_lettered
from fencepost_private.type_minute m
join fencepost_private.job_type t on t.type_id = m.type_id;

comment on view fencepost.throughput is 'What happened in each of the last minutes (three hours of them), by type; as fresh as the last maintain().';
comment on column fencepost.throughput.minute is 'Beginning of the minute.';
comment on column fencepost.throughput.type is 'The type.';
comment on column fencepost.throughput.enqueued is 'Jobs enqueued.';
comment on column fencepost.throughput.completed is 'Jobs completed.';
comment on column fencepost.throughput.failed is 'Attempts that failed, timed out or lost their worker.';
comment on column fencepost.throughput.dead_lettered is 'Jobs dead-lettered.';
