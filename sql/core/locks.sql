-- Classes of advisory locks: the first of the two numbers that PostgreSQL's advisory locks take. They spell FENC
-- in ASCII, plus a digit, so that an application's own advisory locks do not meet them by chance.

create function fencepost_private.lock_sleepers() returns int language sql immutable parallel safe return 1178947136;
comment on function fencepost_private.lock_sleepers() is 'Lock class of sleeping workers; the second number is a wake group, 0 to 15.';

create function fencepost_private.lock_type() returns int language sql immutable parallel safe return 1178947137;
comment on function fencepost_private.lock_type() is 'Lock class of claims of a type with max_running; the second number is the type_id.';

create function fencepost_private.lock_worker() returns int language sql immutable parallel safe return 1178947138;
comment on function fencepost_private.lock_worker() is 'Lock class of a worker''s claims (shared) against its final sweep (exclusive); the second number is the worker_id.';

create function fencepost_private.lock_housekeeping() returns int language sql immutable parallel safe return 1178947139;
comment on function fencepost_private.lock_housekeeping() is 'Lock class of housekeeping; the second number: 1 maintain, 2 partitions, 3 migration.';

create function fencepost_private.lock_consumer() returns int language sql immutable parallel safe return 1178947140;
comment on function fencepost_private.lock_consumer() is 'Lock class of a consumer of the event log; the second number is the consumer_id.';
