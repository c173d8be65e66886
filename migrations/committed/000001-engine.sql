--! Previous: -
--! Hash: sha1:34fad3094a4aec72582030f4fc09f5af25ecd753

-- The whole engine, in the order in which it can be created. A new file of sql/ is listed here; `npm run db:check`
-- compares a database made from this list with one made by the committed migrations.

-- Schemas, words, clock, errors
--! Included core/schemas.sql
-- The two rooms of the engine. `fencepost` is what people and programs use and what we keep stable;
-- `fencepost_private` is where the tables and helpers live, and may change with any release.
create schema if not exists fencepost;
comment on schema fencepost is 'Fencepost, a durable job engine: the stable functions and views. Start with \df+ fencepost.* and fencepost.doctor().';

create schema if not exists fencepost_private;
comment on schema fencepost_private is 'Tables and helpers behind the schema fencepost. Read them freely; only functions of fencepost write them.';
--! EndIncluded core/schemas.sql
--! Included core/enums.sql
-- The words that are stored. They are enums so that a row in psql reads as English at four bytes a word.

create type fencepost_private.event_kind as enum (
  'job.enqueued', 'job.started', 'job.retry_scheduled', 'job.completed', 'job.dead_lettered', 'job.cancelled',
  'job.replayed', 'job.discarded', 'job.cancel_requested', 'job.reprioritized', 'job.released', 'job.suspended', 'job.resumed',
  'run.started', 'run.completed', 'run.failed', 'run.cancelled', 'run.paused', 'run.resumed', 'run.compensated',
  'task.skipped', 'signal.received', 'schedule.fired', 'consumer.expired', 'approval.requested', 'approval.decided',
  'worker.registered', 'worker.lost', 'worker.stopped', 'worker.draining',
  'operator.type_configured', 'operator.type_paused', 'operator.type_resumed', 'operator.restored', 'run.migrated', 'operator.workflow_configured',
  'operator.webhook_changed');
comment on type fencepost_private.event_kind is 'What happened, in the event log. A kind is never renamed; new ones are added at the end.';

create type fencepost_private.attempt_outcome as enum (
  'completed', 'failed', 'timed_out', 'lease_expired', 'released', 'cancelled', 'suspended');
comment on type fencepost_private.attempt_outcome is 'How one attempt of a job ended. A running attempt has none yet.';

create type fencepost_private.worker_status as enum ('active', 'draining', 'lost', 'stopped');
comment on type fencepost_private.worker_status is 'A worker''s life: active or draining, then lost (it fell silent) or stopped (it said goodbye).';
--! EndIncluded core/enums.sql
--! Included core/now.sql
-- The one clock of the engine. Every function reads it once per call and hands the instant on; tests replace
-- this function, never its callers. It is the database's wall clock: a worker's clock decides nothing.
create function fencepost_private.now() returns timestamptz
language sql volatile parallel safe
return clock_timestamp();

comment on function fencepost_private.now() is 'The engine''s clock: the database''s wall clock, read once per call. Tests replace this function to move time.';
--! EndIncluded core/now.sql
--! Included core/xid.sql
-- The 64-bit id of the top transaction, as a plain bigint. Rows that are read "in commit order" carry it:
-- ready jobs, events and depth deltas. Subtransactions share the number of their top transaction.
create function fencepost_private.xid() returns bigint
language sql volatile
return pg_current_xact_id()::text::bigint;

comment on function fencepost_private.xid() is 'The 64-bit id of the current top transaction; assigns one if there was none.';
--! EndIncluded core/xid.sql
--! Included core/errors.sql
-- Every error that the engine raises on purpose has a code of class JE, listed once, here.
create table fencepost_private.error_code (
  code    text primary key constraint error_code_is_je check (code ~ '^JE\d{3}$'),
  name    text not null unique,
  meaning text not null
);
comment on table fencepost_private.error_code is 'The engine''s own SQLSTATEs. SQL, TypeScript, HTTP and the documentation are compared with this list.';
comment on column fencepost_private.error_code.code is 'The SQLSTATE.';
comment on column fencepost_private.error_code.name is 'A short name in snake case, the same in every language.';
comment on column fencepost_private.error_code.meaning is 'What it means, in a sentence.';

insert into fencepost_private.error_code (code, name, meaning) values
  ('JE001', 'lease_lost',            'The job is not (or no longer) leased under this token: another attempt owns it, or it has ended.'),
  ('JE002', 'not_found',             'Nothing of that id or name exists.'),
  ('JE003', 'invalid_argument',      'An argument is missing, malformed or out of range.'),
  ('JE004', 'illegal_transition',    'The thing exists, but its present state does not allow this.'),
  ('JE005', 'idempotency_conflict',  'The idempotency key was already used for a job with another payload.'),
  ('JE006', 'payload_rejected',      'The payload or result is too large or does not satisfy the check of its type.'),
  ('JE007', 'enqueue_refused',       'The type does not accept jobs now, or its queue is full.'),
  ('JE008', 'definition_invalid',    'A workflow definition is invalid.'),
  ('JE009', 'not_allowed',           'This tenant or role may not do that.'),
  ('JE010', 'worker_lost',           'The worker is unknown, was declared lost or has stopped: it must register anew.'),
  ('JE011', 'protocol_mismatch',     'The client is too old or too new for this schema.');

-- The single place that raises. Returns nothing ever; typed so that it can stand in an expression.
create function fencepost_private.raise_error(p_code text, p_message text, p_detail text default null, p_hint text default null)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  raise exception using
    errcode = p_code,
    message = p_message,
    detail = coalesce(p_detail, ''),
    hint = rtrim(coalesce(p_hint, ''));
end
$$;
comment on function fencepost_private.raise_error(text, text, text, text) is 'Raises an engine error: code, what was wrong, what was received (detail), what would be right (hint).';

create view fencepost.error_codes as
select e.code, e.name, e.meaning from fencepost_private.error_code e order by e.code;
comment on view fencepost.error_codes is 'Every error code that the engine raises, and what it means.';
comment on column fencepost.error_codes.code is 'The SQLSTATE.';
comment on column fencepost.error_codes.name is 'A short name, the same in every language.';
comment on column fencepost.error_codes.meaning is 'What it means, in a sentence.';
--! EndIncluded core/errors.sql
--! Included core/text.sql
-- Small words for messages and checks.

-- The candidate nearest to what was typed, for "did you mean": most pairs of letters of the word are in it, and it is not
-- much longer, unless it shares more than one of them.
create function fencepost_private.did_you_mean(p_word text, p_candidates text[]) returns text
language sql immutable
set search_path = fencepost_private, pg_temp
as $$
  select 'did you mean ' || quote_literal(c.name) || '? '
  from unnest(p_candidates) as c(name)
  cross join lateral (
    select count(*) as shared
    from generate_series(1, greatest(length(p_word) - 1, 0)) as i
    where position(substr(lower(replace(p_word, '_', '')), i, 2) in lower(replace(c.name, '_', ''))) > 0
      and length(substr(lower(replace(p_word, '_', '')), i, 2)) = 2
  ) as s
  where s.shared * 2 >= length(replace(p_word, '_', '')) - 1 and s.shared > 0 and (s.shared > 1 or length(c.name) <= length(p_word) + 2)
  order by s.shared desc, abs(length(c.name) - length(p_word)), c.name
  limit 1
$$;
comment on function fencepost_private.did_you_mean(text, text[]) is 'A hint that names the candidate nearest to a misspelt word, or null.';

-- Cut a text for storage, and say so: what is kept ends with the last character that lies whole within p_bytes, in which
-- UTF-8 begins each character with a byte that is not 10xxxxxx.
create function fencepost_private.clipped(p_text text, p_bytes int default 65536) returns text
language plpgsql immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_bytes bytea;
  v_end   int := p_bytes;
begin
  if octet_length(p_text) <= p_bytes then
    return p_text;
  end if;
  v_bytes := convert_to(p_text, 'UTF8');
  while v_end > 0 and get_byte(v_bytes, v_end) & 192 = 128 loop
    v_end := v_end - 1;
  end loop;
  return convert_from(substr(v_bytes, 1, v_end), 'UTF8') || format(' … (cut from %s bytes)', octet_length(p_text));
end
$$;
comment on function fencepost_private.clipped(text, int) is 'The first p_bytes bytes of a text, whole characters only: longer ones are cut and say so.';

-- What is given to runs may be as large as a payload of jobs is by default. Errors: JE006.
create function fencepost_private.check_size(p_value jsonb, p_what text) returns void
language plpgsql immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if octet_length(p_value::text) > 1048576 then
    perform raise_error('JE006', format('%s is too large', p_what), format('received %s bytes; the limit is 1048576', octet_length(p_value::text)),
      'Store large data elsewhere and give a reference to it.');
  end if;
end
$$;
comment on function fencepost_private.check_size(jsonb, text) is 'Raises JE006 for JSON of more than 1 MiB.';

-- Errors: JE003 for a text that is longer than what people write.
create function fencepost_private.check_length(p_text text, p_what text, p_most int default 10000) returns void
language plpgsql immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if length(p_text) > p_most then
    perform raise_error('JE003', format('%s must have at most %s characters', p_what, p_most), format('received %s characters', length(p_text)), 'Keep it short: what is long belongs into data.');
  end if;
end
$$;
comment on function fencepost_private.check_length(text, text, int) is 'Raises JE003 for a text that is too long.';
--! EndIncluded core/text.sql
--! Included core/locks.sql
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
--! EndIncluded core/locks.sql
--! Included core/identity.sql
-- Who acts, and for whom. Access control replaces the bodies of these two functions, and nothing else.

create function fencepost_private.current_tenant() returns text
language sql stable
return coalesce(current_setting('fencepost.tenant', true), '');
comment on function fencepost_private.current_tenant() is 'The tenant of this session (setting fencepost.tenant), '''' when there is none.';

create function fencepost_private.actor() returns text
language sql stable
return coalesce(nullif(current_setting('fencepost.actor', true), ''), session_user);
comment on function fencepost_private.actor() is 'Who is acting: the setting fencepost.actor, else the session''s role. Written into operator events.';

-- Every payload, result and error on its way to a reader passes through here, so that hiding what is sensitive
-- will be one change.
create function fencepost_private.shown(p_value jsonb) returns jsonb
language sql immutable
return p_value;
comment on function fencepost_private.shown(jsonb) is 'A payload, result or error as readers may see it.';
--! EndIncluded core/identity.sql
--! Included core/backoff.sql
-- How long to wait before the next attempt: least(cap, base * factor ^ (attempt - 1)), of which the share `jitter`
-- is drawn at random: with jitter 0.5 the wait is uniform between half of it and all of it.
create function fencepost_private.retry_delay(
  p_attempt int, p_base interval, p_factor double precision, p_cap interval, p_jitter double precision,
  p_random double precision default random())
returns interval
language sql volatile parallel safe
return make_interval(secs =>
  least(extract(epoch from p_cap)::double precision,
        extract(epoch from p_base)::double precision * least(power(p_factor, least(p_attempt - 1, 100)), 1e15))
  * (1 - p_jitter * p_random));

comment on function fencepost_private.retry_delay(int, interval, double precision, interval, double precision, double precision)
  is 'Wait before the attempt after p_attempt: least(cap, base * factor ^ (attempt - 1)), less up to the share jitter, at random.';
--! EndIncluded core/backoff.sql
--! Included core/new_job.sql
-- What every enqueue hands to enqueue_rows.
create type fencepost_private.new_job as (
  id              bigint,
  ordinal         int,
  type_id         int,
  lane_id         int,
  tenant          text,
  payload         jsonb,
  headers         jsonb,
  idempotency_key text,
  max_attempts    int,
  timeout         interval,
  available_at    timestamptz,
  run_id          bigint,
  task_id         bigint,
  batch_id        bigint
);
comment on type fencepost_private.new_job is 'A job about to be enqueued: its id is drawn, its lane exists; ordinal is its place in the caller''s list.';
--! EndIncluded core/new_job.sql
--! Included core/workflow_enums.sql
-- The words of the workflow engine.

create type fencepost_private.task_kind as enum ('job', 'approval', 'timer', 'signal', 'map', 'workflow', 'item', 'compensation');
comment on type fencepost_private.task_kind is 'What a task is: the six kinds that a definition names, the items of a map, and the undoing of a completed task.';

create type fencepost_private.task_status as enum ('pending', 'queued', 'waiting', 'completed', 'failed', 'skipped', 'cancelled');
comment on type fencepost_private.task_status is 'Where a task stands. A queued one has a job; whether that runs is told by its lease.';

create type fencepost_private.run_status as enum ('running', 'waiting', 'paused', 'completed', 'failed', 'cancelled', 'compensating', 'compensated');
comment on type fencepost_private.run_status is 'Where a run stands, derived from its tasks by settle_runs alone.';

create type fencepost_private.approval_status as enum ('pending', 'approved', 'rejected', 'expired', 'withdrawn');
comment on type fencepost_private.approval_status is 'A decision: asked for, made, missed, or no longer needed.';
--! EndIncluded core/workflow_enums.sql
--! Included core/workflow_types.sql
-- What the steps of a run hand to each other.

create type fencepost_private.task_end as (task_id bigint, status fencepost_private.task_status, output jsonb, error text);
comment on type fencepost_private.task_end is 'A task that is about to end, and how.';

create type fencepost_private.ended_task as (
  task_id bigint, run_id bigint, version_id int, task_no int, kind fencepost_private.task_kind, parent_task_id bigint,
  was fencepost_private.task_status, status fencepost_private.task_status, released boolean, releases boolean);
comment on type fencepost_private.ended_task is 'A task that has just ended: what it was before, what it is now, whether its children are released, and whether they are by this end.';

create type fencepost_private.run_delta as (
  run_id bigint, pending int, queued int, waiting int, ended_well int, failed int, cancelled int, undoing int, undo_failed int);
comment on type fencepost_private.run_delta is 'By how much the numbers of a run change.';

create type fencepost_private.due_task as (
  task_id bigint, run_id bigint, task_no int, kind fencepost_private.task_kind, tenant text, type text, priority int, max_attempts int, timeout interval,
  payload jsonb, keeps_input boolean, ends_as fencepost_private.task_status, reason text, expires_at timestamptz, due_at timestamptz, signal text, items jsonb, template jsonb, child text, child_version int);
comment on type fencepost_private.due_task is 'A task whose parents have ended, with what its start needs; or how and why it ends at once.';
--! EndIncluded core/workflow_types.sql
--! Included core/outbox_types.sql
-- A place in the event log. The log is read from tick to tick (see tables/outbox.sql): what became visible between two
-- ticks is a batch, read in order of id. A place is "all up to the tick (px, pflight)", and within the batch that leads
-- from there to (tx, tflight) also all up to last_id; tx is null between batches.
create type fencepost_private.log_position as (px bigint, pflight int, tx bigint, tflight int, last_id bigint);
comment on type fencepost_private.log_position is 'A place in the event log: a tick, and how far the batch after it was read.';

create type fencepost_private.parsed_position as (place fencepost_private.log_position, parked_id bigint, token bigint);
comment on type fencepost_private.parsed_position is 'What a position says: a place in the log or a parked event, and the token of a lease.';
--! EndIncluded core/outbox_types.sql

-- Tables
--! Included tables/migration.sql
-- Which migrations this database holds. Written by `fencepost migrate` (or by fencepost.sql) in the transaction
-- of each migration, and read by nothing else: the engine's own behaviour never depends on it.
create table fencepost_private.migration (
  number     int primary key,
  name       text not null,
  hash       text not null constraint migration_hash_unique unique,
  applied_at timestamptz not null default clock_timestamp(),
  applied_by text not null default session_user
);

comment on table fencepost_private.migration is 'The migrations that this database holds, one row each.';
comment on column fencepost_private.migration.number is 'Its place in the chain: 1, 2, 3 … without a gap.';
comment on column fencepost_private.migration.name is 'The name of its file.';
comment on column fencepost_private.migration.hash is 'The hash of its text and of the hash before it: the last one vouches for the whole chain.';
comment on column fencepost_private.migration.applied_at is 'When it was applied.';
comment on column fencepost_private.migration.applied_by is 'The role that applied it.';
--! EndIncluded tables/migration.sql
--! Included tables/origin.sql
-- Whether this server wrote the rows of this database. They carry its transaction numbers; a logical copy (pg_dump and
-- pg_restore, logical replication) takes them to where numbers are others. So one row holds the number of the
-- transaction that wrote it, which the server itself knows of every row (xmin). Physical copies, promotion, pg_upgrade,
-- freezing, VACUUM FULL and CREATE DATABASE … TEMPLATE keep both. In a logical copy the row was written by another transaction.
create table fencepost_private.origin (
  written_by bigint primary key
);
comment on table fencepost_private.origin is 'One row that says which transaction wrote it: when that is not so, the rows of this database came from another one.';
comment on column fencepost_private.origin.written_by is 'xmin of the row.';

-- In one statement: psql may give each its own savepoint (ON_ERROR_ROLLBACK), and with it a number of its own.
do $$
begin
  insert into fencepost_private.origin (written_by) values (0);
  update fencepost_private.origin o set written_by = o.xmin::text::bigint;
end
$$;
--! EndIncluded tables/origin.sql
--! Included tables/job_type.sql
-- A type is a name for a kind of work, with its settings. Code declares them, operators override them, and an
-- override stays until an operator takes it back: a deploy never undoes what was set in an incident.
create table fencepost_private.job_type (
  type_id        int generated always as identity primary key,
  type           text not null constraint job_type_name_unique unique
                 constraint job_type_name_well_formed check (type ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$'),
  max_attempts   int not null default 5 constraint job_type_max_attempts_in_range check (max_attempts between 1 and 1000000),
  backoff_base   interval not null default '2 seconds' constraint job_type_backoff_base_positive check (backoff_base between '0' and '100 years'),
  backoff_factor double precision not null default 2 constraint job_type_backoff_factor_in_range check (backoff_factor between 1 and 100),
  backoff_cap    interval not null default '1 hour' constraint job_type_backoff_cap_positive check (backoff_cap between '0' and '100 years'),
  backoff_jitter double precision not null default 0.5 constraint job_type_backoff_jitter_in_range check (backoff_jitter between 0 and 1),
  timeout        interval constraint job_type_timeout_positive check (timeout > '0' and timeout <= '100 years'),
  max_running    int constraint job_type_max_running_positive check (max_running > 0),
  max_pending    int constraint job_type_max_pending_positive check (max_pending > 0),
  max_payload_bytes int not null default 1048576 constraint job_type_max_payload_in_range check (max_payload_bytes between 2 and 268435456),
  payload_check  jsonpath,
  accept         boolean not null default true,
  paused         boolean not null default false,
  publish_enqueued boolean not null default false,
  publish_started  boolean not null default false,
  dead_letter_alert int not null default 100 constraint job_type_alert_positive check (dead_letter_alert > 0),
  keep_finished  interval not null default '7 days' constraint job_type_keep_positive check (keep_finished between '0' and '100 years'),
  overridden     text[] not null default '{}',
  created_at     timestamptz not null default fencepost_private.now(),
  updated_at     timestamptz not null default fencepost_private.now()
);
-- gives the strictest limit of all, which most results keep
create index job_type_payload_idx on fencepost_private.job_type (max_payload_bytes);

comment on table fencepost_private.job_type is 'One row a type of work: its settings. Written by declare_type (from code) and configure_type (by operators).';
comment on column fencepost_private.job_type.type_id is 'Internal number of the type; its wake group is type_id modulo 16.';
comment on column fencepost_private.job_type.type is 'The name that producers and workers use, such as email.send.';
comment on column fencepost_private.job_type.max_attempts is 'Attempts that count before a job is dead-lettered; a job may carry its own.';
comment on column fencepost_private.job_type.backoff_base is 'Wait before the second attempt, before jitter.';
comment on column fencepost_private.job_type.backoff_factor is 'Growth of the wait with each further attempt.';
comment on column fencepost_private.job_type.backoff_cap is 'The longest wait between attempts.';
comment on column fencepost_private.job_type.backoff_jitter is 'Share of the wait that is drawn at random: 0.5 waits between half and all of it.';
comment on column fencepost_private.job_type.timeout is 'How long one attempt may run; null means as long as its lease is kept alive.';
comment on column fencepost_private.job_type.max_running is 'How many jobs of this type may run at once, over all workers; null is no limit.';
comment on column fencepost_private.job_type.max_pending is 'How many jobs may wait before enqueues are refused with JE007; null is no limit.';
comment on column fencepost_private.job_type.max_payload_bytes is 'Largest payload, and largest result, in bytes of JSON text.';
comment on column fencepost_private.job_type.payload_check is 'An SQL/JSON path predicate that a payload must satisfy, such as $.to like_regex "@".';
comment on column fencepost_private.job_type.accept is 'False refuses enqueues with JE007.';
comment on column fencepost_private.job_type.paused is 'True stops claims; enqueues go on.';
comment on column fencepost_private.job_type.publish_enqueued is 'Store a job.enqueued event for each job of this type.';
comment on column fencepost_private.job_type.publish_started is 'Store a job.started event for each attempt of this type.';
comment on column fencepost_private.job_type.dead_letter_alert is 'Dead letters of this type at which the shipped alert fires.';
comment on column fencepost_private.job_type.keep_finished is 'How long finished jobs are kept. Dead letters stay until someone decides.';
comment on column fencepost_private.job_type.overridden is 'Names of the settings that an operator has set: declarations from code leave these alone.';
comment on column fencepost_private.job_type.created_at is 'When the type was first seen.';
comment on column fencepost_private.job_type.updated_at is 'When a setting was last changed.';
--! EndIncluded tables/job_type.sql
--! Included tables/lane.sql
-- A lane is one line of waiting jobs: same type, same priority, same flow. Claims walk lanes, never the whole queue.
create table fencepost_private.lane (
  lane_id  int generated always as identity primary key,
  type_id  int not null references fencepost_private.job_type,
  priority smallint not null constraint lane_priority_in_range check (priority between 0 and 9),
  flow     int not null default 0,
  constraint lane_unique unique (type_id, priority, flow)
);
comment on table fencepost_private.lane is 'One line of waiting jobs for each type, priority and flow. Rows are created on first use and never removed.';
comment on column fencepost_private.lane.lane_id is 'Internal number of the lane.';
comment on column fencepost_private.lane.type_id is 'The type whose jobs wait here.';
comment on column fencepost_private.lane.priority is '0 to 9, higher is claimed first.';
comment on column fencepost_private.lane.flow is '0 until fair flows share a type.';
--! EndIncluded tables/lane.sql
--! Included tables/lane_hint.sql
-- The watermark of a lane, as an append-only register: the newest row counts. "Below (wx, wi) nothing of this lane
-- is alive or can still appear, but for the transactions in late_x and the jobs in held." A hint is true of the
-- snapshot that computed it and stays true for ever, so hints need no lock. Unlogged, and void after a restart:
-- a crash only costs one longer look.
create unlogged table fencepost_private.lane_hint (
  lane_id int not null,
  seq     bigint generated always as identity,
  wx      bigint not null,
  wi      bigint not null,
  late_x  bigint[] not null,
  late_i  bigint[] not null,
  held    bigint[] not null,
  at      timestamptz not null,
  boot    timestamptz not null default pg_postmaster_start_time()
);
create index lane_hint_idx on fencepost_private.lane_hint (lane_id, seq desc);
alter table fencepost_private.lane_hint set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
comment on table fencepost_private.lane_hint is 'Where the live part of each lane begins: a register, newest first, refreshed by claims and pruned by maintain().';
comment on column fencepost_private.lane_hint.lane_id is 'The lane.';
comment on column fencepost_private.lane_hint.seq is 'Newest is highest.';
comment on column fencepost_private.lane_hint.wx is 'Transaction part of the watermark.';
comment on column fencepost_private.lane_hint.wi is 'Job part of the watermark.';
comment on column fencepost_private.lane_hint.late_x is 'Transactions below the watermark that were in flight, or whose late rows are not all taken.';
comment on column fencepost_private.lane_hint.late_i is 'For each of those, the first job id that may be alive.';
comment on column fencepost_private.lane_hint.held is 'Jobs below the watermark that an open claim had locked.';
comment on column fencepost_private.lane_hint.at is 'When it was computed.';
comment on column fencepost_private.lane_hint.boot is 'Start of the server it was computed on; another start voids it.';
--! EndIncluded tables/lane_hint.sql
--! Included tables/worker.sql
-- One row an incarnation: a process that registered once. A restart is a new incarnation, so a number is never
-- used by two processes, and what a lost one still writes can be told from what its successor writes.
create table fencepost_private.worker (
  worker_id    int generated always as identity primary key,
  name         text not null constraint worker_name_length check (length(name) between 1 and 200),
  hostname     text not null default '',
  slot         int not null default 0,
  tenant       text not null default '',
  types        text[] not null default '{}',
  ttl          interval not null constraint worker_ttl_in_range check (ttl between '1 second' and '1 day'),
  status       fencepost_private.worker_status not null default 'active',
  started_at   timestamptz not null,
  heartbeat_at timestamptz not null,
  suspect_at   timestamptz,
  returned_at  timestamptz,
  ended_at     timestamptz,
  swept        boolean not null default false,
  info         jsonb
) with (fillfactor = 50);
create unique index worker_present_idx on fencepost_private.worker (name, hostname, slot) where status in ('active', 'draining');
create index worker_unswept_idx on fencepost_private.worker (worker_id) where not swept;
alter table fencepost_private.worker set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);
comment on table fencepost_private.worker is 'Worker processes, one row an incarnation. All leases of an incarnation live and die with its heartbeat.';
comment on column fencepost_private.worker.worker_id is 'The incarnation; never reused.';
comment on column fencepost_private.worker.name is 'Name that the process gave itself.';
comment on column fencepost_private.worker.hostname is 'Where it runs.';
comment on column fencepost_private.worker.slot is 'Tells processes of one name on one host apart.';
comment on column fencepost_private.worker.tenant is 'The tenant it works for; empty works for all.';
comment on column fencepost_private.worker.types is 'Types that it declared or claims.';
comment on column fencepost_private.worker.ttl is 'How long it may be silent before it is lost.';
comment on column fencepost_private.worker.status is 'active, draining, lost or stopped.';
comment on column fencepost_private.worker.started_at is 'When it registered.';
comment on column fencepost_private.worker.heartbeat_at is 'When it last gave a sign of life.';
comment on column fencepost_private.worker.suspect_at is 'When its silence was first noticed; null while it speaks.';
comment on column fencepost_private.worker.returned_at is 'When it last spoke again after a silence of more than its ttl: an outage, perhaps.';
comment on column fencepost_private.worker.ended_at is 'When it was lost or stopped.';
comment on column fencepost_private.worker.swept is 'True once it has ended and no lease of it can exist any more.';
comment on column fencepost_private.worker.info is 'What it tells of itself: version, pid, slots, language.';
--! EndIncluded tables/worker.sql
--! Included tables/job.sql
-- The body of a job: what was asked for. Insert-only. Where the job stands is told by which other table holds its
-- id (ready, delayed, parked, lease, suspended, dead_letter) or, once it has ended, by its last event.
create sequence fencepost_private.job_id_seq;
comment on sequence fencepost_private.job_id_seq is 'Ids of jobs, in order of enqueue.';

create table fencepost_private.job (
  id              bigint not null default nextval('fencepost_private.job_id_seq'),
  lane_id         int not null,
  tenant          text not null default '',
  payload         jsonb not null,
  headers         jsonb,
  idempotency_key text,
  max_attempts    int constraint job_max_attempts_positive check (max_attempts > 0),
  timeout         interval constraint job_timeout_positive check (timeout > '0' and timeout <= '100 years'),
  created_at      timestamptz not null,
  run_at          timestamptz,
  run_id          bigint,
  task_id         bigint,
  batch_id        bigint,
  concurrency_key text,
  fair_key        text,
  pool            text,
  slots           int,
  primary key (id)
) partition by range (id);

comment on table fencepost_private.job is 'The body of every job: insert-only, range-partitioned by id. Its state is the table that holds its id.';
comment on column fencepost_private.job.id is 'The job''s number, unique for ever.';
comment on column fencepost_private.job.lane_id is 'The lane it was enqueued into; the present lane is told by the place that holds it.';
comment on column fencepost_private.job.tenant is 'Whose job it is; empty without tenants.';
comment on column fencepost_private.job.payload is 'What the handler is given.';
comment on column fencepost_private.job.headers is 'Metadata for machines, such as traceparent; handlers see it, nothing here reads it.';
comment on column fencepost_private.job.idempotency_key is 'The key under which it was enqueued once.';
comment on column fencepost_private.job.max_attempts is 'Its own limit of attempts; null takes the type''s.';
comment on column fencepost_private.job.timeout is 'Its own limit for one attempt; null takes the type''s.';
comment on column fencepost_private.job.created_at is 'When it was enqueued.';
comment on column fencepost_private.job.run_at is 'The earliest time of its first attempt, when it was delayed.';
comment on column fencepost_private.job.run_id is 'The workflow run it belongs to.';
comment on column fencepost_private.job.task_id is 'The task of that run.';
comment on column fencepost_private.job.batch_id is 'The batch it belongs to.';
comment on column fencepost_private.job.concurrency_key is 'Reserved for limits by key.';
comment on column fencepost_private.job.fair_key is 'Reserved for fair sharing.';
comment on column fencepost_private.job.pool is 'Reserved for pools.';
comment on column fencepost_private.job.slots is 'Reserved for pools.';
--! EndIncluded tables/job.sql
--! Included tables/idempotency_key.sql
-- One row a key that was used. It lives as long as the job it names.
create table fencepost_private.idempotency_key (
  tenant  text not null,
  type_id int not null,
  key     text not null constraint idempotency_key_length check (length(key) between 1 and 500),
  job_id  bigint not null,
  constraint idempotency_key_pkey primary key (tenant, type_id, key)
);
create index idempotency_key_job_idx on fencepost_private.idempotency_key (job_id);
comment on table fencepost_private.idempotency_key is 'Which job an idempotency key stands for, by tenant and type. Kept as long as the job.';
comment on column fencepost_private.idempotency_key.tenant is 'The job''s tenant.';
comment on column fencepost_private.idempotency_key.type_id is 'The job''s type.';
comment on column fencepost_private.idempotency_key.key is 'The key, as the producer gave it.';
comment on column fencepost_private.idempotency_key.job_id is 'The job that was enqueued under it.';
--! EndIncluded tables/idempotency_key.sql
--! Included tables/ready.sql
-- Jobs that can be claimed now. The hottest table: narrow rows, inserted once, deleted once, never updated.
-- Inside a lane the order is (xid, id): the transaction that inserted the row, then the job. Claims start at a
-- lane's watermark (see lane_hint), so rows that died below it cost nothing, however long they linger.
create table fencepost_private.ready (
  id       bigint primary key,
  xid      bigint not null,
  lane_id  int not null,
  attempts int not null,
  token    int not null,
  ready_at timestamptz not null
);
create index ready_lane_idx on fencepost_private.ready (lane_id, xid, id);
alter table fencepost_private.ready set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_analyze_threshold = 1000000000);

comment on table fencepost_private.ready is 'Jobs that can be claimed now, in lanes. Insert once, delete once, never updated.';
comment on column fencepost_private.ready.id is 'The job.';
comment on column fencepost_private.ready.xid is 'Top transaction that put it here; with id, its order in the lane.';
comment on column fencepost_private.ready.lane_id is 'The lane it waits in.';
comment on column fencepost_private.ready.attempts is 'Attempts that count so far.';
comment on column fencepost_private.ready.token is 'The fencing token of its last claim; 0 before the first.';
comment on column fencepost_private.ready.ready_at is 'Since when it could have been claimed.';
--! EndIncluded tables/ready.sql
--! Included tables/delayed.sql
-- Jobs that wait for a time: enqueued with a delay, or waiting to be tried again.
create table fencepost_private.delayed (
  id           bigint primary key,
  available_at timestamptz not null,
  lane_id      int not null,
  attempts     int not null,
  token        int not null
);
create index delayed_due_idx on fencepost_private.delayed (available_at, id);
alter table fencepost_private.delayed set (
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
comment on table fencepost_private.delayed is 'Jobs that wait for their time: delayed ones and retries. maintain() and claims promote what is due.';
comment on column fencepost_private.delayed.id is 'The job.';
comment on column fencepost_private.delayed.available_at is 'When it becomes ready.';
comment on column fencepost_private.delayed.lane_id is 'The lane it will join.';
comment on column fencepost_private.delayed.attempts is 'Attempts that count so far.';
comment on column fencepost_private.delayed.token is 'The fencing token of its last claim; 0 before the first.';
--! EndIncluded tables/delayed.sql
--! Included tables/lease.sql
-- Who runs what. A row is born by a claim and dies with the end of the attempt; whoever can name (id, token) owns
-- the attempt. Indexed by id alone: under a held snapshot every further index would be a chain of dead entries.
create table fencepost_private.lease (
  id         bigint primary key,
  token      int not null,
  worker_id  int not null,
  lane_id    int not null,
  tenant     text not null default '',
  run_id     bigint,
  task_id    bigint,
  attempts   int not null,
  ready_at   timestamptz not null,
  started_at timestamptz not null,
  deadline   timestamptz,
  seen_at    timestamptz,
  cancel_requested_at timestamptz,
  cancel_reason text
) with (fillfactor = 80);
alter table fencepost_private.lease set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_threshold = 1000000000);
comment on table fencepost_private.lease is 'Running attempts: which worker holds which job, under which fencing token.';
comment on column fencepost_private.lease.id is 'The job.';
comment on column fencepost_private.lease.token is 'Fencing token of this attempt; it grows with every claim in the job''s life.';
comment on column fencepost_private.lease.worker_id is 'The worker (its incarnation) that holds it.';
comment on column fencepost_private.lease.lane_id is 'The lane it was claimed from.';
comment on column fencepost_private.lease.tenant is 'The job''s tenant.';
comment on column fencepost_private.lease.run_id is 'The workflow run of the job.';
comment on column fencepost_private.lease.task_id is 'The task of that run.';
comment on column fencepost_private.lease.attempts is 'Number of this attempt; replay starts again at 1.';
comment on column fencepost_private.lease.ready_at is 'Since when the job could have been claimed.';
comment on column fencepost_private.lease.started_at is 'When it was claimed.';
comment on column fencepost_private.lease.deadline is 'When this attempt times out; null without a timeout.';
comment on column fencepost_private.lease.seen_at is 'When its worker last named it in a heartbeat; written only for leases older than a ttl.';
comment on column fencepost_private.lease.cancel_requested_at is 'When cancellation was asked for.';
comment on column fencepost_private.lease.cancel_reason is 'Why.';
--! EndIncluded tables/lease.sql
--! Included tables/suspended.sql
-- Jobs that left their worker to wait: for a time, for resume(), or for both. They hold no lease and no slot.
create table fencepost_private.suspended (
  id           bigint primary key,
  lane_id      int not null,
  attempts     int not null,
  token        int not null,
  suspended_at timestamptz not null,
  wake_at      timestamptz,
  waits_for    text
);
create index suspended_wake_idx on fencepost_private.suspended (wake_at) where wake_at is not null;
comment on table fencepost_private.suspended is 'Jobs that wait for a time or a signal, off any worker.';
comment on column fencepost_private.suspended.id is 'The job.';
comment on column fencepost_private.suspended.lane_id is 'The lane it returns to.';
comment on column fencepost_private.suspended.attempts is 'Attempts that count so far: a suspended attempt does not.';
comment on column fencepost_private.suspended.token is 'The fencing token of its last claim.';
comment on column fencepost_private.suspended.suspended_at is 'Since when it waits.';
comment on column fencepost_private.suspended.wake_at is 'When it resumes by itself; null waits for resume().';
comment on column fencepost_private.suspended.waits_for is 'Name of the signal it waits for, if any.';
--! EndIncluded tables/suspended.sql
--! Included tables/parked.sql
-- Jobs that wait for something besides a worker or a time: for their run to be resumed ('run'), for the gate before
-- their task ('approval'), for room in the map they are an item of ('map 12'), and, once limits by key exist, for a slot.
create table fencepost_private.parked (
  id        bigint primary key,
  lane_id   int not null,
  attempts  int not null,
  token     int not null,
  parked_at timestamptz not null,
  waits_for text not null,
  due_at    timestamptz
);
create index parked_waits_for_idx on fencepost_private.parked (waits_for, id);
comment on table fencepost_private.parked is 'Jobs that are held: by a paused run, a gate, a full map, a key or pool.';
comment on column fencepost_private.parked.id is 'The job.';
comment on column fencepost_private.parked.lane_id is 'The lane it returns to.';
comment on column fencepost_private.parked.attempts is 'Attempts that count so far.';
comment on column fencepost_private.parked.token is 'The fencing token of its last claim; 0 before the first.';
comment on column fencepost_private.parked.parked_at is 'Since when it waits.';
comment on column fencepost_private.parked.waits_for is 'What it waits for: run, approval, map and its task, or the key or pool.';
comment on column fencepost_private.parked.due_at is 'Until when it had to wait when it was parked, such as a retry: it is not ready before. Null for a job that was due.';
--! EndIncluded tables/parked.sql
--! Included tables/step.sql
-- What a handler has written down on its way: checkpoints that are recorded once, and its latest progress.
create table fencepost_private.step (
  job_id bigint not null,
  name   text not null constraint step_name_length check (length(name) between 1 and 200),
  value  jsonb,
  token  int not null,
  at     timestamptz not null,
  constraint step_pkey primary key (job_id, name)
);
comment on table fencepost_private.step is 'Checkpoints of handlers: recorded once, given back to every later attempt.';
comment on column fencepost_private.step.job_id is 'The job.';
comment on column fencepost_private.step.name is 'The step, unique in the job.';
comment on column fencepost_private.step.value is 'What the step returned.';
comment on column fencepost_private.step.token is 'The attempt that recorded it.';
comment on column fencepost_private.step.at is 'When.';

create table fencepost_private.progress (
  job_id bigint primary key,
  token  int not null,
  value  jsonb not null,
  at     timestamptz not null
) with (fillfactor = 50);
comment on table fencepost_private.progress is 'Latest progress that a handler reported, one row a job.';
comment on column fencepost_private.progress.job_id is 'The job.';
comment on column fencepost_private.progress.token is 'The attempt that reported it.';
comment on column fencepost_private.progress.value is 'Whatever the handler said: a number, a text, an object.';
comment on column fencepost_private.progress.at is 'When.';
--! EndIncluded tables/step.sql
--! Included tables/dead_letter.sql
-- Jobs that failed for good. Nothing but replay or discard ever moves one.
create table fencepost_private.dead_letter (
  id          bigint primary key,
  lane_id     int not null,
  attempts    int not null,
  token       int not null,
  tenant      text not null default '',
  final_error text not null,
  details     jsonb,
  failed_at   timestamptz not null
);
create index dead_letter_lane_idx on fencepost_private.dead_letter (lane_id, id);
comment on table fencepost_private.dead_letter is 'Jobs that failed for good, with their final error. Kept until replayed or discarded.';
comment on column fencepost_private.dead_letter.id is 'The job.';
comment on column fencepost_private.dead_letter.lane_id is 'The lane it would return to.';
comment on column fencepost_private.dead_letter.attempts is 'Attempts that counted.';
comment on column fencepost_private.dead_letter.token is 'The fencing token of its last attempt.';
comment on column fencepost_private.dead_letter.tenant is 'The job''s tenant.';
comment on column fencepost_private.dead_letter.final_error is 'Message of the last error.';
comment on column fencepost_private.dead_letter.details is 'What else the worker said of it (name, stack, cause).';
comment on column fencepost_private.dead_letter.failed_at is 'When it was dead-lettered.';
--! EndIncluded tables/dead_letter.sql
--! Included tables/event.sql
-- The log: one row for every transition, written in the transaction that made it, and never changed. It is the
-- history of attempts, the audit trail and the outbox at once.
create sequence fencepost_private.event_id_seq cache 1;
comment on sequence fencepost_private.event_id_seq is 'Ids of events. Cache 1: within one job''s life ids grow.';

create table fencepost_private.event (
  id         bigint not null default nextval('fencepost_private.event_id_seq'),
  xid        bigint not null,
  at         timestamptz not null,
  tenant     text not null default '',
  kind       fencepost_private.event_kind not null,
  outcome    fencepost_private.attempt_outcome,
  lane_id    int,
  job_id     bigint,
  run_id     bigint,
  task_id    bigint,
  attempt    int,
  token      int,
  worker_id  int,
  ready_at   timestamptz,
  started_at timestamptz,
  actor      text,
  data       jsonb
) partition by range (id);
create index event_xid_idx on fencepost_private.event (xid, id);
create index event_job_idx on fencepost_private.event (job_id) where job_id is not null;

alter table fencepost_private.event replica identity full;  -- see depth_delta; make_partitions() says so of each partition
comment on table fencepost_private.event is 'The append-only log of every transition, in the transaction that made it. Range-partitioned by id.';
comment on column fencepost_private.event.id is 'Orders the events of one job; across jobs, commits may come in another order.';
comment on column fencepost_private.event.xid is 'Top transaction that wrote it; consumers read in commit order through it.';
comment on column fencepost_private.event.at is 'When it happened.';
comment on column fencepost_private.event.tenant is 'Whose it is; empty without tenants.';
comment on column fencepost_private.event.kind is 'What happened.';
comment on column fencepost_private.event.outcome is 'How the attempt ended, when the event ends one.';
comment on column fencepost_private.event.lane_id is 'The lane of the job, hence its type and priority.';
comment on column fencepost_private.event.job_id is 'The job.';
comment on column fencepost_private.event.run_id is 'The workflow run.';
comment on column fencepost_private.event.task_id is 'The task of the run.';
comment on column fencepost_private.event.attempt is 'Number of the attempt.';
comment on column fencepost_private.event.token is 'Fencing token of the attempt.';
comment on column fencepost_private.event.worker_id is 'The worker (incarnation).';
comment on column fencepost_private.event.ready_at is 'Since when the job could have been claimed: started_at less this is the wait.';
comment on column fencepost_private.event.started_at is 'When the attempt was claimed: at less this is the run time.';
comment on column fencepost_private.event.actor is 'Who did it, for what people do.';
comment on column fencepost_private.event.data is 'The result, the error, or what else belongs to the event.';
--! EndIncluded tables/event.sql
--! Included tables/outbox.sql
-- The event log as outbox: ticks, which put it in commit order, and who reads it.

-- A tick is what one snapshot saw: all transactions below x but those in xip had ended. Of any two snapshots one saw
-- all that the other saw, so ticks are in order by (x, flight). Two ticks may be equal. Append-only.
create table fencepost_private.event_tick (
  x       bigint not null,
  flight  int not null,
  xip     bigint[] not null,
  at      timestamptz not null,
  last_id bigint not null
);
create index event_tick_order_idx on fencepost_private.event_tick (x, flight);
create index event_tick_at_idx on fencepost_private.event_tick (at);
alter table fencepost_private.event_tick replica identity full;  -- see depth_delta
comment on table fencepost_private.event_tick is 'What snapshots saw of the event log, in order. A batch is what became visible from one tick to another.';
comment on column fencepost_private.event_tick.x is 'All transactions at or above it were not seen.';
comment on column fencepost_private.event_tick.flight is 'Less the number of those below it that were not seen either: of two ticks with the same x, the higher saw more.';
comment on column fencepost_private.event_tick.xip is 'Transactions below x that were in flight.';
comment on column fencepost_private.event_tick.at is 'When it was taken.';
comment on column fencepost_private.event_tick.last_id is 'No event that it saw has a higher id.';

create table fencepost_private.consumer (
  consumer_id int generated always as identity primary key,
  name        text not null constraint consumer_name_unique unique
              constraint consumer_name_well_formed check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$'),
  kinds       text[],
  types       text[],
  tenant      text,
  max_lag     interval constraint consumer_max_lag_positive check (max_lag > '0' and max_lag <= '100 years'),
  created_at  timestamptz not null,
  expired_at  timestamptz,
  pruned_seq  bigint not null default 0,
  deliveries  boolean not null default true
) with (fillfactor = 50);
comment on table fencepost_private.consumer is 'An independent reader of the event log.';
comment on column fencepost_private.consumer.consumer_id is 'Internal number.';
comment on column fencepost_private.consumer.name is 'Its name.';
comment on column fencepost_private.consumer.kinds is 'Kinds of events that it gets, exact or with a star at the end; null is all.';
comment on column fencepost_private.consumer.types is 'Types of jobs whose events it gets; null is all, and events of no job too.';
comment on column fencepost_private.consumer.tenant is 'The tenant whose events it gets; null is all.';
comment on column fencepost_private.consumer.max_lag is 'For how long it may have something to read; beyond it the log is no longer kept for it. Null is no limit.';
comment on column fencepost_private.consumer.created_at is 'When it was created.';
comment on column fencepost_private.consumer.expired_at is 'Since when it is beyond max_lag; until it is moved with seek_consumer.';
comment on column fencepost_private.consumer.pruned_seq is 'Older rows of consumer_state have been removed up to here.';
comment on column fencepost_private.consumer.deliveries is 'False for webhooks: they get no events of jobs that deliver to webhooks, since each would make another.';

-- Where each consumer stands: a register, the row with the highest seq holds. Two sessions cannot write the same seq.
create table fencepost_private.consumer_state (
  consumer_id  int not null,
  seq          bigint not null,
  position     fencepost_private.log_position not null,
  sent         fencepost_private.log_position,
  after_sent   fencepost_private.log_position,
  token        bigint not null default 0,
  reader       text,
  leased_until timestamptz,
  at           timestamptz not null,
  constraint consumer_state_pkey primary key (consumer_id, seq)
);
comment on table fencepost_private.consumer_state is 'Where consumers stand: append-only, newest first, pruned.';
comment on column fencepost_private.consumer_state.consumer_id is 'The consumer.';
comment on column fencepost_private.consumer_state.seq is '1, 2, 3 … within the consumer.';
comment on column fencepost_private.consumer_state.position is 'Everything up to here is acknowledged.';
comment on column fencepost_private.consumer_state.sent is 'The last event that was handed to the reader under this token.';
comment on column fencepost_private.consumer_state.after_sent is 'Where to go on once that one is acknowledged.';
comment on column fencepost_private.consumer_state.token is 'Fencing token of the lease: it grows with every reader that takes it.';
comment on column fencepost_private.consumer_state.reader is 'Who holds the lease.';
comment on column fencepost_private.consumer_state.leased_until is 'Until when; null when nobody does.';
comment on column fencepost_private.consumer_state.at is 'When this row was written.';

-- Events that a consumer set aside because they cannot be delivered: kept whole, so that the log need not be.
create table fencepost_private.parked_event (
  consumer_id int not null,
  event_id    bigint not null,
  event       jsonb not null,
  reason      text not null,
  times       int not null default 1,
  parked_at   timestamptz not null,
  again       boolean not null default false,
  given       bigint,
  constraint parked_event_pkey primary key (consumer_id, event_id)
);
create index parked_event_again_idx on fencepost_private.parked_event (consumer_id, event_id) where again;
comment on table fencepost_private.parked_event is 'Events that a consumer set aside with a reason.';
comment on column fencepost_private.parked_event.consumer_id is 'The consumer.';
comment on column fencepost_private.parked_event.event_id is 'The event.';
comment on column fencepost_private.parked_event.event is 'The event as it would be read.';
comment on column fencepost_private.parked_event.reason is 'Why it could not be delivered.';
comment on column fencepost_private.parked_event.times is 'How often it was set aside.';
comment on column fencepost_private.parked_event.parked_at is 'When it last was.';
comment on column fencepost_private.parked_event.again is 'True when it is to be delivered again.';
comment on column fencepost_private.parked_event.given is 'Token of the lease under which it was, and is to be acknowledged; null until then.';
--! EndIncluded tables/outbox.sql
--! Included tables/webhook.sql
-- Endpoints that get events by HTTP. Each has a consumer (webhook:NAME) and a type of job (fencepost.webhook.NAME) of its
-- own: where it stands in the log, whether it is paused and how often it is tried are theirs, and stored nowhere else.
create table fencepost_private.webhook (
  webhook_id int generated always as identity primary key,
  name       text not null constraint webhook_name_unique unique
             constraint webhook_name_well_formed check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,99}$'),
  url        text not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  error      text,
  error_at   timestamptz
) with (fillfactor = 50);
comment on table fencepost_private.webhook is 'Endpoints that get events by HTTP.';
comment on column fencepost_private.webhook.webhook_id is 'Internal number, never used twice: with the id of an event it makes the id of a message.';
comment on column fencepost_private.webhook.name is 'Its name.';
comment on column fencepost_private.webhook.url is 'Where messages go.';
comment on column fencepost_private.webhook.created_at is 'When it was created.';
comment on column fencepost_private.webhook.updated_at is 'When its URL, filter or secret last changed.';
comment on column fencepost_private.webhook.error is 'Why its events could not be made deliveries at the last try; null when they were.';
comment on column fencepost_private.webhook.error_at is 'Since when.';

create table fencepost_private.webhook_secret (
  webhook_id int not null,
  secret     text not null,
  created_at timestamptz not null,
  expires_at timestamptz,
  constraint webhook_secret_pkey primary key (webhook_id, secret)
);
comment on table fencepost_private.webhook_secret is 'The secrets that messages are signed with. They are needed as they are, so they are stored so: no view shows them.';
comment on column fencepost_private.webhook_secret.webhook_id is 'The webhook.';
comment on column fencepost_private.webhook_secret.secret is 'whsec_ and base64.';
comment on column fencepost_private.webhook_secret.created_at is 'When it was made.';
comment on column fencepost_private.webhook_secret.expires_at is 'Until when it signs; null for the present one.';
--! EndIncluded tables/webhook.sql
--! Included tables/depth.sql
-- How many jobs stand where, by type, without ever counting them. Each transaction that moves jobs appends what it
-- changed (depth_delta); maintain() folds deltas into a base that knows which snapshot it saw (depth_base). The sum
-- of the newest base and the deltas it had not seen is exact in any snapshot.
create table fencepost_private.depth_delta (
  type_id     int not null,
  xid         bigint not null,
  ready       int not null default 0,
  delayed     int not null default 0,
  parked      int not null default 0,
  running     int not null default 0,
  waiting     int not null default 0,
  dead_letter int not null default 0,
  enqueued    int not null default 0
);
create index depth_delta_idx on fencepost_private.depth_delta (type_id, xid);
alter table fencepost_private.depth_delta set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 1000000000);
-- No index is unique, and none is made for it: with a publication of all tables, deletes name the whole row. Costs nothing without.
alter table fencepost_private.depth_delta replica identity full;
comment on table fencepost_private.depth_delta is 'What each transaction changed in the number of jobs by place. Append-only; pruned once folded.';
comment on column fencepost_private.depth_delta.type_id is 'The type.';
comment on column fencepost_private.depth_delta.xid is 'Top transaction that made the change.';
comment on column fencepost_private.depth_delta.ready is 'Change of jobs that can be claimed.';
comment on column fencepost_private.depth_delta.delayed is 'Change of jobs that wait for their time.';
comment on column fencepost_private.depth_delta.parked is 'Change of jobs that wait for a slot.';
comment on column fencepost_private.depth_delta.running is 'Change of running jobs.';
comment on column fencepost_private.depth_delta.waiting is 'Change of suspended jobs.';
comment on column fencepost_private.depth_delta.dead_letter is 'Change of dead letters.';
comment on column fencepost_private.depth_delta.enqueued is 'Jobs enqueued; only grows.';

create table fencepost_private.depth_base (
  type_id     int not null,
  seq         bigint generated always as identity,
  x           bigint not null,
  xip         bigint[] not null,
  ready       bigint not null,
  delayed     bigint not null,
  parked      bigint not null,
  running     bigint not null,
  waiting     bigint not null,
  dead_letter bigint not null,
  enqueued    bigint not null
);
create index depth_base_idx on fencepost_private.depth_base (type_id, seq desc);
alter table fencepost_private.depth_base replica identity full;
comment on table fencepost_private.depth_base is 'Folded depth of each type and the snapshot it holds for: a register, newest first.';
comment on column fencepost_private.depth_base.type_id is 'The type.';
comment on column fencepost_private.depth_base.seq is 'Newest is highest.';
comment on column fencepost_private.depth_base.x is 'Deltas of transactions at or above this are not counted in.';
comment on column fencepost_private.depth_base.xip is 'Transactions below x whose deltas are not counted in either: they were in flight.';
comment on column fencepost_private.depth_base.ready is 'Jobs that can be claimed.';
comment on column fencepost_private.depth_base.delayed is 'Jobs that wait for their time.';
comment on column fencepost_private.depth_base.parked is 'Jobs that wait for a slot.';
comment on column fencepost_private.depth_base.running is 'Running jobs.';
comment on column fencepost_private.depth_base.waiting is 'Suspended jobs.';
comment on column fencepost_private.depth_base.dead_letter is 'Dead letters.';
comment on column fencepost_private.depth_base.enqueued is 'Jobs ever enqueued.';
--! EndIncluded tables/depth.sql
--! Included tables/housekeeping.sql
-- What maintain() does, one row a step, in order; and what it knows of partitions that are on their way out.
create table fencepost_private.maintain_step (
  step     text primary key,
  ordinal  int not null constraint maintain_step_ordinal_unique unique,
  call     text not null,
  every    interval not null default '0',
  alone    boolean not null default false,
  next_at  timestamptz not null default '-infinity',
  last_at  timestamptz,
  position bigint not null default 0,
  failures int not null default 0,
  error    text
) with (fillfactor = 50);
comment on table fencepost_private.maintain_step is 'The steps of maintain(), in order. A step that runs at every pass writes nothing here while all is well.';
comment on column fencepost_private.maintain_step.step is 'Name of the step, as maintain() reports it.';
comment on column fencepost_private.maintain_step.ordinal is 'Place in the order.';
comment on column fencepost_private.maintain_step.call is 'The call: a private function that does a bounded amount of work and returns how much it did.';
comment on column fencepost_private.maintain_step.every is 'How often it looks for work; 0 is every pass. While it finds some it runs at every pass.';
comment on column fencepost_private.maintain_step.alone is 'True when it may change tables: a pass in which it did something does nothing else.';
comment on column fencepost_private.maintain_step.next_at is 'When it is due again.';
comment on column fencepost_private.maintain_step.last_at is 'When it last ran, for steps that do not run at every pass.';
comment on column fencepost_private.maintain_step.position is 'Where it will go on, for steps that walk.';
comment on column fencepost_private.maintain_step.failures is 'How often in a row it failed; 0 when all is well.';
comment on column fencepost_private.maintain_step.error is 'Its last error, while failures is above 0.';

insert into fencepost_private.maintain_step (ordinal, step, call, every, alone) values
  ( 1, 'create_partitions', 'create_partitions()', '1 minute',   true),
  ( 2, 'drop_partition',    'drop_partition()',    '1 minute',   true),
  ( 3, 'mark_lost',         'mark_lost()',         '0',          false),
  ( 4, 'reclaim',           'reclaim(1000)',       '0',          false),
  ( 5, 'resume_due',        'resume_due(1000)',    '0',          false),
  ( 6, 'promote',           'promote(30000, ''5 minutes'')', '0', false),
  ( 7, 'promote_rest',      'promote(30000)',      '1 minute',   false),
  ( 8, 'refresh_idle_hints', 'refresh_idle_hints()', '0',        false),
  ( 9, 'fold_depth',        'fold_depth()',        '0',          false),
  (10, 'fold_outcomes',     'fold_outcomes()',     '0',          false),
  (11, 'prune_hints',       'prune_hints()',       '1 minute',   false),
  (12, 'drain_partitions',  'drain_partitions()',  '1 minute',   false),
  (13, 'clear_partition',   'clear_partition()',   '1 minute',   false),
  (14, 'retire_jobs',       'retire_jobs()',       '0',          false),
  (15, 'prune_minutes',     'prune_minutes()',     '1 hour',     false),
  (16, 'prune_workers',     'prune_workers()',     '1 hour',     false),
  (17, 'prune_failures',    'prune_failures()',    '1 hour',     false),
  (18, 'settle_due_runs',   'settle_due_runs(500, ''5 minutes'')', '0', false),
  (19, 'tick',              'tick()',              '0',          false),
  (20, 'prune_consumers',   'prune_consumers()',   '1 minute',   false),
  (21, 'settle_due_rest',   'settle_due_runs(500)', '1 minute',  false),
  (22, 'retire_runs',       'retire_runs()',       '0',          false),
  (23, 'serve_webhooks',    'serve_webhooks()',    '0',          false),
  -- last, so that readers wait for nothing but these
  (24, 'expire_consumers',  'expire_consumers()',  '1 minute',   false),
  (25, 'prune_ticks',       'prune_ticks()',       '1 minute',   false);

create table fencepost_private.maintain_failure (
  step     text not null,
  item     bigint not null,
  error    text not null,
  failures int not null,
  first_at timestamptz not null,
  next_at  timestamptz not null,
  constraint maintain_failure_pkey primary key (step, item)
) with (fillfactor = 50);
comment on table fencepost_private.maintain_failure is 'Single jobs and runs that steps of maintain() could not move, since they raise an error; see isolated().';
comment on column fencepost_private.maintain_failure.step is 'The step.';
comment on column fencepost_private.maintain_failure.item is 'The job; for steps of runs, the outermost run.';
comment on column fencepost_private.maintain_failure.error is 'Its last error.';
comment on column fencepost_private.maintain_failure.failures is 'How often in a row it failed.';
comment on column fencepost_private.maintain_failure.first_at is 'Since when.';
comment on column fencepost_private.maintain_failure.next_at is 'When it is tried again: after a second, then two, four … ten minutes; for want of a lock ten seconds.';

create table fencepost_private.partition_fate (
  partition  text primary key,
  drained_at timestamptz not null
);
comment on table fencepost_private.partition_fate is 'Partitions of job in which every job has ended, and since when at the latest.';
comment on column fencepost_private.partition_fate.partition is 'Name of the partition.';
comment on column fencepost_private.partition_fate.drained_at is 'When it was seen that none of its jobs is alive: all ended before.';
--! EndIncluded tables/housekeeping.sql
--! Included tables/outcome.sql
-- What became of jobs and attempts, counted from the log by maintain(): totals for metrics, minutes for rates.

create table fencepost_private.outcome_base (
  seq bigint generated always as identity primary key,
  x   bigint not null,
  xip bigint[] not null
);
comment on table fencepost_private.outcome_base is 'How far the log is counted: a register, newest first, with the meaning of x and xip in depth_base.';
comment on column fencepost_private.outcome_base.seq is 'Newest is highest.';
comment on column fencepost_private.outcome_base.x is 'Events of transactions at or above this are not counted yet.';
comment on column fencepost_private.outcome_base.xip is 'Transactions below x whose events are not counted yet either: they were in flight.';

create table fencepost_private.outcome_total (
  type_id      int not null,
  kind         fencepost_private.event_kind not null,
  outcome      fencepost_private.attempt_outcome,
  seq          bigint generated always as identity,
  events       bigint not null,
  wait_seconds double precision not null,
  wait_counts  bigint[] not null,
  run_seconds  double precision not null,
  run_counts   bigint[] not null
);
create index outcome_total_idx on fencepost_private.outcome_total (type_id, kind, outcome, seq desc);
alter table fencepost_private.outcome_total replica identity full;  -- see depth_delta
comment on table fencepost_private.outcome_total is 'Events of each type, kind and outcome since the beginning, with how long they waited and ran: a register, newest first.';
comment on column fencepost_private.outcome_total.type_id is 'The type.';
comment on column fencepost_private.outcome_total.kind is 'The kind of event.';
comment on column fencepost_private.outcome_total.outcome is 'How the attempt ended; null when the event ends none.';
comment on column fencepost_private.outcome_total.seq is 'Newest is highest.';
comment on column fencepost_private.outcome_total.events is 'How many.';
comment on column fencepost_private.outcome_total.wait_seconds is 'Sum of the times that the attempts had waited.';
comment on column fencepost_private.outcome_total.wait_counts is 'Attempts by wait: one count for each bucket of duration_bounds(), and one for what is above.';
comment on column fencepost_private.outcome_total.run_seconds is 'Sum of the times that the attempts ran.';
comment on column fencepost_private.outcome_total.run_counts is 'Attempts by run time, in the same buckets.';

create table fencepost_private.type_minute (
  type_id       int not null,
  minute        timestamptz not null,
  enqueued      bigint not null default 0,
  completed     bigint not null default 0,
  failed        bigint not null default 0,
  dead_lettered bigint not null default 0,
  constraint type_minute_pkey primary key (type_id, minute)
) with (fillfactor = 50);
comment on table fencepost_private.type_minute is 'What happened in each of the last minutes, by type: for rates and charts.';
comment on column fencepost_private.type_minute.type_id is 'The type.';
comment on column fencepost_private.type_minute.minute is 'Beginning of the minute.';
comment on column fencepost_private.type_minute.enqueued is 'Jobs enqueued, by the minute in which they were counted.';
comment on column fencepost_private.type_minute.completed is 'Jobs completed.';
comment on column fencepost_private.type_minute.failed is 'Attempts that failed, timed out or lost their worker.';
comment on column fencepost_private.type_minute.dead_lettered is 'Jobs dead-lettered.';
--! EndIncluded tables/outcome.sql
--! Included tables/type_declaration.sql
-- What code last declared of a type, so that a setting which an operator gives back finds its value again.
create table fencepost_private.type_declaration (
  type_id     int primary key references fencepost_private.job_type,
  settings    jsonb not null,
  declared_at timestamptz not null,
  declared_by text not null
);
comment on table fencepost_private.type_declaration is 'The settings that code last declared for each type.';
comment on column fencepost_private.type_declaration.type_id is 'The type.';
comment on column fencepost_private.type_declaration.settings is 'The settings by name; what is missing has the engine''s default.';
comment on column fencepost_private.type_declaration.declared_at is 'When the declaration last changed.';
comment on column fencepost_private.type_declaration.declared_by is 'Who declared it.';
--! EndIncluded tables/type_declaration.sql
--! Included tables/type_pause.sql
-- Who paused a type, and why: read by explain_job and doctor, which must not search the log.
create table fencepost_private.type_pause (
  type_id   int primary key references fencepost_private.job_type,
  paused_at timestamptz not null,
  paused_by text not null,
  reason    text
);
comment on table fencepost_private.type_pause is 'Who paused each paused type, and why.';
comment on column fencepost_private.type_pause.type_id is 'The type.';
comment on column fencepost_private.type_pause.paused_at is 'When.';
comment on column fencepost_private.type_pause.paused_by is 'Who.';
comment on column fencepost_private.type_pause.reason is 'Why.';
--! EndIncluded tables/type_pause.sql
--! Included tables/workflow.sql
-- Workflow definitions. A version is written once and never again: runs are pinned to it for life.

create table fencepost_private.workflow (
  workflow_id    int generated always as identity primary key,
  name           text not null constraint workflow_name_unique unique
                 constraint workflow_name_well_formed check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$'),
  latest_version int not null default 0,
  keep_finished  interval not null default '7 days' constraint workflow_keep_positive check (keep_finished between '0' and '100 years'),
  created_at     timestamptz not null
);
comment on table fencepost_private.workflow is 'A workflow by name.';
comment on column fencepost_private.workflow.workflow_id is 'Internal number.';
comment on column fencepost_private.workflow.name is 'The name that starts its runs.';
comment on column fencepost_private.workflow.latest_version is 'The version that new runs take.';
comment on column fencepost_private.workflow.keep_finished is 'How long its finished runs are kept.';
comment on column fencepost_private.workflow.created_at is 'When its first version was published.';

create table fencepost_private.workflow_version (
  version_id  int generated always as identity primary key,
  workflow_id int not null references fencepost_private.workflow,
  version     int not null,
  definition  jsonb not null,
  checksum    text not null,
  tasks       int not null,
  compensates boolean not null,
  created_at  timestamptz not null,
  created_by  text not null,
  constraint workflow_version_unique unique (workflow_id, version),
  constraint workflow_version_checksum_unique unique (workflow_id, checksum)
);
comment on table fencepost_private.workflow_version is 'A published definition: immutable.';
comment on column fencepost_private.workflow_version.version_id is 'Internal number, over all workflows.';
comment on column fencepost_private.workflow_version.workflow_id is 'The workflow.';
comment on column fencepost_private.workflow_version.version is '1, 2, 3 … within the workflow.';
comment on column fencepost_private.workflow_version.definition is 'As it was published.';
comment on column fencepost_private.workflow_version.checksum is 'Of the canonical definition: publishing an equal one again finds it.';
comment on column fencepost_private.workflow_version.tasks is 'Number of its tasks.';
comment on column fencepost_private.workflow_version.compensates is 'True when a failed run undoes what it has done.';
comment on column fencepost_private.workflow_version.created_at is 'When it was published.';
comment on column fencepost_private.workflow_version.created_by is 'By whom.';

create table fencepost_private.workflow_task (
  version_id    int not null references fencepost_private.workflow_version,
  task_no       int not null,
  name          text not null,
  kind          fencepost_private.task_kind not null,
  parents       int not null,
  children      int not null,
  type          text,
  when_path     jsonpath,
  over_path     jsonpath,
  input         jsonb,
  refers_to     text[],
  continues     boolean not null default false,
  compensate    text,
  priority      int,
  max_attempts  int,
  timeout       interval,
  expires_after interval,
  on_expiry     text,
  on_reject     text,
  reason        text,
  delay         interval,
  until_path    jsonpath,
  signal        text,
  max_parallel  int,
  child         text,
  child_version int,
  constraint workflow_task_pkey primary key (version_id, task_no),
  constraint workflow_task_name_unique unique (name, version_id)
);
comment on table fencepost_private.workflow_task is 'The tasks of a version, taken apart from its definition once, at publication.';
comment on column fencepost_private.workflow_task.version_id is 'The version.';
comment on column fencepost_private.workflow_task.task_no is 'Its place in a topological order: parents come before children.';
comment on column fencepost_private.workflow_task.name is 'Its name in the definition.';
comment on column fencepost_private.workflow_task.kind is 'What it is.';
comment on column fencepost_private.workflow_task.parents is 'How many tasks it waits for.';
comment on column fencepost_private.workflow_task.children is 'How many tasks wait for it; 0 makes its output part of the run''s.';
comment on column fencepost_private.workflow_task.type is 'Type of its jobs.';
comment on column fencepost_private.workflow_task.when_path is 'Predicate: false skips the task.';
comment on column fencepost_private.workflow_task.over_path is 'The array that a map runs over.';
comment on column fencepost_private.workflow_task.input is 'Template of its payload; null gives the run''s input and the parents'' outputs.';
comment on column fencepost_private.workflow_task.refers_to is 'Tasks whose outputs its expressions name; null means any.';
comment on column fencepost_private.workflow_task.continues is 'True when the run goes on although it failed.';
comment on column fencepost_private.workflow_task.compensate is 'Type of the job that undoes it.';
comment on column fencepost_private.workflow_task.priority is 'Priority of its jobs; null takes the run''s.';
comment on column fencepost_private.workflow_task.max_attempts is 'Attempts of its jobs; null takes the type''s.';
comment on column fencepost_private.workflow_task.timeout is 'Limit of one attempt; null takes the type''s.';
comment on column fencepost_private.workflow_task.expires_after is 'How long an approval or signal is waited for.';
comment on column fencepost_private.workflow_task.on_expiry is 'What an expired approval does: reject, approve or fail.';
comment on column fencepost_private.workflow_task.on_reject is 'What a rejected approval does: fail, skip or continue.';
comment on column fencepost_private.workflow_task.reason is 'Why an approval is asked for; null shows its name.';
comment on column fencepost_private.workflow_task.delay is 'How long a timer waits.';
comment on column fencepost_private.workflow_task.until_path is 'Until when a timer waits, as a path to a time.';
comment on column fencepost_private.workflow_task.signal is 'Name of the signal that it waits for.';
comment on column fencepost_private.workflow_task.max_parallel is 'How many items of a map run at once; null is no limit.';
comment on column fencepost_private.workflow_task.child is 'The workflow that it runs.';
comment on column fencepost_private.workflow_task.child_version is 'Its version; null takes the latest when the task starts.';

create table fencepost_private.workflow_edge (
  version_id int not null references fencepost_private.workflow_version,
  parent_no  int not null,
  child_no   int not null,
  constraint workflow_edge_pkey primary key (version_id, parent_no, child_no),
  constraint workflow_edge_forward check (parent_no < child_no)
);
create index workflow_edge_child_idx on fencepost_private.workflow_edge (version_id, child_no) include (parent_no);
comment on table fencepost_private.workflow_edge is 'Which task waits for which. Edges lead forward in the topological order, so there is no cycle.';
comment on column fencepost_private.workflow_edge.version_id is 'The version.';
comment on column fencepost_private.workflow_edge.parent_no is 'The task that comes first.';
comment on column fencepost_private.workflow_edge.child_no is 'The task that waits.';

create function fencepost_private.refuse_change() returns trigger
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  perform raise_error('JE004', 'a published workflow version is immutable', format('%s of %s', tg_op, tg_table_name),
    'Publish a changed definition as a new version.');
  return null;
end
$$;
comment on function fencepost_private.refuse_change() is 'Trigger: refuses UPDATE, DELETE and TRUNCATE of published definitions, also for the owner.';

create trigger immutable before update or delete or truncate on fencepost_private.workflow_version
  for each statement execute function fencepost_private.refuse_change();
create trigger immutable before update or delete or truncate on fencepost_private.workflow_task
  for each statement execute function fencepost_private.refuse_change();
create trigger immutable before update or delete or truncate on fencepost_private.workflow_edge
  for each statement execute function fencepost_private.refuse_change();
--! EndIncluded tables/workflow.sql
--! Included tables/run.sql
-- Runs and their tasks. No foreign keys lead to workflows: versions cannot be deleted, and every start would lock the
-- same row of its version.

create sequence fencepost_private.run_id_seq;
comment on sequence fencepost_private.run_id_seq is 'Ids of runs, in order of start.';

create table fencepost_private.run (
  run_id          bigint primary key,
  root_run_id     bigint not null,
  depth           int not null default 0,
  workflow_id     int not null,
  version_id      int not null,
  tenant          text not null default '',
  status          fencepost_private.run_status not null default 'running',
  input           jsonb not null,
  tags            text[] not null default '{}',
  priority        int constraint run_priority_in_range check (priority between 0 and 9),
  idempotency_key text,
  parent_task_id  bigint,
  restarted_from  bigint,
  paused_at       timestamptz,
  cancelled_at    timestamptz,
  compensating_at timestamptz,
  migrated_at     timestamptz,
  reason          text,
  created_at      timestamptz not null,
  finished_at     timestamptz,
  pending         int not null default 0,
  queued          int not null default 0,
  waiting         int not null default 0,
  ended_well      int not null default 0,
  failed          int not null default 0,
  cancelled       int not null default 0,
  undoing         int not null default 0,
  undo_failed     int not null default 0
) with (fillfactor = 70);
-- run_id + 0: so that nobody looks up a run through these, by reading all of them, while the table seems to be small
create index run_workflow_idx on fencepost_private.run (workflow_id, (run_id + 0) desc);
create index run_status_idx on fencepost_private.run (status, (run_id + 0) desc);
create index run_root_idx on fencepost_private.run (root_run_id) where root_run_id <> run_id;
create unique index run_idempotency_idx on fencepost_private.run (tenant, workflow_id, idempotency_key) where idempotency_key is not null;
alter table fencepost_private.run set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

comment on table fencepost_private.run is 'One execution of a workflow version. The numbers of tasks by state are kept so that no step of a run counts its tasks.';
comment on column fencepost_private.run.run_id is 'The run.';
comment on column fencepost_private.run.root_run_id is 'The outermost run of a family of child runs: its row is the lock of them all.';
comment on column fencepost_private.run.depth is 'How many runs it is inside of; 0 for an outermost one.';
comment on column fencepost_private.run.workflow_id is 'The workflow.';
comment on column fencepost_private.run.version_id is 'The version it is pinned to.';
comment on column fencepost_private.run.tenant is 'Whose it is; empty without tenants.';
comment on column fencepost_private.run.status is 'Derived from the numbers below, by settle_runs alone.';
comment on column fencepost_private.run.input is 'What it was started with.';
comment on column fencepost_private.run.tags is 'Words for finding it.';
comment on column fencepost_private.run.priority is 'Priority of its jobs; null is 5.';
comment on column fencepost_private.run.idempotency_key is 'The key under which it was started once.';
comment on column fencepost_private.run.parent_task_id is 'The task of another run that it carries out.';
comment on column fencepost_private.run.restarted_from is 'The run whose outputs it took over.';
comment on column fencepost_private.run.paused_at is 'Since when an operator holds it.';
comment on column fencepost_private.run.cancelled_at is 'When it was cancelled.';
comment on column fencepost_private.run.compensating_at is 'Since when it undoes what it had done.';
comment on column fencepost_private.run.migrated_at is 'When it was last moved to another version.';
comment on column fencepost_private.run.reason is 'Why it was paused or cancelled.';
comment on column fencepost_private.run.created_at is 'When it was started.';
comment on column fencepost_private.run.finished_at is 'When it reached its end; null while anything of it can still move.';
comment on column fencepost_private.run.pending is 'Tasks that wait for others.';
comment on column fencepost_private.run.queued is 'Tasks that have a job.';
comment on column fencepost_private.run.waiting is 'Tasks that wait for a decision, a time, a signal, items or a child run.';
comment on column fencepost_private.run.ended_well is 'Tasks completed, skipped, or failed with on_failure continue.';
comment on column fencepost_private.run.failed is 'Tasks that failed.';
comment on column fencepost_private.run.cancelled is 'Tasks that were cancelled.';
comment on column fencepost_private.run.undoing is 'Compensations that have not ended well.';
comment on column fencepost_private.run.undo_failed is 'Compensations that failed.';

create table fencepost_private.task (
  task_id         bigint generated always as identity primary key,
  run_id          bigint not null,
  task_no         int not null,
  kind            fencepost_private.task_kind not null,
  status          fencepost_private.task_status not null,
  unmet           int not null default 0,
  skipped_parents int not null default 0,
  parent_task_id  bigint,
  item            int,
  job_id          bigint,
  child_run_id    bigint,
  gate_id         bigint,
  released        boolean not null default false,
  input           jsonb,
  output          jsonb,
  error           text,
  due_at          timestamptz,
  ready_at        timestamptz,
  finished_at     timestamptz,
  items           int,
  items_started   int,
  items_open      int,
  items_failed    int
) with (fillfactor = 70);
create unique index task_run_idx on fencepost_private.task (run_id, task_no, item) nulls not distinct;
create unique index task_parent_idx on fencepost_private.task (parent_task_id, item) where parent_task_id is not null;
create index task_due_idx on fencepost_private.task (due_at) where due_at is not null;
alter table fencepost_private.task set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

comment on table fencepost_private.task is 'The tasks of runs: one row each from the start of the run, more for the items of maps and for compensations.';
comment on column fencepost_private.task.task_id is 'The task, over all runs.';
comment on column fencepost_private.task.run_id is 'Its run.';
comment on column fencepost_private.task.task_no is 'Which task of the version it is.';
comment on column fencepost_private.task.kind is 'What it is.';
comment on column fencepost_private.task.status is 'Where it stands.';
comment on column fencepost_private.task.unmet is 'Parents (and gates) that have not ended well.';
comment on column fencepost_private.task.skipped_parents is 'Parents that were skipped.';
comment on column fencepost_private.task.parent_task_id is 'The map of an item, or the task that a compensation undoes.';
comment on column fencepost_private.task.item is 'Index of an item, from 0; 0 for a compensation; null for a task of the definition.';
comment on column fencepost_private.task.job_id is 'Its job.';
comment on column fencepost_private.task.child_run_id is 'The run that carries it out.';
comment on column fencepost_private.task.gate_id is 'The approval that was put before it, while that is open.';
comment on column fencepost_private.task.released is 'True once the tasks that wait for it were told that it has ended well.';
comment on column fencepost_private.task.input is 'The payload of its job: of items, and of tasks that may have to be undone.';
comment on column fencepost_private.task.output is 'What it returned.';
comment on column fencepost_private.task.error is 'Why it failed or was skipped.';
comment on column fencepost_private.task.due_at is 'When a timer fires or a wait expires; null when neither can.';
comment on column fencepost_private.task.ready_at is 'When its parents were done.';
comment on column fencepost_private.task.finished_at is 'When it ended.';
comment on column fencepost_private.task.items is 'Items of a map.';
comment on column fencepost_private.task.items_started is 'Items of a map that have a job, or had one.';
comment on column fencepost_private.task.items_open is 'Items of a map that have not ended.';
comment on column fencepost_private.task.items_failed is 'Items of a map that failed.';

create table fencepost_private.approval (
  approval_id  bigint generated always as identity primary key,
  run_id       bigint not null,
  task_id      bigint not null,
  status       fencepost_private.approval_status not null default 'pending',
  is_gate      boolean not null default false,
  reason       text,
  requested_at timestamptz not null,
  requested_by text not null,
  expires_at   timestamptz,
  decided_at   timestamptz,
  decided_by   text,
  comment      text,
  data         jsonb
);
create index approval_task_idx on fencepost_private.approval (task_id);
create index approval_run_idx on fencepost_private.approval (run_id, approval_id);
create index approval_pending_idx on fencepost_private.approval (approval_id) where status = 'pending';
create index approval_expiry_idx on fencepost_private.approval (expires_at) where status = 'pending' and is_gate;
comment on table fencepost_private.approval is 'Decisions that people are asked for: approval tasks, and gates that were put before other tasks.';
comment on column fencepost_private.approval.approval_id is 'The approval.';
comment on column fencepost_private.approval.run_id is 'Its run.';
comment on column fencepost_private.approval.task_id is 'The task that waits for it.';
comment on column fencepost_private.approval.status is 'pending, then one of approved, rejected, expired, withdrawn: decided once.';
comment on column fencepost_private.approval.is_gate is 'True when it was put before a task by request_approval.';
comment on column fencepost_private.approval.reason is 'Why it is asked for.';
comment on column fencepost_private.approval.requested_at is 'Since when it is asked for.';
comment on column fencepost_private.approval.requested_by is 'By whom.';
comment on column fencepost_private.approval.expires_at is 'When it expires undecided.';
comment on column fencepost_private.approval.decided_at is 'When it was decided.';
comment on column fencepost_private.approval.decided_by is 'By whom.';
comment on column fencepost_private.approval.comment is 'What they said.';
comment on column fencepost_private.approval.data is 'What else they gave; part of the task''s output.';

create table fencepost_private.signal (
  signal_id   bigint generated always as identity primary key,
  run_id      bigint not null,
  name        text not null,
  payload     jsonb,
  received_at timestamptz not null,
  sent_by     text not null,
  task_id     bigint
);
create index signal_run_idx on fencepost_private.signal (run_id, name);
comment on table fencepost_private.signal is 'Signals that runs received. They are stored first, so one that comes before its task waits is not lost.';
comment on column fencepost_private.signal.signal_id is 'The signal.';
comment on column fencepost_private.signal.run_id is 'The run that received it.';
comment on column fencepost_private.signal.name is 'Its name.';
comment on column fencepost_private.signal.payload is 'What it carries.';
comment on column fencepost_private.signal.received_at is 'When it came.';
comment on column fencepost_private.signal.sent_by is 'From whom.';
comment on column fencepost_private.signal.task_id is 'The task that took it; null while none has.';
--! EndIncluded tables/run.sql

-- Jobs: helpers first, then what callers see
--! Included jobs/job_status.sql
-- The status of one job, from the place that holds it: the one look-up by id. Null when there is no such job.
create function fencepost_private.job_status(p_job_id bigint)
returns text
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select case
    when exists (select from lease l where l.id = p_job_id) then 'running'
    when exists (select from ready r where r.id = p_job_id) then 'pending'
    when exists (select from delayed d where d.id = p_job_id) then 'pending'
    when exists (select from dead_letter z where z.id = p_job_id) then 'dead_letter'
    when exists (select from suspended s where s.id = p_job_id) then 'waiting'
    when exists (select from parked p where p.id = p_job_id) then 'pending'
    else (select case e.kind when 'job.completed' then 'completed' when 'job.cancelled' then 'cancelled' else 'discarded' end
          from event e
          where e.job_id = p_job_id and e.kind in ('job.completed', 'job.cancelled', 'job.discarded')
          order by e.id desc limit 1)
  end
$$;
comment on function fencepost_private.job_status(bigint) is 'Status of a job: pending, running, waiting, dead_letter, completed, cancelled or discarded; null when unknown.';
--! EndIncluded jobs/job_status.sql
--! Included jobs/wake.sql
-- Waking idle workers, at no cost while they are busy.
--
-- A worker that is about to sleep holds a *shared* session lock for each of its wake groups (a type belongs to group
-- type_id modulo 16). Whoever makes work available tries that lock exclusively after its insert: if nobody sleeps it
-- gets it, gives it back in the same expression, and nothing else happens; if it fails, somebody sleeps, and a NOTIFY
-- goes out with the commit. Between "found nothing" and "holds the lock" a job could be missed: see sleep_horizon.

-- Notifies the sleepers of these types, if there are any. Call it after the insert, so that the transaction has an id.
-- fencepost.wake = off suppresses it, for transactions that will be prepared (NOTIFY forbids two-phase commit).
create function fencepost_private.wake(p_type_ids int[])
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_type_ids is null or current_setting('fencepost.wake', true) = 'off' then
    return;
  end if;
  perform pg_notify('fencepost', format('{"wake":[%s]}', g.wake_group))
  from (select distinct t.type_id % 16 as wake_group from unnest(p_type_ids) as t(type_id)) as g
  -- one expression: no interrupt can leave the lock behind
  where not (case when pg_try_advisory_lock(lock_sleepers(), g.wake_group)
                  then pg_advisory_unlock(lock_sleepers(), g.wake_group)
                  else false end);
end
$$;
comment on function fencepost_private.wake(int[]) is 'Notifies sleeping workers of these types; costs one try-lock for each wake group when nobody sleeps.';

-- The worker's side, each call in a statement and transaction of its own:
--   1. sleep_lock   2. sleep_horizon   3. claim once more   4. sleep until notified.
-- Whoever wrote before step 1, and so saw no sleeper, is in flight below the horizon of step 2. While sleep_pending
-- says that such transactions remain, the worker looks again each time their number falls.

create function fencepost.wake_groups(types text[]) returns int[]
language sql stable security definer
set search_path = fencepost_private, pg_temp
as $$
  select coalesce(array_agg(distinct t.type_id % 16 order by t.type_id % 16), '{}')
  from job_type t
  where t.type = any (wake_groups.types)
$$;
comment on function fencepost.wake_groups(text[]) is 'The wake groups (0 to 15) of these types, for a worker that is about to sleep. Unknown types have none.';

create function fencepost.sleep_lock(groups int[]) returns void
language sql volatile security definer
set search_path = fencepost_private, pg_temp
as $$
  select pg_advisory_lock_shared(lock_sleepers(), g) from unnest(sleep_lock.groups) as g order by g
$$;
comment on function fencepost.sleep_lock(int[]) is 'Says that this session sleeps: enqueuers of these wake groups notify until sleep_unlock. A session lock: needs a connection of its own.';

create function fencepost.sleep_unlock(groups int[]) returns void
language sql volatile security definer
set search_path = fencepost_private, pg_temp
as $$
  select pg_advisory_unlock_shared(lock_sleepers(), g) from unnest(sleep_unlock.groups) as g
$$;
comment on function fencepost.sleep_unlock(int[]) is 'Says that this session is awake again.';

create function fencepost.sleep_pending(horizon bigint) returns bigint
language sql volatile security definer
set search_path = fencepost_private, pg_temp
as $$
  select greatest(0, sleep_pending.horizon - pg_snapshot_xmax(s.snap)::text::bigint)
       + (select count(*) from pg_snapshot_xip(s.snap) as x where x::text::bigint < sleep_pending.horizon)
  from (select pg_current_snapshot() as snap) as s
$$;
-- The horizon is the *next* transaction id, which a snapshot does not tell: its xmax is only the last completed id
-- plus one. age() counts from the next id as long as this transaction has none itself.
create function fencepost.sleep_horizon(out horizon bigint, out pending bigint)
language sql volatile security definer
set search_path = fencepost_private, pg_temp
as $$
  select h.horizon, fencepost.sleep_pending(h.horizon)
  from (select x::text::bigint + age(x::xid) as horizon from pg_snapshot_xmax(pg_current_snapshot()) as x offset 0) as h
$$;

comment on function fencepost.sleep_horizon() is 'The next transaction id, and how many transactions below it have not ended. Call it outside any transaction that has written.';
comment on function fencepost.sleep_pending(bigint) is 'How many transactions below a horizon have not ended. It only falls; a job may have appeared each time it does.';

-- When the next delayed job of these types is due, so that a sleeper wakes in time. The look is bounded: a job beyond
-- the first thousand is found by the slow poll.
create function fencepost.next_due(types text[]) returns timestamptz
language sql volatile security definer
set search_path = fencepost_private, pg_temp
as $$
  select min(d.available_at)
  from (select d.available_at, d.lane_id from delayed d
        where d.available_at >= fencepost_private.now() - interval '2 seconds'
        order by d.available_at limit 1000) as d
  join lane l on l.lane_id = d.lane_id
  join job_type t on t.type_id = l.type_id
  where t.type = any (next_due.types)
$$;
comment on function fencepost.next_due(text[]) is 'When the next delayed job or retry of these types is due; null if none is near.';
--! EndIncluded jobs/wake.sql
--! Included jobs/ensure_lane.sql
-- The lane of a type and priority, made on first use. Types and lanes are never removed, so once found they stay.
-- Locks: none when the lane exists; else the new rows, until commit.
-- Errors: JE003 when the type's name is malformed or the priority out of range.
create function fencepost_private.ensure_lane(p_type text, p_priority int, out lane_id int, out type_id int)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
begin
  select l.lane_id, l.type_id into lane_id, type_id
  from job_type t join lane l on l.type_id = t.type_id
  where t.type = p_type and l.priority = p_priority and l.flow = 0;
  if found then
    return;
  end if;

  perform check_lane(p_type, p_priority);
  insert into job_type (type) values (p_type) on conflict do nothing;
  select t.type_id into type_id from job_type t where t.type = p_type;
  insert into lane (type_id, priority) values (type_id, p_priority::smallint) on conflict do nothing;
  select l.lane_id into lane_id from lane l where l.type_id = ensure_lane.type_id and l.priority = p_priority and l.flow = 0;
end
$$;
comment on function fencepost_private.ensure_lane(text, int) is 'The lane and type numbers of a type and priority, created on first use. Raises JE003.';

-- Errors: JE003 for a malformed type or a priority out of range.
create function fencepost_private.check_lane(p_type text, p_priority int, p_where text default '')
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_type is null or p_type !~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$' then
    perform raise_error('JE003', p_where || 'the type of a job must be a name such as email.send',
      format('received type = %s', coalesce(quote_literal(left(p_type, 250)), 'null')),
      'Use 1 to 200 letters, digits and any of _ . : / - and start with a letter, digit or underscore.');
  end if;
  if p_priority is null or p_priority not between 0 and 9 then
    perform raise_error('JE003', p_where || 'the priority must be a whole number from 0 to 9',
      format('received priority = %s', coalesce(p_priority::text, 'null')), 'Higher is claimed first; the default is 5.');
  end if;
end
$$;
comment on function fencepost_private.check_lane(text, int, text) is 'Raises JE003 for a malformed type name or a priority out of range.';
--! EndIncluded jobs/ensure_lane.sql
--! Included jobs/enqueue_rows.sql
-- The one way into the engine: every public enqueue, and later runs, schedules and batches, end here.
--
-- Stores these jobs, in order, and wakes who sleeps for them; all or nothing.
-- A job whose idempotency key is taken is not stored: its row says which job has the key, and created = false. That
-- holds also while the type is closed or full: sending a job again is no new job.
-- With p_trusted the types' refusals were looked at before: runs go on also while a type is closed or full.
-- Locks: rows of idempotency_key that it inserts, in key order; waits for a concurrent enqueue of the same key.
-- Errors: JE005 (key taken by another payload), JE006 (payload), JE007 (type closed or full).
create function fencepost_private.enqueue_rows(p_jobs fencepost_private.new_job[], p_now timestamptz, p_trusted boolean default false)
returns table (ordinal int, job_id bigint, created boolean)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_jobs     new_job[] := p_jobs;
  v_xid      bigint;
  v_suspect  boolean;
  v_publish  boolean;
  v_keyed    boolean;
  v_known    jsonb := '{}'::jsonb;
  v_types    int[];
  v_last     bigint;
begin
  -- one look over all of them: is there anything to check closely?
  select bool_or(not p_trusted and (not t.accept or t.max_pending is not null
              or octet_length(j.payload::text) > t.max_payload_bytes
              or t.payload_check is not null and jsonb_path_match(j.payload, t.payload_check, silent => true) is not true)),
         bool_or(t.publish_enqueued), bool_or(j.idempotency_key is not null), max(j.id)
    into v_suspect, v_publish, v_keyed, v_last
  from unnest(p_jobs) as j join job_type t on t.type_id = j.type_id;
  if v_keyed then
    v_known := claim_keys(p_jobs);
    if v_known <> '{}' then
      v_jobs := array(select j from unnest(p_jobs) as j where not v_known ? j.ordinal::text order by j.ordinal);
    end if;
  end if;
  if v_suspect then
    perform check_new_jobs(v_jobs, cardinality(p_jobs) > 1);
  end if;

  if cardinality(v_jobs) > 0 then
    if v_last / 10000 <> (v_last - cardinality(v_jobs)) / 10000 then
      perform ensure_partitions();
    end if;
    v_xid := xid();
    with given as materialized (
      select j.*, j.available_at > p_now as is_later from unnest(v_jobs) as j
    ), body as (
      insert into job (id, lane_id, tenant, payload, headers, idempotency_key, max_attempts, timeout, created_at, run_at, run_id, task_id, batch_id)
      select g.id, g.lane_id, g.tenant, g.payload, g.headers, g.idempotency_key, g.max_attempts, g.timeout, p_now, g.available_at, g.run_id, g.task_id, g.batch_id
      from given g
    ), made_ready as (
      insert into ready (id, xid, lane_id, attempts, token, ready_at)
      select g.id, v_xid, g.lane_id, 0, 0, p_now from given g where g.is_later is not true
    ), made_delayed as (
      insert into delayed (id, available_at, lane_id, attempts, token)
      select g.id, g.available_at, g.lane_id, 0, 0 from given g where g.is_later
    ), counted as (
      insert into depth_delta (type_id, xid, ready, delayed, enqueued)
      select g.type_id, v_xid, count(*) filter (where g.is_later is not true), count(*) filter (where g.is_later), count(*)
      from given g group by g.type_id
      returning type_id
    )
    select array_agg(c.type_id) into v_types from counted c;
    if v_publish then
      insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, data)
      select v_xid, p_now, j.tenant, 'job.enqueued', j.lane_id, j.id, j.run_id, j.task_id, null
      from unnest(v_jobs) as j join job_type t on t.type_id = j.type_id
      where t.publish_enqueued;
    end if;
    perform wake(v_types);
  end if;

  if v_known = '{}' then
    return query select j.ordinal, j.id, true from unnest(v_jobs) as j;
  else
    return query
    select j.ordinal, coalesce((v_known ->> j.ordinal::text)::bigint, j.id), not v_known ? j.ordinal::text
    from unnest(p_jobs) as j order by j.ordinal;
  end if;
end
$$;
comment on function fencepost_private.enqueue_rows(fencepost_private.new_job[], timestamptz, boolean)
  is 'Stores jobs set-wise: checks, idempotency keys, bodies, places, depth, events, wake-up. Raises JE005, JE006, JE007.';

-- Names the first job that its type refuses, and why; of several (p_listed) also its place. Called only when one may be
-- refused.
-- Errors: JE006, JE007.
create function fencepost_private.check_new_jobs(p_jobs fencepost_private.new_job[], p_listed boolean)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v       record;
  v_where text;
begin
  select j.ordinal, t.type, t.accept, t.max_pending, t.max_payload_bytes, t.payload_check, j.payload, octet_length(j.payload::text) as bytes,
         case
           when not t.accept then 'closed'
           when octet_length(j.payload::text) > t.max_payload_bytes then 'large'
           when t.payload_check is not null and jsonb_path_match(j.payload, t.payload_check, silent => true) is not true then 'check'
           when t.max_pending < n.waiting + count(*) over (partition by j.type_id order by j.ordinal) then 'full'
         end as problem
    into v
  from unnest(p_jobs) as j
  join job_type t on t.type_id = j.type_id
  left join lateral (select pending(t.type_id) as waiting where t.max_pending is not null) as n on true
  where not t.accept
     or octet_length(j.payload::text) > t.max_payload_bytes
     or t.payload_check is not null and jsonb_path_match(j.payload, t.payload_check, silent => true) is not true
     or t.max_pending < n.waiting + (select count(*) from unnest(p_jobs) as o where o.type_id = j.type_id and o.ordinal <= j.ordinal)
  order by j.ordinal
  limit 1;
  if not found then
    return;
  end if;
  v_where := case when p_listed then format('job %s of the list: ', v.ordinal) else '' end;

  if v.problem = 'closed' then
    perform raise_error('JE007', format('type %s does not accept jobs now', v.type), v_where || format('received a job of type %s', v.type),
      format('An operator opens it again with fencepost.configure_type(%L, accept => true).', v.type));
  elsif v.problem = 'large' then
    perform raise_error('JE006', format('the payload for %s is too large', v.type),
      v_where || format('received %s bytes; the limit is %s', v.bytes, v.max_payload_bytes),
      'Store large data elsewhere and enqueue a reference to it, or raise max_payload_bytes of the type.');
  elsif v.problem = 'check' then
    perform raise_error('JE006', format('the payload for %s fails the check of its type', v.type),
      v_where || format('received %s', clipped(shown(v.payload)::text, 400)),
      format('It must satisfy the SQL/JSON path predicate %s', v.payload_check));
  else
    perform raise_error('JE007', format('the queue of %s is full', v.type), v_where || format('it would exceed max_pending = %s', v.max_pending),
      'Try again later, add workers, or raise max_pending of the type.');
  end if;
end
$$;
comment on function fencepost_private.check_new_jobs(fencepost_private.new_job[], boolean) is 'Raises JE006 or JE007 for the first of these jobs that its type refuses.';

-- Takes the idempotency keys of these jobs. Returns {ordinal: job id} for those whose key was already taken.
-- Errors: JE005 when a taken key stands for another payload.
create function fencepost_private.claim_keys(p_jobs fencepost_private.new_job[])
returns jsonb
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_known   jsonb;
  v_missing boolean;
  v_clash   record;
begin
  for v_try in 1..5 loop
    insert into idempotency_key (tenant, type_id, key, job_id)
    select j.tenant, j.type_id, j.idempotency_key, j.id
    from unnest(p_jobs) as j
    where j.idempotency_key is not null
    order by j.tenant, j.type_id, j.idempotency_key, j.ordinal
    on conflict on constraint idempotency_key_pkey do nothing;

    -- a new statement sees what others committed while we waited for them
    select coalesce(jsonb_object_agg(j.ordinal, k.job_id) filter (where k.job_id <> j.id), '{}'), coalesce(bool_or(k.job_id is null), false)
      into v_known, v_missing
    from unnest(p_jobs) as j
    left join idempotency_key k on k.tenant = j.tenant and k.type_id = j.type_id and k.key = j.idempotency_key
    where j.idempotency_key is not null;
    exit when not v_missing;   -- else a key was retired between the two statements: take it now
  end loop;

  if v_known = '{}' then
    return v_known;
  end if;
  -- the job that has the key is stored already, or is the first of this list that named it
  select s.ordinal, s.key, s.job_id into v_clash
  from (
    select j.ordinal, j.id, j.payload, k.key, k.job_id,
           first_value(j.payload) over (partition by k.tenant, k.type_id, k.key order by j.ordinal) as first_payload
    from unnest(p_jobs) as j
    join idempotency_key k on k.tenant = j.tenant and k.type_id = j.type_id and k.key = j.idempotency_key
  ) as s
  left join job b on b.id = s.job_id
  where s.job_id <> s.id and coalesce(b.payload, s.first_payload) is distinct from s.payload
  order by s.ordinal
  limit 1;
  if found then
    perform raise_error('JE005', format('idempotency key %s was already used with another payload', quote_literal(v_clash.key)),
      case when cardinality(p_jobs) > 1 then format('job %s of the list: ', v_clash.ordinal) else '' end || format('the key belongs to job %s', v_clash.job_id),
      'Send the same payload to get the same job, or use another key.');
  end if;
  return v_known;
end
$$;
comment on function fencepost_private.claim_keys(fencepost_private.new_job[]) is 'Takes idempotency keys; returns {ordinal: job id} for those already taken. Raises JE005.';
--! EndIncluded jobs/enqueue_rows.sql
--! Included jobs/enqueue.sql
-- Enqueues one job, in the caller's transaction: it exists when that commits, and never if it rolls back.
--
--   type             what kind of work, such as 'email.send'; a new name makes a new type
--   payload          JSON for the handler, default {}; at most 1 MiB unless the type says otherwise
--   priority         0 to 9, higher first, default 5; equal priorities run in order of enqueue
--   run_at, delay    not before this time, or not before this long from now; give at most one
--   idempotency_key  the same key for the same type and tenant gives the same job, while that job is kept
--   max_attempts     its own limit; default the type's
--   timeout          its own limit for one attempt; default the type's
--   headers          JSON object of metadata, such as traceparent
--   tenant           whose job it is; default the session's
--
-- Returns the id of the job: the new one, or the one that has the key.
-- Locks: the first job of a type, or of a priority in it, makes their rows, and whoever needs the same ones waits for
-- that transaction; declare_type() makes the type and
-- its default priority beforehand, in a transaction of its own. Else a concurrent enqueue of the same key is waited for.
-- Errors: JE003, JE005 (key used with another payload), JE006 (payload too large or failing the type's check), JE007.
create function fencepost.enqueue(
  type text,
  payload jsonb default '{}',
  priority int default 5,
  run_at timestamptz default null,
  delay interval default null,
  idempotency_key text default null,
  max_attempts int default null,
  timeout interval default null,
  headers jsonb default null,
  tenant text default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now  timestamptz := fencepost_private.now();
  v_lane record;
  v_job  new_job;
  v_id   bigint;
begin
  select e.lane_id, e.type_id into v_lane from ensure_lane(enqueue.type, enqueue.priority) as e;
  perform check_job_options(enqueue.run_at, enqueue.delay, enqueue.idempotency_key, enqueue.max_attempts, enqueue.timeout, enqueue.headers,
                            enqueue.tenant);

  v_job.id := nextval('job_id_seq');
  v_job.ordinal := 1;
  v_job.type_id := v_lane.type_id;
  v_job.lane_id := v_lane.lane_id;
  v_job.tenant := coalesce(enqueue.tenant, current_tenant());
  v_job.payload := coalesce(enqueue.payload, '{}');
  v_job.headers := enqueue.headers;
  v_job.idempotency_key := enqueue.idempotency_key;
  v_job.max_attempts := enqueue.max_attempts;
  v_job.timeout := enqueue.timeout;
  v_job.available_at := coalesce(enqueue.run_at, v_now + enqueue.delay);

  select e.job_id into v_id from enqueue_rows(array[v_job], v_now) as e;
  return v_id;
end
$$;
comment on function fencepost.enqueue(text, jsonb, int, timestamptz, interval, text, int, interval, jsonb, text)
  is 'Enqueues one job in the caller''s transaction and returns its id; with a used idempotency key, the id of the job that has it. Raises JE003, JE005, JE006, JE007.';

-- What every enqueue checks of a job's options. Errors: JE003, naming the option.
create function fencepost_private.check_job_options(
  p_run_at timestamptz, p_delay interval, p_idempotency_key text, p_max_attempts int, p_timeout interval, p_headers jsonb,
  p_tenant text default null, p_where text default '')
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_problem text[];
begin
  if p_run_at is null and p_delay is null and p_idempotency_key is null and p_max_attempts is null and p_timeout is null and p_headers is null
     and p_tenant is null then
    return;
  end if;
  v_problem := case
    when p_run_at is not null and p_delay is not null then
      array['give run_at or delay, not both', format('run_at = %s, delay = %s', p_run_at, p_delay), 'Use run_at for a moment, delay for a time from now.']
    when p_delay < interval '0' then
      array['the delay must not be negative', format('delay = %s', p_delay), 'Leave it out to run at once.']
    when p_delay > interval '100 years' then
      array['the delay must be at most 100 years', format('delay = %s', p_delay), 'To hold work back without an end, pause the type.']
    when not isfinite(p_run_at) then
      array['run_at must be a moment in time', format('run_at = %s', p_run_at), 'To hold work back without an end, pause the type.']
    when length(p_idempotency_key) not between 1 and 500 then
      array['the idempotency key must have 1 to 500 characters', format('%s characters', length(p_idempotency_key)), 'Hash a longer key.']
    when p_max_attempts not between 1 and 1000000 then
      array['max_attempts must be from 1 to 1000000', format('max_attempts = %s', p_max_attempts), 'Use 1 for a job that must not be tried again.']
    when p_timeout <= interval '0' or p_timeout > interval '100 years' then
      array['the timeout must be longer than nothing, and at most 100 years', format('timeout = %s', p_timeout), 'Leave it out for no limit.']
    when jsonb_typeof(p_headers) <> 'object' then
      array['headers must be a JSON object', format('headers = %s', left(p_headers::text, 200)), 'For example {"traceparent": "…"}.']
    when octet_length(p_headers::text) > 65536 then
      array['headers must not exceed 64 KiB', format('%s bytes', octet_length(p_headers::text)), 'They are for metadata: data belongs into the payload.']
    when length(p_tenant) > 100 then
      array['the tenant must have at most 100 characters', format('%s characters', length(p_tenant)), 'Use a short name or number of the tenant.']
  end;
  if v_problem is not null then
    perform raise_error('JE003', p_where || v_problem[1], 'received ' || v_problem[2], v_problem[3]);
  end if;
end
$$;
comment on function fencepost_private.check_job_options(timestamptz, interval, text, int, interval, jsonb, text, text)
  is 'Raises JE003 for the first option of a new job that makes no sense.';
--! EndIncluded jobs/enqueue.sql
--! Included jobs/enqueue_many.sql
-- Enqueues a list of jobs of any types, each with its own options: an array of objects with the parameters of
-- fencepost.enqueue as keys. All or nothing. Returns a row for each, in input order: its id, and whether it is new.
-- Errors: JE003 (also for unknown keys), JE005, JE006, JE007, as enqueue; message or detail names the place in the list,
-- counted from 1.
create function fencepost.enqueue_many(jobs jsonb)
returns table (job_id bigint, created boolean)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_now  timestamptz := fencepost_private.now();
  v_keys constant jsonb := '{
    "type": {"is": "string", "must_be": "a text"}, "payload": {}, "priority": {"is": "number", "must_be": "a whole number from 0 to 9"},
    "run_at": {"is": "string", "must_be": "a time such as \"2030-01-31T12:00:00Z\""}, "delay": {"is": "string", "must_be": "an interval such as \"10 minutes\""},
    "idempotency_key": {"is": "string", "must_be": "a text"}, "max_attempts": {"is": "number", "must_be": "a whole number from 1 to 1000000"},
    "timeout": {"is": "string", "must_be": "an interval such as \"10 minutes\""}, "headers": {}, "tenant": {"is": "string", "must_be": "a text"}}'::jsonb;
  v_bad  record;
  v_rows new_job[];
begin
  if enqueue_many.jobs is null or jsonb_typeof(enqueue_many.jobs) <> 'array' then
    perform raise_error('JE003', 'jobs must be a JSON array of objects', format('received %s', coalesce(jsonb_typeof(enqueue_many.jobs), 'null')),
      'For example [{"type": "email.send", "payload": {"to": "a@b.c"}}].');
  end if;
  select e.ordinal, jsonb_typeof(e.item) as kind, k.key, k.value into v_bad
  from jsonb_array_elements(enqueue_many.jobs) with ordinality as e(item, ordinal)
  left join lateral (
    select o.key, o.value from jsonb_each(case jsonb_typeof(e.item) when 'object' then e.item else '{}' end) as o(key, value)
    where not v_keys ? o.key or jsonb_typeof(o.value) not in (v_keys -> o.key ->> 'is', 'null') limit 1) as k on true
  where jsonb_typeof(e.item) <> 'object' or k.key is not null
  order by e.ordinal limit 1;
  if v_bad.key is null and v_bad.kind is not null then
    perform raise_error('JE003', format('job %s of the list is not an object', v_bad.ordinal), format('received %s', v_bad.kind), 'For example {"type": "email.send"}.');
  elsif not v_keys ? v_bad.key then
    perform raise_error('JE003', format('job %s of the list has the unknown key %s', v_bad.ordinal, quote_literal(v_bad.key)), format('received %s', quote_literal(v_bad.key)),
      coalesce(did_you_mean(v_bad.key, array(select k from jsonb_object_keys(v_keys) as k)), '') || 'Known keys: ' || (select string_agg(k, ', ') from jsonb_object_keys(v_keys) as k) || '.');
  elsif v_bad.key is not null then
    perform raise_wrong_value(v_bad.ordinal, v_bad.key, v_bad.value, v_keys);
  end if;

  begin
    v_rows := array(
      select row(null, e.ordinal, null, r.priority, coalesce(r.tenant, current_tenant()), coalesce(r.payload, '{}'), r.headers,
                 r.idempotency_key, r.max_attempts, r.timeout, coalesce(r.run_at, v_now + r.delay), null, null, null)::new_job
      from jsonb_array_elements(enqueue_many.jobs) with ordinality as e(item, ordinal)
      cross join lateral jsonb_to_record(e.item) as r(type text, payload jsonb, priority int, run_at timestamptz, delay interval, idempotency_key text, max_attempts int, timeout interval, headers jsonb, tenant text)
      order by e.ordinal);
  exception when data_exception then
    perform raise_wrong_value(b.ordinal, b.key, b.value, v_keys) from first_wrong_value(enqueue_many.jobs) as b where b.ordinal is not null;
    raise;
  end;

  perform check_lane(r.type, coalesce(r.priority, 5), format('job %s of the list: ', e.ordinal)),
          check_job_options(r.run_at, r.delay, r.idempotency_key, r.max_attempts, r.timeout, r.headers, r.tenant, format('job %s of the list: ', e.ordinal))
  from jsonb_array_elements(enqueue_many.jobs) with ordinality as e(item, ordinal)
  cross join lateral jsonb_to_record(e.item) as r(type text, priority int, run_at timestamptz, delay interval, idempotency_key text, max_attempts int, timeout interval, headers jsonb, tenant text);

  -- each lane once, in name order, so that two lists that make the same new types do not deadlock
  v_rows := array(
    with listed as (
      select e.ordinal, e.item ->> 'type' as type, coalesce((e.item ->> 'priority')::int, 5) as priority
      from jsonb_array_elements(enqueue_many.jobs) with ordinality as e(item, ordinal)
    ), needed as materialized (
      select n.type, n.priority, l.lane_id, l.type_id
      from (select distinct i.type, i.priority from listed i order by i.type, i.priority) as n
      cross join lateral ensure_lane(n.type, n.priority) as l
    )
    select row(nextval('job_id_seq'), v.ordinal, n.type_id, n.lane_id, v.tenant, v.payload, v.headers,
               v.idempotency_key, v.max_attempts, v.timeout, v.available_at, null, null, null)::new_job
    from listed i
    join needed n on n.type is not distinct from i.type and n.priority = i.priority
    join unnest(v_rows) as v on v.ordinal = i.ordinal
    order by i.ordinal);

  return query select e.job_id, e.created from enqueue_rows(v_rows, v_now) as e order by e.ordinal;
end
$$;
comment on function fencepost.enqueue_many(jsonb)
  is 'Enqueues a JSON array of jobs (keys as the parameters of enqueue), all or nothing; returns job_id and created in input order. Raises JE003, JE005, JE006, JE007.';

create function fencepost_private.raise_wrong_value(p_ordinal bigint, p_key text, p_value jsonb, p_keys jsonb)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  perform raise_error('JE003', format('job %s of the list: %s must be %s', p_ordinal, p_key, p_keys -> p_key ->> 'must_be'), format('received %s = %s', p_key, left(p_value::text, 200)), 'Leave it out for the default.');
end
$$;
comment on function fencepost_private.raise_wrong_value(bigint, text, jsonb, jsonb) is 'Raises JE003 for a value of a job in a list, naming its place.';

-- The first value in a list of jobs that is of the right JSON type and still no number, time or interval, or beyond the
-- calendar.
create function fencepost_private.first_wrong_value(p_jobs jsonb, out ordinal bigint, out key text, out value jsonb)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
begin
  for ordinal, key, value in
    select e.ordinal, o.key, o.value from jsonb_array_elements(p_jobs) with ordinality as e(item, ordinal) cross join lateral jsonb_each(e.item) as o
    where o.key in ('priority', 'max_attempts', 'run_at', 'delay', 'timeout') order by e.ordinal
  loop
    begin
      perform r.*, fencepost_private.now() + r.delay from jsonb_to_record(jsonb_build_object(key, value)) as r(priority int, max_attempts int, run_at timestamptz, delay interval, timeout interval);
    exception when data_exception then
      return;
    end;
  end loop;
  ordinal := null;
end
$$;
comment on function fencepost_private.first_wrong_value(jsonb) is 'The first value in a list of jobs that PostgreSQL cannot read, with its place.';
--! EndIncluded jobs/enqueue_many.sql
--! Included jobs/enqueue_batch.sql
-- Enqueues many jobs of one type, the fast way: one call, one statement a table.
-- Returns their ids in the order of the payloads. Errors: JE003, JE006, JE007; all or nothing.
create function fencepost.enqueue_batch(type text, payloads jsonb[], priority int default 5, delay interval default null, tenant text default null)
returns bigint[]
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now    timestamptz := fencepost_private.now();
  v_lane   record;
  v_tenant text := coalesce(enqueue_batch.tenant, current_tenant());
  v_ids    bigint[];
begin
  if enqueue_batch.payloads is null or cardinality(enqueue_batch.payloads) = 0 then
    return '{}'::bigint[];
  end if;
  select e.lane_id, e.type_id into v_lane from ensure_lane(enqueue_batch.type, enqueue_batch.priority) as e;
  perform check_job_options(null, enqueue_batch.delay, null, null, null, null, enqueue_batch.tenant);

  select array_agg(e.job_id) into v_ids
  from enqueue_rows(array(
    select row(nextval('job_id_seq'), p.ordinal, v_lane.type_id, v_lane.lane_id, v_tenant, coalesce(p.payload, '{}'), null, null, null, null,
               v_now + enqueue_batch.delay, null, null, null)::new_job
    from unnest(enqueue_batch.payloads) with ordinality as p(payload, ordinal)
  ), v_now) as e;
  return v_ids;
end
$$;
comment on function fencepost.enqueue_batch(text, jsonb[], int, interval, text)
  is 'Enqueues one job for each payload, all or nothing, and returns their ids in that order. Raises JE003, JE006, JE007.';
--! EndIncluded jobs/enqueue_batch.sql
--! Included jobs/promote.sql
-- Moves delayed jobs whose time has come to their lanes, oldest first, at most p_limit, and wakes who sleeps for them.
-- With p_window only what became due within it: claims pass two seconds, so that under a held snapshot they never
-- walk the dead head of the index; maintain() passes five minutes, and null once a minute, for what was committed late.
-- Locks: the rows it moves, SKIP LOCKED.
create function fencepost_private.promote(p_limit int default 1000, p_window interval default null, p_now timestamptz default fencepost_private.now())
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_from  timestamptz := coalesce(p_now - p_window, '-infinity');
  v_types int[];
  v_count bigint;
  v_xid   bigint;
begin
  if not exists (
    select from (select d.available_at from delayed d where d.available_at >= v_from order by d.available_at limit 1) as first
    where first.available_at <= p_now
  ) then
    return 0;
  end if;

  v_xid := xid();
  with due as (
    delete from delayed d
    where d.ctid = any (array(
      select c.ctid from delayed c
      where c.available_at >= v_from and c.available_at <= p_now
      order by c.available_at, c.id limit p_limit
      for update skip locked))
    returning d.*
  ), promoted as (
    insert into ready (id, xid, lane_id, attempts, token, ready_at)
    select d.id, v_xid, d.lane_id, d.attempts, d.token, d.available_at from due d order by d.available_at, d.id
  ), counted as (
    insert into depth_delta (type_id, xid, delayed, ready)
    select l.type_id, v_xid, -sum(d.n), sum(d.n)
    from (select lane_id, count(*) as n from due group by lane_id) as d
    join lane l on l.lane_id = d.lane_id
    group by l.type_id
    returning type_id
  )
  select (select count(*) from due), (select array_agg(c.type_id) from counted c) into v_count, v_types;
  perform wake(v_types);
  return v_count;
end
$$;
comment on function fencepost_private.promote(int, interval, timestamptz) is 'Moves up to p_limit due jobs from delayed to ready; with p_window only those that became due within it.';
--! EndIncluded jobs/promote.sql
--! Included jobs/refresh_hint.sql
-- Computes a fresh watermark for a lane from an older one, in ONE statement, hence from one snapshot.
--
-- The watermark (wx, wi) is the first live row of the lane in the order (xid, id). Below it, nothing is alive or can
-- still appear, with two exceptions that the hint lists:
--   late_x, late_i  transactions below it that were in flight in this snapshot (our own counts: it is not in its own
--                   snapshot's list), or that committed late and have rows left from late_i on;
--   held            rows below it that an open claim had locked: it may yet roll back.
--
-- Why it is safe without a lock: whoever can still publish a row below the watermark is, by definition, in flight in
-- the snapshot that computed it. And before its commit a hint is seen only by the transaction whose own deletes it
-- counted as dead. So a hint, once visible, is true for ever; an older one only costs a longer look.
--
-- Locked rows are passed over only when the watermark has not moved since the last hint, so that the list of held
-- rows stays empty while claims are short; it holds at most about 1,000.
create function fencepost_private.refresh_hint(p_lane_id int, p_hint fencepost_private.lane_hint, p_now timestamptz)
returns void
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  with snapshot as materialized (
    select pg_current_snapshot() as snap,
           pg_snapshot_xmax(pg_current_snapshot())::text::bigint as xmax,
           coalesce(pg_current_xact_id_if_assigned()::text::bigint, 0) as own
  ), still_held as materialized (
    select r.id from unnest(p_hint.held) as h(id) join ready r on r.id = h.id
  ), room as materialized (
    select greatest(0, 1000 - count(*)) as rows from still_held
  ), head as materialized (          -- the first rows at or after the old watermark; xmax = 0: nobody locks or deletes it
    select r.xid, r.id, r.xmax = 0 as is_free
    from ready r
    where r.lane_id = p_lane_id and (r.xid, r.id) >= (p_hint.wx, p_hint.wi)
    order by r.xid, r.id
    limit (select rows + 1 from room)
  ), has_moved as materialized (
    select not exists (select from head h where (h.xid, h.id) = (p_hint.wx, p_hint.wi)) as yes
  ), first_live as materialized (
    select h.xid, h.id
    from head h
    where h.is_free
       or (select yes from has_moved)
       or (select count(*) from head) > (select rows from room)
          and (h.xid, h.id) = (select l.xid, l.id from head l order by l.xid desc, l.id desc limit 1)
    order by h.xid, h.id
    limit 1
  ), mark as materialized (
    select case when f.xid < s.xmax then f.xid else s.xmax end as wx,
           case when f.xid < s.xmax and f.xid <> s.own then f.id else 0 end as wi,
           s.snap, s.own
    from snapshot s left join first_live f on true
  ), late as materialized (
    select u.x, min(u.first_id) as first_id
    from (
      select x::text::bigint as x, 0::bigint as first_id from mark m cross join lateral pg_snapshot_xip(m.snap) as x
      union all
      select m.own, 0 from mark m where m.own > 0
      union all
      select l.x, first.id
      from unnest(p_hint.late_x, p_hint.late_i) as l(x, first_id)
      cross join lateral (select r.id from ready r where r.lane_id = p_lane_id and r.xid = l.x and r.id >= l.first_id order by r.id limit 1) as first
    ) as u
    where u.x < (select wx from mark)
    group by u.x
  )
  insert into lane_hint (lane_id, wx, wi, late_x, late_i, held, at)
  select p_lane_id, m.wx, m.wi,
         coalesce((select array_agg(l.x order by l.x) from late l), '{}'),
         coalesce((select array_agg(l.first_id order by l.x) from late l), '{}'),
         array(select s.id from still_held s union select h.id from head h where (h.xid, h.id) < (m.wx, m.wi)),
         p_now
  from mark m
$$;
comment on function fencepost_private.refresh_hint(int, fencepost_private.lane_hint, timestamptz)
  is 'Appends a fresh watermark of a lane, computed from an older one in a single snapshot. Takes no lock.';

create function fencepost_private.no_hint(p_lane_id int) returns fencepost_private.lane_hint
language sql immutable
return row(p_lane_id, 0, 0, 0, '{}', '{}', '{}', '-infinity', null)::fencepost_private.lane_hint;
comment on function fencepost_private.no_hint(int) is 'The watermark of a lane about which nothing is known: the beginning.';
--! EndIncluded jobs/refresh_hint.sql
--! Included jobs/refresh_idle_hints.sql
-- Brings the watermarks of idle lanes up to date. Claims refresh a lane while they find work in it, so its last burst
-- leaves up to 200 ms of dead rows above the watermark, and transactions that were in flight stay listed; while a
-- snapshot is held, every later claim of an idle lane would look at those rows and transactions again.
--
-- Due are the lanes whose type has moved jobs that fold_depth() has not counted yet: this step comes before that one.
-- Else one lane whose watermark lists something that is over; not in a transaction that has written, which would
-- list itself, so that an engine at rest soon has nothing to write here.
-- A step of maintain(). Locks: none. Returns how many lanes were refreshed.
create function fencepost_private.refresh_idle_hints(p_limit int default 200, p_now timestamptz default fencepost_private.now())
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_lane  record;
  v_count bigint := 0;
begin
  for v_lane in
    select n.lane_id, newest.hint
    from lane n
    cross join lateral (select h as hint from lane_hint h where h.lane_id = n.lane_id order by h.seq desc limit 1) as newest
    where (newest.hint).boot = pg_postmaster_start_time()
      and (newest.hint).at < p_now - interval '200 milliseconds'
      and exists (select from depth_delta d where d.type_id = n.type_id and d.xid >= (newest.hint).wx)
    limit p_limit
  loop
    perform refresh_hint(v_lane.lane_id, v_lane.hint, p_now);
    v_count := v_count + 1;
  end loop;
  if pg_current_xact_id_if_assigned() is not null then
    return v_count;
  end if;

  select n.lane_id, newest.hint into v_lane
  from lane n
  cross join lateral (select h as hint from lane_hint h where h.lane_id = n.lane_id order by h.seq desc limit 1) as newest
  where (newest.hint).boot = pg_postmaster_start_time()
    and (newest.hint).at < p_now - interval '1 second'
    and (exists (select from unnest((newest.hint).late_x) as e(x) where pg_visible_in_snapshot(e.x::text::xid8, pg_current_snapshot()))
         or cardinality((newest.hint).held) > 0)
  limit 1;
  if found then
    perform refresh_hint(v_lane.lane_id, v_lane.hint, p_now);
    v_count := v_count + 1;
  end if;
  return v_count;
end
$$;
comment on function fencepost_private.refresh_idle_hints(int, timestamptz) is 'A step of maintain(): refreshes the watermarks of lanes that claims have left. Returns how many.';
--! EndIncluded jobs/refresh_idle_hints.sql
--! Included jobs/pick_lanes.sql
-- Which lanes a claim looks at, in order: highest priority first, and within a priority from a random start, so that
-- no type starves another. Stops after p_limit lanes that have work: the rows come sorted from the inner query and
-- the probes of hint and head are made lane by lane. Fairness and weights will replace this function alone.
--
-- A lane counts only if a row of it is there: at its watermark, or of a late transaction, or held. That something is
-- *listed* as late is not enough: while any transaction in the cluster writes for long, it is listed by every lane,
-- and the first p_limit idle ones would keep a claim from all others.
create function fencepost_private.pick_lanes(p_types text[], p_limit int)
returns table (lane_id int, priority smallint, type_id int, type text, max_running int, max_attempts int, timeout interval,
               publish_started boolean, hint fencepost_private.lane_hint)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_salt int := (random() * 2147483647)::int;
begin
  return query
  select l.lane_id, l.priority, l.type_id, l.type, l.max_running, l.max_attempts, l.timeout, l.publish_started, newest.hint
  from (
    select n.lane_id, n.priority, t.type_id, t.type, t.max_running, t.max_attempts, t.timeout, t.publish_started
    from job_type t
    join lane n on n.type_id = t.type_id
    where t.type = any (p_types) and not t.paused
    order by n.priority desc, hashint4(n.lane_id # v_salt)
    offset 0
  ) as l
  left join lateral (
    select h.hint
    from (select i as hint, i.boot from lane_hint i where i.lane_id = l.lane_id order by i.seq desc limit 1) as h
    where h.boot = pg_postmaster_start_time()
  ) as newest on true
  left join lateral (
    select r.id from ready r
    where r.lane_id = l.lane_id and (r.xid, r.id) >= (coalesce((newest.hint).wx, 0), coalesce((newest.hint).wi, 0))
    order by r.xid, r.id limit 1
  ) as head on true
  where head.id is not null
     or exists (select from unnest((newest.hint).late_x, (newest.hint).late_i) as e(x, first_id)
                join ready r on r.lane_id = l.lane_id and r.xid = e.x and r.id >= e.first_id)
     or exists (select from unnest((newest.hint).held) as h(id) join ready r on r.id = h.id and r.lane_id + 0 = l.lane_id)
  limit p_limit;
end
$$;
comment on function fencepost_private.pick_lanes(text[], int) is 'The lanes with work that a claim of these types examines, in order, with their settings and watermarks.';
--! EndIncluded jobs/pick_lanes.sql
--! Included jobs/pick_jobs.sql
-- Locks up to p_max ready rows of a lane for the caller, oldest first, and returns where they are. Never waits:
-- rows locked by others are passed over. Looks at late transactions, at rows that an open claim held, and from the
-- watermark on; see refresh_hint for why nothing else can be alive.
create function fencepost_private.pick_jobs(p_lane_id int, p_hint fencepost_private.lane_hint, p_max int)
returns tid[]
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_found tid[] := '{}'::tid[];
begin
  if cardinality(p_hint.late_x) > 0 then
    v_found := array(
      select q.place
      from unnest(p_hint.late_x, p_hint.late_i) as e(x, first_id)
      cross join lateral (
        select r.ctid as place from ready r
        where r.lane_id = p_lane_id and r.xid = e.x and r.id >= e.first_id
        order by r.id limit p_max
        for update skip locked
      ) as q
      limit p_max);
  end if;
  if cardinality(p_hint.held) > 0 and cardinality(v_found) < p_max then
    v_found := v_found || array(
      select r.ctid from ready r
      where r.id = any (p_hint.held)
        and r.lane_id + 0 = p_lane_id      -- "+ 0": by the primary key, never along the lane's dead rows
        and not r.xid = any (p_hint.late_x)
      order by r.id limit p_max - cardinality(v_found)
      for update skip locked);
  end if;
  if cardinality(v_found) < p_max then
    v_found := v_found || array(
      select r.ctid from ready r
      where r.lane_id = p_lane_id and (r.xid, r.id) >= (p_hint.wx, p_hint.wi)
      order by r.xid, r.id limit p_max - cardinality(v_found)
      for update skip locked);
  end if;
  return v_found;
end
$$;
comment on function fencepost_private.pick_jobs(int, fencepost_private.lane_hint, int) is 'Locks up to p_max ready rows of a lane, oldest first, without waiting, and returns their places.';
--! EndIncluded jobs/pick_jobs.sql
--! Included jobs/claim_jobs.sql
-- The claim itself, for a worker that is known to be present (claim and exchange call it).
--
-- Takes up to p_max jobs of these types: highest priority first, then in order of enqueue within a type. Each is
-- leased under a new token and its attempt counts from now on.
-- Locks: the claimed rows, SKIP LOCKED; a try-lock for each type with max_running, to commit. Never waits.
-- Commits synchronously even where synchronous_commit is off.
create function fencepost_private.claim_jobs(p_worker_id int, p_types text[], p_max int, p_now timestamptz)
returns table (job_id bigint, token int, type text, attempt int, max_attempts int, payload jsonb, headers jsonb, priority int,
               tenant text, idempotency_key text, created_at timestamptz, deadline timestamptz, run_id bigint, task_id bigint)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_lane  record;
  v_hint  lane_hint;
  v_limit int;
  v_left  int := p_max;
  v_got   int;
  v_found tid[];
  v_xid   bigint;
  v_told  bigint[];
begin
  -- a claim that a crash forgets would hand its token out again
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;

  -- what became due in the last two seconds; maintain() takes the rest
  perform promote(1000, interval '2 seconds', p_now);

  for v_lane in select * from pick_lanes(p_types, 32) loop
    v_hint := coalesce(v_lane.hint, no_hint(v_lane.lane_id));
    v_limit := v_left;
    if v_lane.max_running is not null then
      continue when not pg_try_advisory_xact_lock(lock_type(), v_lane.type_id);   -- somebody else claims this type: skip it
      v_limit := least(v_limit, v_lane.max_running - running(v_lane.type_id));     -- a new statement, after the lock
      continue when v_limit <= 0;
    end if;

    v_found := pick_jobs(v_lane.lane_id, v_hint, v_limit);
    if cardinality(v_found) > 0 then
      v_xid := xid();
      if v_lane.publish_started then
        v_told := array(select r.id from ready r where r.ctid = any (v_found) order by r.xid, r.id);
      end if;
      return query
      with taken as (
        delete from ready r where r.ctid = any (v_found) returning r.*
      ), bodies as materialized (
        select t.id, t.xid, t.attempts + 1 as attempts, t.token + 1 as token, t.ready_at,
               coalesce(b.max_attempts, v_lane.max_attempts) as max_attempts, p_now + coalesce(b.timeout, v_lane.timeout) as deadline,
               b.payload, b.headers, b.tenant, b.idempotency_key, b.created_at, b.run_id, b.task_id
        from taken t join job b on b.id = t.id
      ), leased as (
        insert into lease (id, token, worker_id, lane_id, tenant, run_id, task_id, attempts, ready_at, started_at, deadline)
        select b.id, b.token, p_worker_id, v_lane.lane_id, b.tenant, b.run_id, b.task_id, b.attempts, b.ready_at, p_now, b.deadline
        from bodies b
      )
      select b.id, b.token, v_lane.type, b.attempts, b.max_attempts, b.payload, b.headers, v_lane.priority::int,
             b.tenant, b.idempotency_key, b.created_at, b.deadline, b.run_id, b.task_id
      from bodies b
      order by b.xid, b.id;
      get diagnostics v_got = row_count;
      v_left := v_left - v_got;
      insert into depth_delta (type_id, xid, ready, running) values (v_lane.type_id, v_xid, -v_got, v_got);
      if v_lane.publish_started then
        perform tell_started(v_told, p_now);
      end if;
    end if;

    if v_hint.at < p_now - interval '200 milliseconds' then
      perform refresh_hint(v_lane.lane_id, v_hint, p_now);
      -- attempts use up ids of events also where nothing is enqueued: look now and then that there is room for them
      if v_hint.seq % 16 = 15 then
        perform ensure_partitions();
      end if;
    end if;
    exit when v_left <= 0;
  end loop;
end
$$;
comment on function fencepost_private.claim_jobs(int, text[], int, timestamptz)
  is 'Leases up to p_max jobs of these types to a worker, each under a new token. Never waits.';

-- For types that publish job.started: an event for each of these leases, in order.
create function fencepost_private.tell_started(p_ids bigint[], p_now timestamptz)
returns void
language sql
volatile
set search_path = fencepost_private, pg_temp
as $$
  insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, attempt, token, worker_id, ready_at, started_at)
  select xid(), p_now, l.tenant, 'job.started', l.lane_id, l.id, l.run_id, l.task_id, l.attempts, l.token, l.worker_id, l.ready_at, l.started_at
  from unnest(p_ids) with ordinality as u(id, ordinal)
  join lease l on l.id = u.id
  order by u.ordinal
$$;
comment on function fencepost_private.tell_started(bigint[], timestamptz) is 'Writes job.started for these leases.';
--! EndIncluded jobs/claim_jobs.sql
--! Included jobs/register_worker.sql
-- Registers a worker process: a new incarnation, whose number is never used again. If the same name on the same host
-- and slot is still registered, that one is declared lost: this is its restart, and its jobs go to others at once.
-- The worker then calls exchange() or heartbeat() at least every third of its ttl.
--   types     what it works on, for explain_job and doctor
--   ttl       how long it may be silent before its jobs are taken back, 1 second to 1 day
--   protocol  version of the worker protocol that the client speaks
--   info      JSON about itself: version, pid, slots, language
-- Errors: JE003, JE011 (protocol unknown to this schema).
create function fencepost.register_worker(
  name text, hostname text default '', slot int default 0, types text[] default '{}', ttl interval default '30 seconds',
  protocol int default 1, info jsonb default null, tenant text default null)
returns int
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := fencepost_private.now();
  v_old int;
  v_id  int;
begin
  if register_worker.protocol is distinct from 1 then
    perform raise_error('JE011', 'this schema speaks worker protocol 1', format('received protocol = %s', coalesce(register_worker.protocol::text, 'null')),
      'Upgrade the client, or run fencepost migrate with the version of the client.');
  end if;
  perform check_worker(register_worker.name, register_worker.ttl), check_types(coalesce(register_worker.types, '{}'));

  -- again while another session registers the same name at the same time: the later one wins
  while v_id is null loop
    update worker w set status = 'lost', ended_at = v_now
    where w.name = register_worker.name and w.hostname = coalesce(register_worker.hostname, '') and w.slot = coalesce(register_worker.slot, 0)
      and w.status in ('active', 'draining')
    returning w.worker_id into v_old;
    v_id := add_worker(register_worker.name, coalesce(register_worker.hostname, ''), coalesce(register_worker.slot, 0), coalesce(register_worker.types, '{}'),
                       register_worker.ttl, coalesce(register_worker.tenant, current_tenant()), register_worker.info, v_now);
  end loop;
  insert into event (xid, at, tenant, kind, worker_id, data)
  select xid(), v_now, w.tenant, 'worker.lost', w.worker_id, jsonb_build_object('worker', w.name, 'reason', 'registered again', 'successor', v_id)
  from worker w where w.worker_id = v_old;
  return v_id;
end
$$;
comment on function fencepost.register_worker(text, text, int, text[], interval, int, jsonb, text)
  is 'Registers a worker process and returns its number, new for each incarnation; an older one of the same name, host and slot is lost. Raises JE003, JE011.';

-- Errors: JE003 for a name or a ttl that no worker may have.
create function fencepost_private.check_worker(p_name text, p_ttl interval)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_name is null or length(p_name) not between 1 and 200 then
    perform raise_error('JE003', 'a worker needs a name of 1 to 200 characters', format('received %s', coalesce(left(quote_literal(p_name), 100), 'null')),
      'Use something that a person recognises, such as the service and host.');
  end if;
  if p_ttl is null or p_ttl not between interval '1 second' and interval '1 day' then
    perform raise_error('JE003', 'the ttl of a worker must be from 1 second to 1 day', format('received ttl = %s', coalesce(p_ttl::text, 'null')),
      'The default is 30 seconds; a worker that never calls heartbeat() needs one longer than its jobs.');
  end if;
end
$$;
comment on function fencepost_private.check_worker(text, interval) is 'Raises JE003 for a name or a ttl that no worker may have.';

-- A new incarnation, unless one of that name, host and slot is present: then null, and the next statement sees it.
-- Waits for a session that is registering the same.
create function fencepost_private.add_worker(
  p_name text, p_hostname text, p_slot int, p_types text[], p_ttl interval, p_tenant text, p_info jsonb, p_now timestamptz)
returns int
language sql
volatile
set search_path = fencepost_private, pg_temp
as $$
  insert into worker (name, hostname, slot, tenant, types, ttl, started_at, heartbeat_at, info)
  values (p_name, p_hostname, p_slot, p_tenant, p_types, p_ttl, p_now, p_now, p_info)
  on conflict (name, hostname, slot) where status in ('active', 'draining') do nothing
  returning worker_id
$$;
comment on function fencepost_private.add_worker(text, text, int, text[], interval, text, jsonb, timestamptz)
  is 'Adds a worker and returns its number; null when one of that name, host and slot is present.';
--! EndIncluded jobs/register_worker.sql
--! Included jobs/claim.sql
-- Takes work: up to `max` jobs of these types, highest priority first, then oldest first.
--
-- A worker is known by its name. An unknown name is registered, and so is one that was lost: its old jobs are then
-- not its own any more. Sessions that claim under one name at once are one worker. Call heartbeat() at least every third of the ttl while jobs run, or give a ttl that is some
-- seconds longer than any job takes. Types that nobody has enqueued yet simply have no jobs.
--
-- Commit before the work begins. Whoever completes in the same transaction keeps others from the job meanwhile, and may be
-- ended with 40P01 when somebody pauses or cancels the run that it belongs to: see complete().
--
-- Locks: none that it waits for, but a session that is registering the same name. Errors: JE003; JE010 only if the name
-- is lost again and again while it claims (a lost worker starts anew).
create function fencepost.claim(worker text, types text[], max int default 1, ttl interval default null)
returns table (job_id bigint, token int, type text, attempt int, max_attempts int, payload jsonb, headers jsonb, priority int,
               tenant text, idempotency_key text, created_at timestamptz, deadline timestamptz, run_id bigint, task_id bigint)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now    timestamptz := fencepost_private.now();
  v_worker record;
  v_id     int;
  v_status worker_status;
begin
  perform check_claim(claim.types, claim.max);
  perform check_worker(claim.worker, coalesce(claim.ttl, interval '30 seconds'));
  -- Again when it was lost, or said goodbye, while we looked. A claim is a sign of life, written each second at most:
  -- a worker that never calls heartbeat() has its whole ttl for a job, less that second.
  for v_try in 1..3 loop
    select w.worker_id, w.ttl, w.types, w.heartbeat_at < v_now - least(w.ttl / 3, interval '1 second') as is_due into v_worker
    from worker w
    where w.name = claim.worker and w.status in ('active', 'draining')
    order by w.worker_id desc limit 1;
    if not found then
      v_id := add_worker(claim.worker, '', 0, claim.types, coalesce(claim.ttl, interval '30 seconds'), current_tenant(), null, v_now);
    else
      v_id := v_worker.worker_id;
      -- types are added as they come and told anew with each heartbeat: a row that is written often costs all who read it
      if v_worker.is_due or v_worker.ttl <> claim.ttl or not v_worker.types @> claim.types then
        update worker w
        set heartbeat_at = v_now, suspect_at = null, returned_at = case when w.heartbeat_at < v_now - w.ttl then v_now else w.returned_at end,
            ttl = coalesce(claim.ttl, w.ttl),
            types = case when v_worker.is_due then claim.types else array(select unnest(w.types) union select unnest(claim.types)) end
        where w.worker_id = (select p.worker_id from worker p where p.worker_id = v_id and p.status in ('active', 'draining')
                             for no key update skip locked);   -- else somebody writes it now
      end if;
    end if;
    v_status := status_for_claim(v_id);
    exit when v_status in ('active', 'draining');
  end loop;
  if v_status is null or v_status in ('lost', 'stopped') then
    perform raise_worker_lost(claim.worker, v_status);
  elsif v_status = 'draining' then
    return;
  end if;

  return query select * from claim_jobs(v_id, claim.types, claim.max, v_now);
  if not found and claim.max > 0 and promote(1000, null, v_now) > 0 then
    return query select * from claim_jobs(v_id, claim.types, claim.max, v_now);
  end if;
end
$$;
comment on function fencepost.claim(text, text[], int, interval)
  is 'Leases up to max jobs of these types to the named worker (registered if unknown) and returns them with their fencing tokens. Never waits. Raises JE003.';

-- What a claim refuses before it begins. Errors: JE003.
create function fencepost_private.check_claim(p_types text[], p_max int)
returns void
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform raise_error('JE003', 'jobs are claimed in READ COMMITTED only', format('received a transaction that is %s', upper(current_setting('transaction_isolation'))),
      'A claim must see what was committed a moment ago: run it in a transaction of its own.');
  end if;
  perform check_types(p_types);
  if p_max is null or p_max not between 0 and 10000 then
    perform raise_error('JE003', 'max must be from 0 to 10000', format('received max = %s', coalesce(p_max::text, 'null')), 'Claim no more than can start soon.');
  end if;
end
$$;
comment on function fencepost_private.check_claim(text[], int) is 'Raises JE003 when a claim makes no sense, or runs outside READ COMMITTED.';

-- Errors: JE003 when these are no names of types.
create function fencepost_private.check_types(p_types text[])
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_types is null or array_position(p_types, null) is not null then
    perform raise_error('JE003', 'types must be an array of names', format('received %s', coalesce(p_types::text, 'null')), 'For example array[''email.send''].');
  end if;
end
$$;
comment on function fencepost_private.check_types(text[]) is 'Raises JE003 unless these are names of types.';

-- Opens a worker's claim: takes its shared lock, then reads its status, in this order. The final sweep of an ended
-- worker takes the lock exclusively, so a claim that commits late is swept too. Null: unknown, or being swept.
create function fencepost_private.status_for_claim(p_worker_id int)
returns fencepost_private.worker_status
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_status worker_status;
begin
  if pg_try_advisory_xact_lock_shared(lock_worker(), p_worker_id) then
    select w.status into v_status from worker w where w.worker_id = p_worker_id;
  end if;
  return v_status;
end
$$;
comment on function fencepost_private.status_for_claim(int) is 'Locks a worker against its final sweep and returns its status; null when it is unknown or being swept.';

-- The same for a worker that must be present. True: it may claim. False: it is draining.
-- Errors: JE010 when the worker is lost, stopped or unknown.
create function fencepost_private.enter_worker(p_worker_id int)
returns boolean
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_status worker_status := status_for_claim(p_worker_id);
begin
  if v_status is null or v_status in ('lost', 'stopped') then
    perform raise_worker_lost(p_worker_id::text, v_status);
  end if;
  return v_status = 'active';
end
$$;
comment on function fencepost_private.enter_worker(int) is 'Locks a worker against its final sweep and says whether it may claim. Raises JE010.';

create function fencepost_private.raise_worker_lost(p_worker text, p_status fencepost_private.worker_status)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_worker is null then
    perform raise_error('JE003', 'a worker must be named', 'received null', 'Give the number that register_worker() returned, or the name of the worker.');
  end if;
  perform raise_error('JE010', format('worker %s is %s', p_worker, coalesce(p_status::text, 'unknown')), format('received worker = %s', p_worker),
    'Its jobs belong to others now: stop their handlers, then register again with fencepost.register_worker().');
end
$$;
comment on function fencepost_private.raise_worker_lost(text, fencepost_private.worker_status) is 'Raises JE010 for a worker that is lost, stopped or unknown, JE003 for none.';
--! EndIncluded jobs/claim.sql
--! Included jobs/complete_jobs.sql
-- Ends attempts well, set-wise: deletes their leases, writes one event each. Whoever does not hold (job, token) is
-- passed over; with p_worker_id the lease must also be that worker's. Returns the accepted pairs, two empty arrays if none.
-- Locks: root runs of the jobs, then the leases, in id order.
create function fencepost_private.complete_jobs(
  p_ids bigint[], p_tokens int[], p_results jsonb[], p_worker_id int, p_now timestamptz, out done_ids bigint[], out done_tokens int[])
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_xid   bigint;
  v_types int[];
  v_ends  task_end[];
begin
  done_ids := '{}'::bigint[];
  done_tokens := '{}'::int[];
  if p_ids is null or cardinality(p_ids) = 0 then
    return;
  end if;
  if p_worker_id is null then     -- an exchange has locked them before
    perform lock_runs_of_leases(p_ids);
  end if;
  v_xid := xid();
  with ended as (
    delete from lease l
    using (select u.id, u.token, u.result from unnest(p_ids, p_tokens, coalesce(p_results, '{}')) as u(id, token, result) order by u.id) as given
    where l.id = given.id and l.token = given.token and (p_worker_id is null or l.worker_id = p_worker_id)
    returning l.*, given.result
  ), told as (
    insert into event (xid, at, tenant, kind, outcome, lane_id, job_id, run_id, task_id, attempt, token, worker_id, ready_at, started_at, data)
    select v_xid, p_now, e.tenant, 'job.completed', 'completed', e.lane_id, e.id, e.run_id, e.task_id, e.attempts, e.token, e.worker_id, e.ready_at, e.started_at, e.result
    from ended e
  ), counted as (
    insert into depth_delta (type_id, xid, running)
    select l.type_id, v_xid, -sum(e.n)
    from (select lane_id, count(*) as n from ended group by lane_id) as e
    join lane l on l.lane_id = e.lane_id
    group by l.type_id
    returning type_id
  )
  select coalesce(array_agg(e.id), '{}'), coalesce(array_agg(e.token), '{}'), (select array_agg(c.type_id) from counted c),
         array_agg(row(e.task_id, 'completed', e.result, null)::task_end) filter (where e.task_id is not null)
    into done_ids, done_tokens, v_types, v_ends
  from ended e;
  if v_types is not null then
    perform jobs_ended(v_ends, p_now);
    perform wake_limited(v_types);
  end if;
end
$$;
comment on function fencepost_private.complete_jobs(bigint[], int[], jsonb[], int, timestamptz)
  is 'Completes the attempts named by (job, token) and returns the accepted pairs; stale ones are passed over.';

-- A slot came free: wakes who sleeps for those of these types that have a limit.
create function fencepost_private.wake_limited(p_type_ids int[])
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_limited int[] := array(select t.type_id from job_type t where t.type_id = any (p_type_ids) and t.max_running is not null);
begin
  if cardinality(v_limited) > 0 then
    perform wake(v_limited);
  end if;
end
$$;
comment on function fencepost_private.wake_limited(int[]) is 'Wakes workers that sleep for those of these types whose max_running may have held them back.';

-- Refuses a result (or step, or progress) that is larger than a payload of its type may be. Errors: JE006.
create function fencepost_private.check_results(p_ids bigint[], p_results jsonb[], p_what text default 'result')
returns void
language plpgsql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v record;
begin
  if p_results is null then
    return;
  end if;
  -- as good as always none is larger than even the strictest type allows
  if coalesce((select max(octet_length(r.result::text)) from unnest(p_results) as r(result)), 0) <= (select min(t.max_payload_bytes) from job_type t) then
    return;
  end if;
  select u.id, octet_length(u.result::text) as bytes, t.max_payload_bytes into v
  from unnest(p_ids, p_results) as u(id, result)
  join lease l on l.id = u.id
  join lane n on n.lane_id = l.lane_id
  join job_type t on t.type_id = n.type_id
  where octet_length(u.result::text) > t.max_payload_bytes
  limit 1;
  if found then
    perform raise_error('JE006', format('the %s of job %s is too large', p_what, v.id), format('received %s bytes; the limit is %s', v.bytes, v.max_payload_bytes),
      'Store large data elsewhere and return a reference to it, or raise max_payload_bytes of the type.');
  end if;
end
$$;
comment on function fencepost_private.check_results(bigint[], jsonb[], text) is 'Raises JE006 for the first result that is larger than its type allows.';

-- Both arrays of a batch must name pairs, and what is told of the jobs (p_names, of these p_lengths; null was left out)
-- must be as long: else something would be told of the wrong job, or be lost. Errors: JE003.
create function fencepost_private.check_pairs(p_ids bigint[], p_tokens int[], p_what text, p_names text[] default '{}', p_lengths int[] default '{}')
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if coalesce(cardinality(p_ids), 0) <> coalesce(cardinality(p_tokens), 0) then
    perform raise_error('JE003', format('%s needs one token for each job id', p_what),
      format('received %s ids and %s tokens', coalesce(cardinality(p_ids), 0), coalesce(cardinality(p_tokens), 0)), 'The token is what claim returned with the job.');
  end if;
  for v_place in 1..cardinality(p_names) loop
    if p_lengths[v_place] <> coalesce(cardinality(p_ids), 0) then
      perform raise_error('JE003', format('%s needs one of %s for each job id, or none at all', p_what, p_names[v_place]),
        format('received %s ids and %s %s', coalesce(cardinality(p_ids), 0), p_lengths[v_place], p_names[v_place]), 'Give nulls where there is nothing to tell, or leave the array out.');
    end if;
  end loop;
end
$$;
comment on function fencepost_private.check_pairs(bigint[], int[], text, text[], int[]) is 'Raises JE003 unless there is one token for each job id, and arrays about the jobs are as long.';
--! EndIncluded jobs/complete_jobs.sql
--! Included jobs/complete.sql
-- Completes one attempt, in the caller's transaction: what the handler wrote there, the result and the event are one
-- commit. When the lease was lost it raises, so the caller's transaction rolls back and nothing is done twice.
-- Locks: the root run of a task's job, then the lease; waits for a transaction that is ending the same attempt, or holds
-- the run. Called in the transaction that claimed the job of a run, it may meet an operator of that run who waits for the
-- job: PostgreSQL ends one of the two with 40P01, and it can be done again.
-- Errors: JE001 (stale token), JE002 (no such job), JE006 (result too large).
create function fencepost.complete(job_id bigint, token int, result jsonb default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_done bigint[];
begin
  perform check_results(array[complete.job_id], array[complete.result]);
  select c.done_ids into v_done
  from complete_jobs(array[complete.job_id], array[complete.token], array[complete.result], null, fencepost_private.now()) as c;
  if cardinality(v_done) = 0 then
    perform raise_lease_lost(complete.job_id, complete.token);
  end if;
end
$$;
comment on function fencepost.complete(bigint, int, jsonb)
  is 'Completes the attempt that holds this token, in the caller''s transaction. Raises JE001 when it was lost, JE002, JE006.';

-- Errors: JE002 when there is no such job, else JE001, saying where it stands.
create function fencepost_private.raise_lease_lost(p_job_id bigint, p_token int)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_status text := job_status(p_job_id);
begin
  if v_status is null then
    perform raise_not_found(p_job_id);
  end if;
  perform raise_error('JE001', format('job %s is not leased under token %s', p_job_id, coalesce(p_token::text, 'null')), format('the job is %s', v_status),
    'The lease was lost or the attempt has ended: stop working on it and write nothing more for it.');
end
$$;
comment on function fencepost_private.raise_lease_lost(bigint, int) is 'Raises JE001 for a stale (job, token), or JE002 for an unknown job.';

create function fencepost_private.raise_not_found(p_job_id bigint)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  perform raise_error('JE002', format('job %s does not exist', coalesce(p_job_id::text, 'null')), format('received job_id = %s', coalesce(p_job_id::text, 'null')),
    'Finished jobs are removed after keep_finished of their type.');
end
$$;
comment on function fencepost_private.raise_not_found(bigint) is 'Raises JE002 for a job id.';
--! EndIncluded jobs/complete.sql
--! Included jobs/complete_many.sql
-- Completes many attempts at once. Stale pairs are passed over: compare the pairs that come back with those that were
-- sent (a worker may hold a job under a new token while it still reports an old one).
-- Locks: the leases, in id order. Errors: JE003 (arrays of different length), JE006.
create function fencepost.complete_many(job_ids bigint[], tokens int[], results jsonb[] default null)
returns table (job_id bigint, token int)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform check_pairs(complete_many.job_ids, complete_many.tokens, 'complete_many', '{results}', array[cardinality(complete_many.results)]);
  perform check_results(complete_many.job_ids, complete_many.results);
  return query
  select d.id, d.token
  from complete_jobs(complete_many.job_ids, complete_many.tokens, complete_many.results, null, fencepost_private.now()) as c
  cross join lateral unnest(c.done_ids, c.done_tokens) as d(id, token);
end
$$;
comment on function fencepost.complete_many(bigint[], int[], jsonb[])
  is 'Completes the attempts named by (job, token) and returns the accepted ones; stale pairs are passed over. Raises JE003, JE006.';
--! EndIncluded jobs/complete_many.sql
--! Included jobs/fail_jobs.sql
-- Ends attempts badly, set-wise. Each job is tried again after its backoff, or dead-lettered when its attempts are
-- used up or the failure is permanent, or cancelled when that was asked for meanwhile. Stale pairs are passed over.
-- An attempt whose deadline has passed ends as timed_out, whatever the worker called it.
-- Locks: the leases, in id order.
create function fencepost_private.fail_jobs(
  p_ids bigint[], p_tokens int[], p_errors text[], p_details jsonb[], p_retry_in interval[], p_permanent boolean[],
  p_worker_id int, p_outcome fencepost_private.attempt_outcome, p_now timestamptz)
returns table (job_id bigint, token int, verdict text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_xid    bigint;
  v_ids    bigint[];
  v_marks  int[];
  v_says   text[];
  v_woken  int[];
  v_types  int[];
  v_ends   task_end[];
  v_again  bigint[];
begin
  if p_ids is null or cardinality(p_ids) = 0 then
    return;
  end if;
  if p_worker_id is null then     -- an exchange has locked them before
    perform lock_runs_of_leases(p_ids);
  end if;
  v_xid := xid();
  with given as materialized (
    select u.id, u.token, clipped(coalesce(u.error, 'unknown error')) as error, u.retry_in, coalesce(u.permanent, false) as permanent,
           case when pg_column_size(u.details) > 65536 then to_jsonb(clipped(u.details::text)) else u.details end as details
    from unnest(p_ids, p_tokens, coalesce(p_errors, '{}'), coalesce(p_details, '{}'), coalesce(p_retry_in, '{}'), coalesce(p_permanent, '{}'))
         as u(id, token, error, details, retry_in, permanent)
    order by u.id
  ), ended as (
    delete from lease l using given g
    where l.id = g.id and l.token = g.token and (p_worker_id is null or l.worker_id = p_worker_id)
    returning l.*, g.error, g.details, g.retry_in, g.permanent
  ), judged as materialized (
    select e.*, n.type_id,
           case when e.cancel_requested_at is not null then 'cancelled'
                when e.permanent or e.attempts >= coalesce(b.max_attempts, t.max_attempts) then 'dead_letter'
                else 'retry' end as verdict,
           case when e.cancel_requested_at is not null and p_outcome = 'failed' then 'cancelled'
                when p_outcome = 'failed' and e.deadline <= p_now then 'timed_out'
                else p_outcome end as outcome,
           p_now + coalesce(case when e.retry_in < interval '0' then interval '0' when e.retry_in > interval '100 years' then interval '100 years' else e.retry_in end,
                            case when p_outcome = 'lease_expired' then interval '0' end,
                            retry_delay(e.attempts, t.backoff_base, t.backoff_factor, t.backoff_cap, t.backoff_jitter)) as again_at
    from ended e
    join job b on b.id = e.id
    join lane n on n.lane_id = e.lane_id
    join job_type t on t.type_id = n.type_id
  ), put_ready as (
    insert into ready (id, xid, lane_id, attempts, token, ready_at)
    select j.id, v_xid, j.lane_id, j.attempts, j.token, p_now from judged j where j.verdict = 'retry' and j.again_at <= p_now
  ), put_delayed as (
    insert into delayed (id, available_at, lane_id, attempts, token)
    select j.id, j.again_at, j.lane_id, j.attempts, j.token from judged j where j.verdict = 'retry' and j.again_at > p_now
  ), buried as (
    insert into dead_letter (id, lane_id, attempts, token, tenant, final_error, details, failed_at)
    select j.id, j.lane_id, j.attempts, j.token, j.tenant, j.error, j.details, p_now from judged j where j.verdict = 'dead_letter'
  ), told as (
    insert into event (xid, at, tenant, kind, outcome, lane_id, job_id, run_id, task_id, attempt, token, worker_id, ready_at, started_at, data)
    select v_xid, p_now, j.tenant,
           (case j.verdict when 'retry' then 'job.retry_scheduled' when 'dead_letter' then 'job.dead_lettered' else 'job.cancelled' end)::event_kind,
           j.outcome, j.lane_id, j.id, j.run_id, j.task_id, j.attempts, j.token, j.worker_id, j.ready_at, j.started_at,
           jsonb_strip_nulls(jsonb_build_object('error', j.error, 'details', j.details,
             'available_at', case when j.verdict = 'retry' then j.again_at end, 'permanent', nullif(j.permanent, false), 'reason', j.cancel_reason))
    from judged j order by j.id
  ), counted as (
    insert into depth_delta (type_id, xid, running, ready, delayed, dead_letter)
    select j.type_id, v_xid, -count(*),
           count(*) filter (where j.verdict = 'retry' and j.again_at <= p_now),
           count(*) filter (where j.verdict = 'retry' and j.again_at > p_now),
           count(*) filter (where j.verdict = 'dead_letter')
    from judged j group by j.type_id
    returning type_id
  )
  select array_agg(j.id), array_agg(j.token), array_agg(j.verdict),
         array_agg(distinct j.type_id) filter (where j.verdict = 'retry'), array_agg(distinct j.type_id),
         array_agg(row(j.task_id, case j.verdict when 'dead_letter' then 'failed' else 'cancelled' end, null, j.error)::task_end) filter (where j.task_id is not null and j.verdict <> 'retry'),
         array_agg(j.id) filter (where j.run_id is not null and j.verdict = 'retry')
    into v_ids, v_marks, v_says, v_woken, v_types, v_ends, v_again
  from judged j;
  if v_ids is null then
    return;
  end if;
  perform jobs_ended(v_ends, p_now);
  if v_again is not null then
    perform park_paused(v_again);
  end if;
  perform wake(v_woken);
  perform wake_limited(v_types);
  return query select * from unnest(v_ids, v_marks, v_says);
end
$$;
comment on function fencepost_private.fail_jobs(bigint[], int[], text[], jsonb[], interval[], boolean[], int, fencepost_private.attempt_outcome, timestamptz)
  is 'Fails the attempts named by (job, token): retry, dead_letter or cancelled for each; stale pairs are passed over.';
--! EndIncluded jobs/fail_jobs.sql
--! Included jobs/fail.sql
-- Fails one attempt. The job is tried again after its type's backoff (or after retry_in), unless its attempts are
-- used up or `permanent` says that trying again is useless: then it is dead-lettered.
--   error    what went wrong, for people; longer than 64 KiB is cut
--   details  anything structured that belongs to it: name, stack, cause; beyond 64 KiB cut, and then a text
-- Returns 'retry', 'dead_letter' or 'cancelled' (cancellation had been asked for).
-- Locks: the lease. Errors: JE001 (stale token), JE002 (no such job), JE003 (retry_in negative or beyond 100 years).
create function fencepost.fail(job_id bigint, token int, error text default null, retry_in interval default null, permanent boolean default false, details jsonb default null)
returns text
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_verdict text;
begin
  if fail.retry_in not between interval '0' and interval '100 years' then
    perform raise_error('JE003', 'retry_in must be from 0 to 100 years', format('received retry_in = %s', fail.retry_in), 'Use 0 to try again at once.');
  end if;
  select f.verdict into v_verdict
  from fail_jobs(array[fail.job_id], array[fail.token], array[fail.error], array[fail.details], array[fail.retry_in], array[fail.permanent],
                 null, 'failed', fencepost_private.now()) as f;
  if v_verdict is null then
    perform raise_lease_lost(fail.job_id, fail.token);
  end if;
  return v_verdict;
end
$$;
comment on function fencepost.fail(bigint, int, text, interval, boolean, jsonb)
  is 'Fails the attempt that holds this token; returns retry, dead_letter or cancelled. Raises JE001, JE002, JE003.';
--! EndIncluded jobs/fail.sql
--! Included jobs/fail_many.sql
-- Fails many attempts at once; each array is as long as job_ids or left out. Stale pairs are passed over; a wait
-- that is negative counts as none, and one beyond 100 years as that.
-- Locks: the leases, in id order. Errors: JE003.
create function fencepost.fail_many(
  job_ids bigint[], tokens int[], errors text[] default null, retry_in interval[] default null, permanent boolean[] default null, details jsonb[] default null)
returns table (job_id bigint, verdict text, token int)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform check_pairs(fail_many.job_ids, fail_many.tokens, 'fail_many', '{errors,retry_in,permanent,details}',
                      array[cardinality(fail_many.errors), cardinality(fail_many.retry_in), cardinality(fail_many.permanent), cardinality(fail_many.details)]);
  return query
  select f.job_id, f.verdict, f.token
  from fail_jobs(fail_many.job_ids, fail_many.tokens, fail_many.errors, fail_many.details, fail_many.retry_in, fail_many.permanent,
                 null, 'failed', fencepost_private.now()) as f;
end
$$;
comment on function fencepost.fail_many(bigint[], int[], text[], interval[], boolean[], jsonb[])
  is 'Fails the attempts named by (job, token); returns retry, dead_letter or cancelled for each accepted one. Raises JE003.';
--! EndIncluded jobs/fail_many.sql
--! Included jobs/heartbeat.sql
-- A sign of life, at least every third of the ttl. It keeps all leases of the worker alive; naming the jobs that run
-- also tells what became of them. Returns only what needs attention:
--   lost     the worker does not hold (job, token) any more: abort its handler
--   cancel   someone asked to cancel it: abort its handler, then fail or complete it
--   timeout  its time is up: abort its handler; the engine is about to take it back
--   drain    (without a job) an operator asks the worker to finish what it has and take nothing new
-- Without worker_id the name means its present incarnation, the latest if several hosts share it.
-- A short transaction of its own. Locks: the worker's row; leases older than a ttl, SKIP LOCKED.
-- Errors: JE003; JE010 when the worker is lost, stopped or unknown.
create function fencepost.heartbeat(worker text, job_ids bigint[] default '{}', tokens int[] default '{}', worker_id int default null)
returns table (job_id bigint, directive text)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now timestamptz := fencepost_private.now();
  v_id  int := heartbeat.worker_id;
begin
  perform check_pairs(heartbeat.job_ids, heartbeat.tokens, 'heartbeat');
  if v_id is null then
    select w.worker_id into v_id
    from worker w
    where w.name = heartbeat.worker and w.status in ('active', 'draining')
    order by w.worker_id desc limit 1;
    if not found then
      select max(w.worker_id) into v_id from worker w where w.name = heartbeat.worker;
    end if;
  end if;
  return query
  select d.job_id, d.directive from beat(v_id, heartbeat.worker, heartbeat.job_ids, heartbeat.tokens, v_now) as d;
end
$$;
comment on function fencepost.heartbeat(text, bigint[], int[], int)
  is 'Keeps a worker and its leases alive; returns lost, cancel or timeout for the named jobs that need attention. Raises JE003, JE010.';

-- The heartbeat itself: one row of worker, and seen_at on the named leases that were not stamped for a ttl (so that
-- short jobs pay nothing). A lease that is locked is being ended or cancelled: the heartbeat must not wait for that.
-- Returns directives for the named jobs.
create function fencepost_private.beat(p_worker_id int, p_name text, p_ids bigint[], p_tokens int[], p_now timestamptz)
returns table (job_id bigint, token int, directive text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_worker record;
begin
  update worker w
  set heartbeat_at = p_now, suspect_at = null, returned_at = case when w.heartbeat_at < p_now - w.ttl then p_now else w.returned_at end
  where w.worker_id = p_worker_id and w.status in ('active', 'draining')
  returning w.ttl, w.status into v_worker;
  if not found then
    perform raise_worker_lost(coalesce(p_name, p_worker_id::text), (select w.status from worker w where w.worker_id = p_worker_id));
  end if;

  update lease l set seen_at = p_now
  where l.id = any (array(
    select h.id
    from unnest(p_ids, p_tokens) as held(id, token)
    join lease h on h.id = held.id and h.token = held.token and h.worker_id = p_worker_id
    where greatest(h.started_at, h.seen_at) < p_now - v_worker.ttl
    for no key update of h skip locked));

  return query
  select held.id, held.token,
         case when l.id is null then 'lost' when l.cancel_requested_at is not null then 'cancel' else 'timeout' end
  from unnest(p_ids, p_tokens) as held(id, token)
  left join lease l on l.id = held.id and l.token = held.token and l.worker_id = p_worker_id
  where l.id is null or l.cancel_requested_at is not null or l.deadline <= p_now;
  if v_worker.status = 'draining' then
    return query select null::bigint, null::int, 'drain'::text;
  end if;
end
$$;
comment on function fencepost_private.beat(int, text, bigint[], int[], timestamptz) is 'Writes a worker''s heartbeat and returns directives for the jobs it named. Raises JE010.';
--! EndIncluded jobs/heartbeat.sql
--! Included jobs/exchange.sql
-- A worker's whole round in one transaction: results in, new work out.
--
-- In this order: the completed and the failed attempts are settled; new jobs are claimed; a heartbeat is written if one
-- is due, with the jobs that still run. Results are fenced by (job, token) and by the worker's number.
--
--   completed_ids, completed_tokens, completed_results          attempts that went well
--   failed_ids, failed_tokens, failed_errors, failed_details,
--   failed_retry_in, failed_permanent                           attempts that went wrong, as in fail()
--   running_ids, running_tokens                                 what the worker still runs, besides those
--   types, max                                                  what to claim; max 0 claims nothing
--
-- Returns rows that say what to do, by `directive`:
--   run          a claimed job: start it
--   lost         a result that was refused, or a running job that is not this worker's any more: abort, forget
--   busy         a result whose workflow run is locked by somebody else: send it again
--   retry, dead_letter, cancelled   what became of each failed attempt
--   cancel, timeout, drain          as in heartbeat()
-- Locks: leases in id order; claims wait for nothing. Errors: JE003, JE006 (a result too large; nothing was done),
-- JE010 (the worker is lost: nothing was done, its results belong to nobody).
create function fencepost.exchange(
  worker_id int,
  completed_ids bigint[] default '{}', completed_tokens int[] default '{}', completed_results jsonb[] default null,
  failed_ids bigint[] default '{}', failed_tokens int[] default '{}', failed_errors text[] default null, failed_details jsonb[] default null,
  failed_retry_in interval[] default null, failed_permanent boolean[] default null,
  running_ids bigint[] default '{}', running_tokens int[] default '{}',
  types text[] default '{}', max int default 0)
returns table (directive text, job_id bigint, token int, type text, attempt int, max_attempts int, payload jsonb, headers jsonb, priority int,
               tenant text, idempotency_key text, created_at timestamptz, deadline timestamptz, run_id bigint, task_id bigint)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_now    timestamptz := fencepost_private.now();
  v_active boolean;
  v_due    boolean;
  v_done   record;
  v_busy   bigint[];
begin
  perform check_claim(exchange.types, exchange.max);
  perform check_pairs(exchange.completed_ids, exchange.completed_tokens, 'exchange (completed)', '{results}', array[cardinality(exchange.completed_results)]);
  perform check_pairs(exchange.failed_ids, exchange.failed_tokens, 'exchange (failed)', '{errors,details,retry_in,permanent}',
                      array[cardinality(exchange.failed_errors), cardinality(exchange.failed_details), cardinality(exchange.failed_retry_in), cardinality(exchange.failed_permanent)]);
  perform check_pairs(exchange.running_ids, exchange.running_tokens, 'exchange (running)');
  v_active := enter_worker(exchange.worker_id);

  -- a run that somebody holds makes nobody wait: its results are handed back, to be sent again
  v_busy := busy_jobs(exchange.completed_ids || exchange.failed_ids);
  if cardinality(v_busy) > 0 then
    return query
    select 'busy', r.id, r.token, null::text, null::int, null::int, null::jsonb, null::jsonb, null::int, null::text, null::text,
           null::timestamptz, null::timestamptz, null::bigint, null::bigint
    from unnest(exchange.completed_ids || exchange.failed_ids, exchange.completed_tokens || exchange.failed_tokens) as r(id, token) where r.id = any (v_busy);
    select coalesce(array_agg(c.id), '{}'), coalesce(array_agg(c.token), '{}'), array_agg(c.result)
      into exchange.completed_ids, exchange.completed_tokens, exchange.completed_results
    from unnest(exchange.completed_ids, exchange.completed_tokens, coalesce(exchange.completed_results, '{}')) as c(id, token, result) where not c.id = any (v_busy);
    select coalesce(array_agg(f.id), '{}'), coalesce(array_agg(f.token), '{}'), array_agg(f.error), array_agg(f.details), array_agg(f.retry_in), array_agg(f.permanent)
      into exchange.failed_ids, exchange.failed_tokens, exchange.failed_errors, exchange.failed_details, exchange.failed_retry_in, exchange.failed_permanent
    from unnest(exchange.failed_ids, exchange.failed_tokens, coalesce(exchange.failed_errors, '{}'), coalesce(exchange.failed_details, '{}'),
                coalesce(exchange.failed_retry_in, '{}'), coalesce(exchange.failed_permanent, '{}')) as f(id, token, error, details, retry_in, permanent)
    where not f.id = any (v_busy);
  end if;

  -- results of both kinds: their leases are locked in one order, together
  if cardinality(exchange.completed_ids) > 0 and cardinality(exchange.failed_ids) > 0 then
    perform hold_leases(exchange.completed_ids || exchange.failed_ids);
  end if;
  if cardinality(exchange.completed_ids) > 0 then
    perform check_results(exchange.completed_ids, exchange.completed_results);
    select c.done_ids, c.done_tokens into v_done
    from complete_jobs(exchange.completed_ids, exchange.completed_tokens, exchange.completed_results, exchange.worker_id, v_now) as c;
    if cardinality(v_done.done_ids) < cardinality(exchange.completed_ids) then
      return query
      select 'lost', c.id, c.token, null::text, null::int, null::int, null::jsonb, null::jsonb, null::int, null::text, null::text,
             null::timestamptz, null::timestamptz, null::bigint, null::bigint
      from unnest(exchange.completed_ids, exchange.completed_tokens) as c(id, token)
      where not exists (select from unnest(v_done.done_ids, v_done.done_tokens) as d(id, token) where d.id = c.id and d.token = c.token);
    end if;
  end if;

  if cardinality(exchange.failed_ids) > 0 then
    return query
    with settled as (
      select f.job_id, f.token, f.verdict
      from fail_jobs(exchange.failed_ids, exchange.failed_tokens, exchange.failed_errors, exchange.failed_details,
                     exchange.failed_retry_in, exchange.failed_permanent, exchange.worker_id, 'failed', v_now) as f
    )
    select coalesce(s.verdict, 'lost'), f.id, f.token, null::text, null::int, null::int, null::jsonb, null::jsonb, null::int, null::text, null::text,
           null::timestamptz, null::timestamptz, null::bigint, null::bigint
    from unnest(exchange.failed_ids, exchange.failed_tokens) with ordinality as f(id, token, ordinal)
    left join settled s on s.job_id = f.id and s.token = f.token
    order by f.ordinal;
  end if;

  if v_active and exchange.max > 0 then
    return query
    select 'run', c.* from claim_jobs(exchange.worker_id, exchange.types, exchange.max, v_now) as c;
  end if;

  -- last, so that the worker's row is not locked while we wait for a lease, and heartbeats go on
  select w.heartbeat_at < v_now - w.ttl / 3 into v_due from worker w where w.worker_id = exchange.worker_id;
  if v_due then
    return query
    select b.directive, b.job_id, b.token, null::text, null::int, null::int, null::jsonb, null::jsonb, null::int, null::text, null::text,
           null::timestamptz, null::timestamptz, null::bigint, null::bigint
    from beat(exchange.worker_id, null, exchange.running_ids, exchange.running_tokens, v_now) as b;
  end if;
end
$$;
comment on function fencepost.exchange(int, bigint[], int[], jsonb[], bigint[], int[], text[], jsonb[], interval[], boolean[], bigint[], int[], text[], int)
  is 'One round of a worker in one transaction: heartbeat if due, settle results, claim new work; returns directives and jobs. Raises JE003, JE006, JE010.';

-- Locks leases against their end, in id order, before they are ended in groups.
create function fencepost_private.hold_leases(p_ids bigint[])
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  perform from lease l where l.id = any (p_ids) order by l.id for update;
end
$$;
comment on function fencepost_private.hold_leases(bigint[]) is 'Locks these leases in id order, to the end of the transaction.';
--! EndIncluded jobs/exchange.sql
--! Included jobs/reclaim.sql
-- Taking work back from workers that are gone. Three small steps, called by maintain().

-- Death takes two looks: silent for half its ttl, a worker is suspected; still silent half a ttl after that, it is
-- lost. A server that was down, or a maintain() that did not run, gives every worker half a ttl to speak up.
-- Locks: the rows of silent workers, SKIP LOCKED.
create function fencepost_private.mark_lost(p_now timestamptz default fencepost_private.now())
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_lost bigint;
begin
  update worker w set suspect_at = p_now
  where w.worker_id = any (array(
    select s.worker_id from worker s
    where s.status in ('active', 'draining') and s.suspect_at is null and s.heartbeat_at < p_now - s.ttl / 2
    for update skip locked));

  with lost as (
    update worker w set status = 'lost', ended_at = p_now
    where w.worker_id = any (array(
      select s.worker_id from worker s
      where s.status in ('active', 'draining') and s.suspect_at <= p_now - s.ttl / 2 and s.heartbeat_at < p_now - s.ttl
      for update skip locked))
    returning w.*
  ), told as (
    insert into event (xid, at, tenant, kind, worker_id, data)
    select xid(), p_now, l.tenant, 'worker.lost', l.worker_id,
           jsonb_build_object('worker', l.name, 'reason', 'silent', 'last_heartbeat', l.heartbeat_at)
    from lost l
  )
  select count(*) into v_lost from lost;
  return v_lost;
end
$$;
comment on function fencepost_private.mark_lost(timestamptz) is 'Suspects silent workers, and declares lost those that stayed silent. Returns how many were lost.';

-- Takes back, at most p_limit: leases of workers that are lost or stopped (the attempt ends as lease_expired, and
-- counts: a job that kills its workers must not live for ever); leases that a live worker has not named for three
-- ttls in which it spoke (it forgot them; what nobody could say during an outage does not count); leases past their
-- deadline (timed_out).
-- A worker is closed only when no claim of it can be open (its lock was free) and a later statement finds no lease.
-- Locks: root runs and leases, both SKIP LOCKED.
create function fencepost_private.reclaim(p_limit int default 1000, p_now timestamptz default fencepost_private.now())
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_gone   int[] := array(select w.worker_id from worker w where not w.swept and w.status in ('lost', 'stopped'));
  v_quiet  int[] := array(select g from unnest(v_gone) as g where pg_try_advisory_xact_lock(lock_worker(), g));
  v_found  bigint[];
  v_left   bigint[] := left_alone('reclaim', p_now);
  v_count  bigint;
begin
  -- look without locking, lock the runs (those that somebody holds come with the next pass), then lock and look again
  v_found := array(
    select l.id from lease l left join worker w on w.worker_id = l.worker_id
    where (l.worker_id = any (v_gone)
           or l.deadline <= p_now
           or greatest(l.started_at, l.seen_at, w.returned_at) < coalesce(w.heartbeat_at, p_now) - 3 * coalesce(w.ttl, interval '30 seconds'))
      and not l.id = any (v_left)
    limit p_limit);
  if cardinality(v_found) > 0 then
    v_found := array(select f from unnest(v_found) as f except select b from unnest(busy_jobs(v_found)) as b);
  end if;
  v_count := isolated('reclaim', 'reclaim_jobs($1, $2)', v_found, p_now);

  if cardinality(v_quiet) > 0 then
    update worker w set swept = true
    where w.worker_id = any (v_quiet)
      and not exists (select from lease l where l.worker_id = any (v_quiet) and l.worker_id = w.worker_id);
  end if;
  return v_count;
end
$$;
comment on function fencepost_private.reclaim(int, timestamptz) is 'Takes back leases of gone workers, forgotten leases and overdue attempts, and closes swept workers. Returns how many.';

-- Ends the attempts of those of these leases that are to be taken back; their runs are locked. Returns how many.
-- Locks: the leases, SKIP LOCKED.
create function fencepost_private.reclaim_jobs(p_ids bigint[], p_now timestamptz)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_taken record;
begin
  with taken as materialized (
    select l.id, l.token, l.deadline <= p_now as is_overdue, l.started_at, l.deadline, w.name, w.worker_id,
           w.status in ('lost', 'stopped') as is_gone
    from lease l
    left join worker w on w.worker_id = l.worker_id
    where l.id = any (p_ids)
      and (w.status in ('lost', 'stopped')
           or l.deadline <= p_now
           or greatest(l.started_at, l.seen_at, w.returned_at) < coalesce(w.heartbeat_at, p_now) - 3 * coalesce(w.ttl, interval '30 seconds'))
    for update of l skip locked
  )
  select array_agg(t.id) filter (where t.is_overdue is not true) as ids,
         array_agg(t.token) filter (where t.is_overdue is not true) as tokens,
         array_agg(case when t.is_gone then format('worker %s (%s) is gone: its lease expired', t.name, t.worker_id)
                        else format('worker %s (%s) no longer names this job: its lease expired', t.name, t.worker_id) end)
           filter (where t.is_overdue is not true) as errors,
         array_agg(t.id) filter (where t.is_overdue) as overdue_ids,
         array_agg(t.token) filter (where t.is_overdue) as overdue_tokens,
         array_agg(format('timed out after %s', t.deadline - t.started_at)) filter (where t.is_overdue) as overdue_errors
    into v_taken
  from taken t;

  return (
    select count(*)
    from fail_jobs(v_taken.ids, v_taken.tokens, v_taken.errors, null, null, null, null, 'lease_expired', p_now)) + (
    select count(*)
    from fail_jobs(v_taken.overdue_ids, v_taken.overdue_tokens, v_taken.overdue_errors, null, null, null, null, 'timed_out', p_now));
end
$$;
comment on function fencepost_private.reclaim_jobs(bigint[], timestamptz) is 'Ends the attempts of those of these leases that are to be taken back. Returns how many.';
--! EndIncluded jobs/reclaim.sql
--! Included jobs/stop_worker.sql
-- A worker says goodbye. Jobs that it still holds are taken back by the next maintain(), as an expired lease; give
-- unstarted ones back with release_many() before.
-- Errors: JE002 (no such worker). Saying goodbye twice changes nothing.
create function fencepost.stop_worker(worker_id int)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now timestamptz := fencepost_private.now();
begin
  update worker w set status = 'stopped', ended_at = v_now
  where w.worker_id = stop_worker.worker_id and w.status in ('active', 'draining');
  if not found and not exists (select from worker w where w.worker_id = stop_worker.worker_id) then
    perform raise_error('JE002', format('worker %s does not exist', coalesce(stop_worker.worker_id::text, 'null')), format('received worker_id = %s', coalesce(stop_worker.worker_id::text, 'null')),
      'The number is what register_worker() returned.');
  end if;
end
$$;
comment on function fencepost.stop_worker(int) is 'Says that a worker process ends. Jobs that it still holds are taken back. Raises JE002.';
--! EndIncluded jobs/stop_worker.sql
--! Included jobs/cancel.sql
-- Cancels a job. One that waits ends at once ('cancelled'). One that runs is asked to stop ('cancel_requested'): its
-- worker is told, its handler's signal fires, and however the attempt then ends other than well, the job is cancelled.
-- Asking twice changes nothing.
-- Locks: the row of the place that holds the job; waits for a claim or completion in flight.
-- Errors: JE002; JE004 when it has ended or is dead-lettered (see discard).
create function fencepost.cancel(job_id bigint, reason text default null)
returns text
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now     timestamptz := fencepost_private.now();
  v_verdict text;
  v_status  text;
begin
  -- a job may move between the places while we look: look again, in new statements, until it is found or has ended
  for v_try in 1..20 loop
    select c.verdict into v_verdict from cancel_jobs(array[cancel.job_id], cancel.reason, v_now) as c;
    if found then
      return v_verdict;
    end if;
    v_status := job_status(cancel.job_id);
    exit when v_status is null or v_status not in ('pending', 'running', 'waiting');
  end loop;
  if v_status is null then
    perform raise_not_found(cancel.job_id);
  end if;
  perform raise_error('JE004', format('job %s is %s and cannot be cancelled', cancel.job_id, v_status), format('received job_id = %s', cancel.job_id),
    case v_status when 'dead_letter' then 'Use fencepost.discard() to give a dead letter up, or fencepost.replay() to try it again.'
                  else 'Only pending, running and waiting jobs can be cancelled.' end);
  return null;   -- never reached
end
$$;
comment on function fencepost.cancel(bigint, text)
  is 'Cancels a waiting job at once or asks a running one to stop; returns cancelled or cancel_requested. Raises JE002, JE004.';
--! EndIncluded jobs/cancel.sql
--! Included jobs/cancel_jobs.sql
-- Cancels jobs, set-wise: those that wait end at once; for those that run it is recorded, and their workers are told.
-- Jobs that are dead-lettered or have ended are passed over.
-- Locks: the rows of the places that hold them, in id order.
create function fencepost_private.cancel_jobs(p_ids bigint[], p_reason text, p_now timestamptz)
returns table (job_id bigint, verdict text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_xid    bigint;
  v_ended  bigint[];
  v_told   bigint;
  v_ends   task_end[];
begin
  perform lock_runs_of(p_ids);
  v_xid := xid();
  with from_ready as (
    delete from ready r where r.id = any (p_ids) returning r.id, r.lane_id, r.attempts, r.token
  ), from_delayed as (
    delete from delayed d where d.id = any (p_ids) returning d.id, d.lane_id, d.attempts, d.token
  ), from_parked as (
    delete from parked p where p.id = any (p_ids) returning p.id, p.lane_id, p.attempts, p.token
  ), from_suspended as (
    delete from suspended s where s.id = any (p_ids) returning s.id, s.lane_id, s.attempts, s.token
  ), ended as (
    select 'ready' as place, r.* from from_ready r union all select 'delayed', d.* from from_delayed d
    union all select 'parked', p.* from from_parked p union all select 'waiting', s.* from from_suspended s
  ), told as (
    insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, attempt, token, actor, data)
    select v_xid, p_now, b.tenant, 'job.cancelled', e.lane_id, e.id, b.run_id, b.task_id, e.attempts, e.token, actor(),
           case when p_reason is not null then jsonb_build_object('reason', p_reason) end
    from ended e join job b on b.id = e.id order by e.id
  ), counted as (
    insert into depth_delta (type_id, xid, ready, delayed, parked, waiting)
    select l.type_id, v_xid, -count(*) filter (where e.place = 'ready'), -count(*) filter (where e.place = 'delayed'),
           -count(*) filter (where e.place = 'parked'), -count(*) filter (where e.place = 'waiting')
    from ended e join lane l on l.lane_id = e.lane_id group by l.type_id
  )
  select array_agg(e.id), array_agg(row(b.task_id, 'cancelled', null, coalesce(p_reason, 'its job was cancelled'))::task_end) filter (where b.task_id is not null)
    into v_ended, v_ends
  from ended e join job b on b.id = e.id;

  with asked as (
    update lease l set cancel_requested_at = p_now, cancel_reason = p_reason
    where l.id = any (p_ids) and l.cancel_requested_at is null
    returning l.*
  ), told as (
    insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, attempt, token, worker_id, actor, data)
    select v_xid, p_now, a.tenant, 'job.cancel_requested', a.lane_id, a.id, a.run_id, a.task_id, a.attempts, a.token, a.worker_id, actor(),
           case when p_reason is not null then jsonb_build_object('reason', p_reason) end
    from asked a order by a.id
  )
  select count(pg_notify('fencepost', format('{"worker":%s,"cancel":%s}', h.worker_id, h.ids))) into v_told
  from (select a.worker_id, jsonb_agg(a.id) as ids from asked a group by a.worker_id, a.id % 16) as h
  where current_setting('fencepost.wake', true) is distinct from 'off'
    and length(h.ids::text) < 7900;      -- a longer list is heard with the next heartbeat

  perform jobs_ended(v_ends, p_now);
  return query
  select u.id, 'cancelled'::text from unnest(v_ended) as u(id)
  union all
  -- also those that had been asked before; not one that was claimed again while we looked
  select l.id, 'cancel_requested' from lease l where l.id = any (p_ids) and l.cancel_requested_at is not null;
end
$$;
comment on function fencepost_private.cancel_jobs(bigint[], text, timestamptz)
  is 'Cancels waiting jobs at once and asks running ones to stop; returns cancelled or cancel_requested for each.';
--! EndIncluded jobs/cancel_jobs.sql
--! Included jobs/discard.sql
-- Gives a dead letter up for good: it ends as discarded, keeps its history, and is removed like any finished job.
-- Locks: the dead letter. Errors: JE002; JE004 when the job is not dead-lettered.
create function fencepost.discard(job_id bigint, reason text default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  if discard_jobs(array[discard.job_id], discard.reason) = 0 then
    perform raise_not_dead(discard.job_id, 'discarded');
  end if;
end
$$;
comment on function fencepost.discard(bigint, text) is 'Gives a dead letter up for good. Raises JE002, JE004.';

-- The same, set-wise; jobs that are not dead-lettered are passed over. Returns how many were discarded.
create function fencepost_private.discard_jobs(p_ids bigint[], p_reason text)
returns int
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now timestamptz := fencepost_private.now();
  v_xid bigint;
  v_ids bigint[];
begin
  perform lock_runs_of(p_ids);
  v_xid := xid();
  with gone as (
    delete from dead_letter z
    using (select i.id from unnest(p_ids) as i(id) order by i.id) as given
    where z.id = given.id
    returning z.*
  ), told as (
    insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, attempt, token, actor, data)
    select v_xid, v_now, g.tenant, 'job.discarded', g.lane_id, g.id, j.run_id, j.task_id, g.attempts, g.token, actor(),
           jsonb_strip_nulls(jsonb_build_object('reason', p_reason, 'final_error', g.final_error))
    from gone g join job j on j.id = g.id order by g.id
  ), counted as (
    insert into depth_delta (type_id, xid, dead_letter)
    select l.type_id, v_xid, -count(*) from gone g join lane l on l.lane_id = g.lane_id group by l.type_id
  )
  select array_agg(g.id) into v_ids from gone g;
  perform touch_roots(array(select distinct b.run_id from job b where b.id = any (v_ids) and b.run_id is not null));
  return coalesce(cardinality(v_ids), 0);
end
$$;
comment on function fencepost_private.discard_jobs(bigint[], text) is 'Gives these dead letters up; others are passed over. Returns how many.';
--! EndIncluded jobs/discard.sql
--! Included jobs/progress.sql
-- Tells how far a running job is: any JSON. Only the latest is kept, so report when a person would care, not in a
-- tight loop. Locks: the lease, against its end. Errors: JE001, JE002, JE003 (null),
-- JE006 (larger than a payload of its type may be).
create function fencepost.progress(job_id bigint, token int, value jsonb)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
begin
  if progress.value is null then
    perform raise_error('JE003', 'progress needs a value', 'received null', 'Any JSON: 0.5, "half done", {"rows": 1200}.');
  end if;
  perform hold_lease(progress.job_id, progress.token);
  perform check_results(array[progress.job_id], array[progress.value], 'progress');
  insert into progress as p (job_id, token, value, at)
  values (progress.job_id, progress.token, progress.value, fencepost_private.now())
  on conflict (job_id) do update set token = excluded.token, value = excluded.value, at = excluded.at;
end
$$;
comment on function fencepost.progress(bigint, int, jsonb) is 'Records the latest progress of a running job. Raises JE001, JE002, JE003, JE006.';
--! EndIncluded jobs/progress.sql
--! Included jobs/release.sql
-- Gives one attempt back unstarted. Errors: JE001, JE002.
create function fencepost.release(job_id bigint, token int)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  if not exists (select from fencepost.release_many(array[release.job_id], array[release.token])) then
    perform raise_lease_lost(release.job_id, release.token);
  end if;
end
$$;
comment on function fencepost.release(bigint, int) is 'Gives an attempt back unstarted, without counting it: the job is ready at once. Raises JE001, JE002.';
--! EndIncluded jobs/release.sql
--! Included jobs/release_many.sql
-- Gives attempts back unstarted: the jobs are ready at once, for anyone, and the attempts do not count.
-- Stale pairs are passed over. Locks: the leases, in id order. Errors: JE003.
create function fencepost.release_many(job_ids bigint[], tokens int[])
returns table (job_id bigint, token int)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now   timestamptz := fencepost_private.now();
  v_xid   bigint;
  v_done  bigint[];
  v_marks int[];
  v_over  task_end[];
  v_back  bigint[];
  v_types int[];
begin
  perform check_pairs(release_many.job_ids, release_many.tokens, 'release_many');
  if coalesce(cardinality(release_many.job_ids), 0) = 0 then
    return;
  end if;
  perform lock_runs_of_leases(release_many.job_ids);
  v_xid := xid();
  with ended as (
    delete from lease l
    using (select u.id, u.token from unnest(release_many.job_ids, release_many.tokens) as u(id, token) order by u.id) as given
    where l.id = given.id and l.token = given.token
    returning l.*
  ), put_ready as (
    insert into ready (id, xid, lane_id, attempts, token, ready_at)
    select e.id, v_xid, e.lane_id, e.attempts - 1, e.token, e.ready_at from ended e where e.cancel_requested_at is null order by e.id
  ), told as (
    insert into event (xid, at, tenant, kind, outcome, lane_id, job_id, run_id, task_id, attempt, token, worker_id, ready_at, started_at, data)
    select v_xid, v_now, e.tenant,
           (case when e.cancel_requested_at is null then 'job.released' else 'job.cancelled' end)::event_kind,
           (case when e.cancel_requested_at is null then 'released' else 'cancelled' end)::attempt_outcome,
           e.lane_id, e.id, e.run_id, e.task_id, e.attempts, e.token, e.worker_id, e.ready_at, e.started_at,
           case when e.cancel_reason is not null then jsonb_build_object('reason', e.cancel_reason) end
    from ended e order by e.id
  ), counted as (
    insert into depth_delta (type_id, xid, running, ready)
    select l.type_id, v_xid, -count(*), count(*) filter (where e.cancel_requested_at is null)
    from ended e join lane l on l.lane_id = e.lane_id group by l.type_id
    returning type_id
  )
  select array_agg(e.id), array_agg(e.token), array_agg(row(e.task_id, 'cancelled', null, e.cancel_reason)::task_end) filter (where e.cancel_requested_at is not null and e.task_id is not null),
         array_agg(e.id) filter (where e.cancel_requested_at is null and e.run_id is not null),
         (select array_agg(c.type_id) from counted c)
    into v_done, v_marks, v_over, v_back, v_types
  from ended e;
  perform jobs_ended(v_over, v_now);
  if v_back is not null then
    perform park_paused(v_back);
  end if;
  perform wake(v_types);
  return query select u.id, u.token from unnest(v_done, v_marks) as u(id, token);
end
$$;
comment on function fencepost.release_many(bigint[], int[])
  is 'Gives attempts back unstarted, without counting them; returns the accepted ones. Raises JE003.';
--! EndIncluded jobs/release_many.sql
--! Included jobs/replay.sql
-- Returns a dead letter to work: it is ready at once, its attempts start again at 1, its token goes on growing.
-- Nothing else ever does. The history stays.
-- Locks: the dead letter. Errors: JE002; JE004 when the job is not dead-lettered.
create function fencepost.replay(job_id bigint)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  if replay_jobs(array[replay.job_id]) = 0 then
    perform raise_not_dead(replay.job_id, 'replayed');
  end if;
end
$$;
comment on function fencepost.replay(bigint) is 'Returns a dead letter to work, with its attempts reset. Raises JE002, JE004.';

-- The same, set-wise; jobs that are not dead-lettered are passed over, and with p_living_only so are those of runs that
-- cannot live again. Returns how many were replayed.
create function fencepost_private.replay_jobs(p_ids bigint[], p_living_only boolean default false)
returns int
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now   timestamptz := fencepost_private.now();
  v_xid   bigint;
  v_ids   bigint[];
  v_types int[];
begin
  perform lock_runs_of(p_ids);
  if p_living_only then
    p_ids := without_late_replays(p_ids);
  end if;
  v_xid := xid();
  with back as (
    delete from dead_letter z
    using (select i.id from unnest(p_ids) as i(id) order by i.id) as given
    where z.id = given.id
    returning z.*
  ), put_ready as (
    insert into ready (id, xid, lane_id, attempts, token, ready_at)
    select b.id, v_xid, b.lane_id, 0, b.token, v_now from back b order by b.id
  ), told as (
    insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, attempt, token, actor, data)
    select v_xid, v_now, b.tenant, 'job.replayed', b.lane_id, b.id, j.run_id, j.task_id, b.attempts, b.token, actor(),
           jsonb_build_object('final_error', b.final_error, 'failed_at', b.failed_at)
    from back b join job j on j.id = b.id order by b.id
  ), counted as (
    insert into depth_delta (type_id, xid, dead_letter, ready)
    select l.type_id, v_xid, -count(*), count(*) from back b join lane l on l.lane_id = b.lane_id group by l.type_id
    returning type_id
  )
  select (select array_agg(b.id) from back b), (select array_agg(c.type_id) from counted c) into v_ids, v_types;
  perform jobs_revived(v_ids, v_now);
  perform wake(v_types);
  return coalesce(cardinality(v_ids), 0);
end
$$;
comment on function fencepost_private.replay_jobs(bigint[], boolean) is 'Returns these dead letters to work; others are passed over. Returns how many.';

create function fencepost_private.raise_not_dead(p_job_id bigint, p_what text)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_status text := job_status(p_job_id);
begin
  if v_status is null then
    perform raise_not_found(p_job_id);
  end if;
  perform raise_error('JE004', format('job %s is %s and cannot be %s', p_job_id, v_status, p_what), format('received job_id = %s', p_job_id),
    format('Only dead letters can be %s: see fencepost.dead_letter.', p_what));
end
$$;
comment on function fencepost_private.raise_not_dead(bigint, text) is 'Raises JE004 (or JE002) for a job that is not a dead letter.';
--! EndIncluded jobs/replay.sql
--! Included jobs/reprioritize.sql
-- Gives a job that waits another priority. It joins the end of its new line.
-- Locks: the row of the place that holds it. Errors: JE002, JE003 (priority), JE004 when it runs or has ended.
create function fencepost.reprioritize(job_id bigint, priority int)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_now    timestamptz := fencepost_private.now();
  v_place  record;
  v_lane   int;
  v_status text;
begin
  -- lock it where it is, so that it does not move meanwhile
  for v_try in 1..20 loop
    select p.lane_id, p.attempts, p.token, p.place into v_place from lock_place(reprioritize.job_id) as p;
    exit when v_place.place is not null;
    v_status := job_status(reprioritize.job_id);
    exit when v_status is null or v_status not in ('pending', 'waiting');
  end loop;
  if v_place.place is null and v_status is null then
    perform raise_not_found(reprioritize.job_id);
  elsif v_place.place is null then
    perform raise_error('JE004', format('job %s is %s: its priority cannot be changed', reprioritize.job_id, v_status), format('received job_id = %s', reprioritize.job_id),
      'Only jobs that wait can be moved.');
  end if;

  select e.lane_id into v_lane
  from lane l join job_type t on t.type_id = l.type_id
  cross join lateral ensure_lane(t.type, reprioritize.priority) as e
  where l.lane_id = v_place.lane_id;
  if v_lane = v_place.lane_id then
    return;
  end if;

  -- a ready row is never updated: it is deleted and inserted under our transaction, so that no watermark passes it
  with moved as (
    delete from ready r where r.id = reprioritize.job_id returning r.*
  )
  insert into ready (id, xid, lane_id, attempts, token, ready_at)
  select m.id, xid(), v_lane, m.attempts, m.token, m.ready_at from moved m;
  update delayed d set lane_id = v_lane where d.id = reprioritize.job_id;
  update parked p set lane_id = v_lane where p.id = reprioritize.job_id;
  update suspended s set lane_id = v_lane where s.id = reprioritize.job_id;

  insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, attempt, token, actor, data)
  select xid(), v_now, b.tenant, 'job.reprioritized', v_lane, b.id, b.run_id, b.task_id, v_place.attempts, v_place.token, actor(),
         jsonb_build_object('priority', reprioritize.priority)
  from job b where b.id = reprioritize.job_id;
  perform wake(array(select l.type_id from lane l where l.lane_id = v_lane));
end
$$;
comment on function fencepost.reprioritize(bigint, int) is 'Gives a waiting job another priority, at the end of its new line. Raises JE002, JE003, JE004.';

-- Locks the row of the waiting place that holds a job, if one does.
create function fencepost_private.lock_place(p_job_id bigint, out place text, out lane_id int, out attempts int, out token int)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  select 'ready', r.lane_id, r.attempts, r.token into place, lane_id, attempts, token from ready r where r.id = p_job_id for update;
  if found then return; end if;
  select 'delayed', d.lane_id, d.attempts, d.token into place, lane_id, attempts, token from delayed d where d.id = p_job_id for update;
  if found then return; end if;
  select 'suspended', s.lane_id, s.attempts, s.token into place, lane_id, attempts, token from suspended s where s.id = p_job_id for update;
  if found then return; end if;
  select 'parked', p.lane_id, p.attempts, p.token into place, lane_id, attempts, token from parked p where p.id = p_job_id for update;
end
$$;
comment on function fencepost_private.lock_place(bigint) is 'Locks the row of ready, delayed, suspended or parked that holds a job, and returns it; nulls when none does.';
--! EndIncluded jobs/reprioritize.sql
--! Included jobs/resume.sql
-- Brings a suspended job back: it is ready at once. `data`, if given, is recorded as the step named by waits_for
-- (or "resume"), where the next attempt finds it; a step that is recorded already stays as it is.
-- Locks: the row of suspended. Errors: JE002; JE004 when it is not suspended.
create function fencepost.resume(job_id bigint, data jsonb default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_status text;
begin
  if resume_jobs(array[resume.job_id], resume.data, fencepost_private.now()) = 0 then
    v_status := job_status(resume.job_id);
    if v_status is null then
      perform raise_not_found(resume.job_id);
    end if;
    perform raise_error('JE004', format('job %s is %s, not suspended', resume.job_id, v_status), format('received job_id = %s', resume.job_id),
      'Only jobs with status waiting can be resumed.');
  end if;
end
$$;
comment on function fencepost.resume(bigint, jsonb) is 'Brings a suspended job back to work, with data for its next attempt. Raises JE002, JE004.';

-- The same, set-wise; jobs that are not suspended are passed over. Returns how many came back.
create function fencepost_private.resume_jobs(p_ids bigint[], p_data jsonb, p_now timestamptz)
returns int
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_xid   bigint;
  v_ids   bigint[];
  v_types int[];
begin
  perform lock_runs_of(p_ids);
  v_xid := xid();
  with back as (
    delete from suspended s
    using (select i.id from unnest(p_ids) as i(id) order by i.id) as given
    where s.id = given.id
    returning s.*
  ), put_ready as (
    insert into ready (id, xid, lane_id, attempts, token, ready_at)
    select b.id, v_xid, b.lane_id, b.attempts, b.token, p_now from back b order by b.id
  ), noted as (
    insert into step (job_id, name, value, token, at)
    select b.id, coalesce(b.waits_for, 'resume'), p_data, b.token, p_now from back b where p_data is not null
    on conflict on constraint step_pkey do nothing
  ), told as (
    insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, attempt, token, actor, data)
    select v_xid, p_now, j.tenant, 'job.resumed', b.lane_id, b.id, j.run_id, j.task_id, b.attempts, b.token, actor(), p_data
    from back b join job j on j.id = b.id order by b.id
  ), counted as (
    insert into depth_delta (type_id, xid, waiting, ready)
    select l.type_id, v_xid, -count(*), count(*) from back b join lane l on l.lane_id = b.lane_id group by l.type_id
    returning type_id
  )
  select (select array_agg(b.id) from back b), (select array_agg(c.type_id) from counted c) into v_ids, v_types;
  perform park_paused(v_ids);
  perform wake(v_types);
  return coalesce(cardinality(v_ids), 0);
end
$$;
comment on function fencepost_private.resume_jobs(bigint[], jsonb, timestamptz) is 'Brings these suspended jobs back to work; others are passed over. Returns how many.';

-- Resumes those whose time has come, at most p_limit. A step of maintain().
-- Locks: the root runs and then the rows of what it resumes, both SKIP LOCKED: a transaction that holds one of them does
-- not stop the housekeeping.
create function fencepost_private.resume_due(p_limit int default 1000, p_now timestamptz default fencepost_private.now())
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_left bigint[] := left_alone('resume_due', p_now);
  v_due  bigint[] := array(select s.id from suspended s where s.wake_at <= p_now and not s.id = any (v_left) order by s.wake_at limit p_limit);
begin
  if cardinality(v_due) = 0 then
    return 0;
  end if;
  v_due := array(select d from unnest(v_due) as d except select b from unnest(busy_waiting_jobs(v_due)) as b);
  v_due := array(select s.id from suspended s where s.id = any (v_due) and s.wake_at <= p_now order by s.id for update skip locked);
  return isolated('resume_due', 'resume_jobs($1, null, $2)', v_due, p_now);
end
$$;
comment on function fencepost_private.resume_due(int, timestamptz) is 'Resumes up to p_limit suspended jobs whose time has come. Returns how many.';
--! EndIncluded jobs/resume.sql
--! Included jobs/step.sql
-- Records a checkpoint of a running job, once: the first value stays, and later calls get it back. A retried attempt
-- so skips what an earlier one has done.
-- Locks: the lease is held to the end of the transaction, so that a fenced attempt records nothing.
-- Errors: JE001, JE002, JE003 (name), JE006 (value larger than a payload of its type may be).
create function fencepost.step(job_id bigint, token int, name text, value jsonb default null)
returns jsonb
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_value jsonb;
begin
  if step.name is null or length(step.name) not between 1 and 200 then
    perform raise_error('JE003', 'a step needs a name of 1 to 200 characters', format('received %s', coalesce(left(quote_literal(step.name), 100), 'null')), 'The name is unique in its job.');
  end if;
  perform hold_lease(step.job_id, step.token);
  perform check_results(array[step.job_id], array[step.value], 'step');
  insert into step (job_id, name, value, token, at)
  values (step.job_id, step.name, step.value, step.token, fencepost_private.now())
  on conflict on constraint step_pkey do nothing;
  select s.value into v_value from step s where s.job_id = step.job_id and s.name = step.name;
  return v_value;
end
$$;
comment on function fencepost.step(bigint, int, text, jsonb) is 'Records a checkpoint of a running job once and returns what is recorded. Raises JE001, JE002, JE003, JE006.';

-- Locks the lease against its end, until commit; heartbeats and requests to cancel do not wait for it.
-- Errors: JE001, JE002.
create function fencepost_private.hold_lease(p_job_id bigint, p_token int)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
begin
  perform from lease l where l.id = p_job_id and l.token = p_token for key share;
  if not found then
    perform raise_lease_lost(p_job_id, p_token);
  end if;
end
$$;
comment on function fencepost_private.hold_lease(bigint, int) is 'Holds a lease to the end of the transaction, against its end alone. Raises JE001, JE002.';
--! EndIncluded jobs/step.sql
--! Included jobs/suspend.sql
-- A handler steps aside to wait: the job leaves its worker, holds no lease and no slot, and comes back under a new
-- token, at wake_at (or after delay) or when resume() is called, whichever is first. The attempt does not count.
--   waits_for  a name for what it waits for; resume() stores its data as the step of that name
-- Locks: the lease. Errors: JE001, JE002, JE003, JE004 (the job is being cancelled).
create function fencepost.suspend(job_id bigint, token int, wake_at timestamptz default null, delay interval default null, waits_for text default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_now    timestamptz := fencepost_private.now();
  v_wake   timestamptz;
  v_xid    bigint;
  v_types  int[];
begin
  perform check_job_options(suspend.wake_at, suspend.delay, null, null, null, null, null, 'suspend: ');
  v_wake := coalesce(suspend.wake_at, v_now + suspend.delay);
  if length(suspend.waits_for) not between 1 and 200 then
    perform raise_error('JE003', 'waits_for must have 1 to 200 characters', format('received %s characters', length(suspend.waits_for)),
      'It becomes the name of a step, which resume() records.');
  end if;
  perform lock_runs_of_leases(array[suspend.job_id]);
  v_xid := xid();
  with ended as (
    delete from lease l where l.id = suspend.job_id and l.token = suspend.token and l.cancel_requested_at is null returning l.*
  ), put as (
    insert into suspended (id, lane_id, attempts, token, suspended_at, wake_at, waits_for)
    select e.id, e.lane_id, e.attempts - 1, e.token, v_now, v_wake, suspend.waits_for from ended e
  ), told as (
    insert into event (xid, at, tenant, kind, outcome, lane_id, job_id, run_id, task_id, attempt, token, worker_id, ready_at, started_at, data)
    select v_xid, v_now, e.tenant, 'job.suspended', 'suspended', e.lane_id, e.id, e.run_id, e.task_id, e.attempts, e.token, e.worker_id, e.ready_at, e.started_at,
           jsonb_strip_nulls(jsonb_build_object('wake_at', v_wake, 'waits_for', suspend.waits_for))
    from ended e
  ), counted as (
    insert into depth_delta (type_id, xid, running, waiting)
    select l.type_id, v_xid, -1, 1 from ended e join lane l on l.lane_id = e.lane_id
    returning type_id
  )
  select array_agg(c.type_id) into v_types from counted c;
  if v_types is null then
    if exists (select from lease l where l.id = suspend.job_id and l.token = suspend.token) then
      perform raise_error('JE004', format('job %s is being cancelled and cannot be suspended', suspend.job_id), format('received job_id = %s', suspend.job_id),
        'Fail the attempt: the job then ends as cancelled.');
    end if;
    perform raise_lease_lost(suspend.job_id, suspend.token);
  end if;
  perform wake_limited(v_types);
end
$$;
comment on function fencepost.suspend(bigint, int, timestamptz, interval, text)
  is 'Takes a running job off its worker until a time or resume(); the attempt does not count. Raises JE001, JE002, JE003, JE004.';
--! EndIncluded jobs/suspend.sql

-- Workflows: definitions, runs, what moves them
--! Included workflows/lock_runs.sql
-- Whoever moves a job of a run holds the run first: the global order is run, task, job. The engine of jobs calls these
-- before it locks any job, set-wise. One lock, that of the root run, serves a whole family of child runs, so parents
-- and children cannot deadlock. Who changes anything under it says so by touch_roots.
--
-- Why the planner's switches stand in these heads, and in all of this folder: see advance.sql, "Plans".

-- Locks the root runs of these jobs in id order.
create function fencepost_private.lock_runs_of(p_job_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  perform lock_roots(array(select distinct b.run_id from unnest(p_job_ids) as i(id) join job b on b.id = i.id where b.run_id is not null));
end
$$;
comment on function fencepost_private.lock_runs_of(bigint[]) is 'Locks the root runs of these jobs in id order; waits.';

-- The same for jobs that are leased, from their leases, at a third of the cost.
create function fencepost_private.lock_runs_of_leases(p_job_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_runs bigint[] := array(select distinct l.run_id from lease l where l.id = any (p_job_ids) and l.run_id is not null);
begin
  if cardinality(v_runs) > 0 then
    perform lock_roots(v_runs);
  end if;
end
$$;
comment on function fencepost_private.lock_runs_of_leases(bigint[]) is 'Locks the root runs of these leased jobs in id order; waits.';

-- The roots of these runs, in id order: waits for whoever holds one.
create function fencepost_private.lock_roots(p_run_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
begin
  if cardinality(p_run_ids) > 0 then
    perform from run r
    where r.run_id = any (array(select distinct c.root_run_id from run c where c.run_id = any (p_run_ids)))
    order by r.run_id
    for no key update;
  end if;
end
$$;
comment on function fencepost_private.lock_roots(bigint[]) is 'Locks the roots of these runs in id order; waits.';

-- A family has changed: its root's row gets a new version. Whoever locks that row by an older snapshot (REPEATABLE READ
-- or SERIALIZABLE) is then told 40001, do it again, instead of deciding by what was true before. So every change under
-- the lock ends here: settle_runs calls this for all that changes numbers, whatever changes none calls it by itself.
create function fencepost_private.touch_roots(p_run_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
begin
  update run r set root_run_id = r.root_run_id
  where r.run_id = any (array(select distinct c.root_run_id from run c where c.run_id = any (p_run_ids)));
end
$$;
comment on function fencepost_private.touch_roots(bigint[]) is 'Tells whoever locks the roots of these runs by an older snapshot that something has changed (40001).';

-- An exchange never waits for a run: of these leased jobs, those whose root run is locked by somebody else. The others' roots are locked.
create function fencepost_private.busy_jobs(p_job_ids bigint[]) returns bigint[]
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_roots bigint[] := array(
    select distinct r.root_run_id
    from (select l.run_id from lease l where l.id = any (p_job_ids) and l.run_id is not null) as l
    cross join lateral (select r.root_run_id from run r where r.run_id = l.run_id offset 0) as r);
begin
  if cardinality(v_roots) = 0 then
    return '{}'::bigint[];
  end if;
  return held_jobs(p_job_ids, v_roots);
end
$$;
comment on function fencepost_private.busy_jobs(bigint[]) is 'Locks the root runs of these leased jobs without waiting and returns the jobs whose run is held by somebody else.';

-- The same for jobs that hold no lease.
create function fencepost_private.busy_waiting_jobs(p_job_ids bigint[]) returns bigint[]
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  return held_jobs(p_job_ids, array(select distinct r.root_run_id from unnest(p_job_ids) as i(id) join job b on b.id = i.id join run r on r.run_id = b.run_id));
end
$$;
comment on function fencepost_private.busy_waiting_jobs(bigint[]) is 'Locks the root runs of these jobs without waiting and returns the jobs whose run is held by somebody else.';

-- Locks these root runs, but for those that somebody else holds: the jobs among these that are of them are returned. Its
-- callers have set the other switches.
create function fencepost_private.held_jobs(p_job_ids bigint[], p_root_ids bigint[]) returns bigint[]
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_got bigint[] := array(select r.run_id from run r where r.run_id = any (p_root_ids) order by r.run_id for no key update skip locked);
begin
  if cardinality(v_got) = cardinality(p_root_ids) then
    return '{}'::bigint[];
  end if;
  return array(
    select b.id from unnest(p_job_ids) as i(id) join job b on b.id = i.id join run r on r.run_id = b.run_id where not r.root_run_id = any (v_got));
end
$$;
comment on function fencepost_private.held_jobs(bigint[], bigint[]) is 'Locks these root runs without waiting and returns those of these jobs whose root somebody else holds.';
--! EndIncluded workflows/lock_runs.sql
--! Included workflows/park.sql
-- Jobs of runs that are held: while their run is paused, a gate stands before their task, or their map is full.

-- Parks these jobs where they are items of maps that limit how many run at once.
create function fencepost_private.park_items(p_job_ids bigint[], p_map_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v record;
begin
  for v in
    select m.task_id, array_agg(t.job_id) as jobs
    from unnest(p_map_ids) as i(task_id)
    join task m on m.task_id = i.task_id
    join run r on r.run_id = m.run_id
    join workflow_task d on d.version_id = r.version_id and d.task_no = m.task_no and d.max_parallel is not null
    join task t on t.parent_task_id = m.task_id and t.job_id = any (p_job_ids)
    group by m.task_id order by m.task_id
  loop
    perform park_jobs(v.jobs, map_place(v.task_id));
  end loop;
end
$$;
comment on function fencepost_private.park_items(bigint[], bigint[]) is 'Parks revived items of maps with max_parallel, until there is room.';

-- A job of a paused run that became ready or delayed waits, parked, until the run is resumed. Who pauses the run later
-- must see where its jobs are by then.
create function fencepost_private.park_paused(p_job_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_runs bigint[] := array(select distinct b.run_id from job b where b.id = any (p_job_ids) and b.run_id is not null);
begin
  if cardinality(v_runs) > 0 then
    perform touch_roots(v_runs);
    perform park_jobs(array(select b.id from job b join run r on r.run_id = b.run_id where b.id = any (p_job_ids) and r.paused_at is not null), 'run');
  end if;
end
$$;
comment on function fencepost_private.park_paused(bigint[]) is 'Parks those of these jobs whose run is paused.';

-- Moves jobs from ready and delayed to parked. One that runs, or is claimed while we look, stays. Returns how many.
create function fencepost_private.park_jobs(p_job_ids bigint[], p_for text) returns int
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_moved int;
  v_count int := 0;
begin
  -- one may move between the two places while we look: look again, in a new statement
  for v_try in 1..20 loop
    exit when not exists (select from ready r where r.id = any (p_job_ids)) and not exists (select from delayed d where d.id = any (p_job_ids));
    with from_ready as (
      delete from ready r where r.id = any (p_job_ids) returning r.id, r.lane_id, r.attempts, r.token, null::timestamptz as due_at
    ), from_delayed as (
      delete from delayed d where d.id = any (p_job_ids) returning d.id, d.lane_id, d.attempts, d.token, d.available_at
    ), moved as (
      select true as was_ready, r.* from from_ready r union all select false, d.* from from_delayed d
    ), put as (
      insert into parked (id, lane_id, attempts, token, parked_at, waits_for, due_at)
      select m.id, m.lane_id, m.attempts, m.token, fencepost_private.now(), p_for, m.due_at from moved m
    ), counted as (
      insert into depth_delta (type_id, xid, ready, delayed, parked)
      select l.type_id, xid(), -count(*) filter (where m.was_ready), -count(*) filter (where not m.was_ready), count(*)
      from moved m join lane l on l.lane_id = m.lane_id group by l.type_id
    )
    select count(*) into v_moved from moved;
    v_count := v_count + v_moved;
  end loop;
  return v_count;
end
$$;
comment on function fencepost_private.park_jobs(bigint[], text) is 'Moves jobs from ready and delayed to parked; returns how many.';

-- Moves parked jobs back to ready and wakes who sleeps for them; those whose time has not come go back to delayed, for
-- what is left of their wait. Returns how many.
create function fencepost_private.unpark_jobs(p_job_ids bigint[]) returns int
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_now   timestamptz := fencepost_private.now();
  v_types int[];
  v_count int;
begin
  if cardinality(p_job_ids) = 0 then
    return 0;
  end if;
  with moved as (
    delete from parked p where p.id = any (p_job_ids) returning p.*, p.due_at > v_now as is_early
  ), made_ready as (
    insert into ready (id, xid, lane_id, attempts, token, ready_at)
    select m.id, xid(), m.lane_id, m.attempts, m.token, v_now from moved m where m.is_early is not true order by m.id
  ), made_delayed as (
    insert into delayed (id, available_at, lane_id, attempts, token)
    select m.id, m.due_at, m.lane_id, m.attempts, m.token from moved m where m.is_early
  ), counted as (
    insert into depth_delta (type_id, xid, parked, ready, delayed)
    select l.type_id, xid(), -count(*), count(*) filter (where m.is_early is not true), count(*) filter (where m.is_early)
    from moved m join lane l on l.lane_id = m.lane_id group by l.type_id
    returning type_id
  )
  select (select count(*) from moved), (select array_agg(c.type_id) from counted c) into v_count, v_types;
  perform wake(v_types);
  return v_count;
end
$$;
comment on function fencepost_private.unpark_jobs(bigint[]) is 'Moves parked jobs back to ready, or to delayed where their time has not come; returns how many.';
--! EndIncluded workflows/park.sql
--! Included workflows/late.sql
-- What cannot live again, because its run or one around it was cancelled or has begun to undo what it did.

-- Those of these tasks that cannot; run_id says which run it is that forbids it. An undoing can in a run that undoes.
create function fencepost_private.late_tasks(p_task_ids bigint[])
returns table (task_id bigint, run_id bigint, state text)
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
begin
  return query
  with recursive around as (
    select t.task_id, t.kind = 'compensation' as is_undoing, r.run_id, r.parent_task_id, r.cancelled_at is not null as cancelled, r.compensating_at is not null as compensating
    from unnest(p_task_ids) as i(id)
    cross join lateral (select t.* from task t where t.task_id = i.id offset 0) as t
    cross join lateral (select r.* from run r where r.run_id = t.run_id offset 0) as r
    union
    select a.task_id, a.is_undoing, r.run_id, r.parent_task_id, r.cancelled_at is not null and not a.is_undoing, r.compensating_at is not null
    from around a
    cross join lateral (select t.run_id from task t where t.task_id = a.parent_task_id offset 0) as t
    cross join lateral (select r.* from run r where r.run_id = t.run_id offset 0) as r
  )
  select a.task_id, a.run_id, case when a.cancelled then 'cancelled' else 'being compensated' end
  from around a where a.cancelled or a.compensating and not a.is_undoing;
end
$$;
comment on function fencepost_private.late_tasks(bigint[]) is 'Those of these tasks that cannot live again, because their run or one around it is cancelled or being compensated.';

-- Raises JE004 when one of these tasks cannot live again.
create function fencepost_private.refuse_late(p_task_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v record;
begin
  select l.* into v from late_tasks(p_task_ids) as l limit 1;
  if found then
    perform raise_error('JE004', format('run %s is %s: task %s cannot be replayed', v.run_id, v.state, v.task_id), format('received task %s, or its job', v.task_id),
      'Start a new run with fencepost.restart_run().');
  end if;
end
$$;
comment on function fencepost_private.refuse_late(bigint[]) is 'Raises JE004 for a task whose run, or a run around it, is cancelled or being compensated.';

-- The same by jobs: those that cannot be replayed.
create function fencepost_private.late_replays(p_job_ids bigint[])
returns table (job_id bigint)
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  return query
  select distinct t.job_id
  from late_tasks(array(select b.task_id from job b where b.id = any (p_job_ids) and b.task_id is not null)) as l
  cross join lateral (select t.job_id from task t where t.task_id = l.task_id offset 0) as t;
end
$$;
comment on function fencepost_private.late_replays(bigint[]) is 'Those of these jobs that cannot be replayed, because their run or one around it is cancelled or being compensated.';

-- Those of these jobs that can be replayed, as far as their runs go, in id order.
create function fencepost_private.without_late_replays(p_job_ids bigint[])
returns bigint[]
language sql
volatile
set search_path = fencepost_private, pg_temp
as $$
  select array(select i from unnest(p_job_ids) as i except select l.job_id from late_replays(p_job_ids) as l order by 1)
$$;
comment on function fencepost_private.without_late_replays(bigint[]) is 'Those of these jobs that can be replayed, as far as their runs go.';
--! EndIncluded workflows/late.sql
--! Included workflows/revive.sql
-- What lives again: failed tasks, the maps and the runs around them. A task whose job is dead-lettered goes on with that
-- job; one that never had a job, or waits for something, begins anew.

-- Jobs that came back from the dead: their tasks are queued again. Items wait, parked, for room in their map.
-- Errors: JE004 when the run, or one around it, was cancelled or has begun to undo what it did.
create function fencepost_private.jobs_revived(p_job_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_tasks bigint[] := array(select b.task_id from job b where b.id = any (p_job_ids) and b.task_id is not null);
  v_maps  bigint[];
begin
  if cardinality(v_tasks) > 0 then
    perform refuse_late(v_tasks);
    v_maps := tasks_revived(v_tasks, 'queued', p_now);
    perform items_revived(p_job_ids, v_maps, p_now);
  end if;
end
$$;
comment on function fencepost_private.jobs_revived(bigint[], timestamptz) is 'Called by replay with the jobs that live again: their tasks, maps and runs live again too. Raises JE004.';

-- Begins failed tasks anew: conditions, payloads and times are read again, approvals asked for again, and so are gates that
-- had failed their task. An item goes back to its map with the payload that it had; an undoing is next again,
-- and stays one that had begun.
create function fencepost_private.start_anew(p_task_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_gates bigint[] := array(select failing_gate(t.task_id, t.finished_at) from task t where t.task_id = any (p_task_ids));
  v_maps  bigint[];
  v_jobs  bigint[];
  v_more  record;
begin
  update task t
  set job_id = null, output = null, ready_at = case when t.kind = 'compensation' then t.ready_at end, unmet = p.unmet, skipped_parents = p.skipped
  from task old
  join run r on r.run_id = old.run_id
  cross join lateral (
    select (count(*) filter (where not o.released))::int as unmet, (count(*) filter (where o.status = 'skipped'))::int as skipped
    from workflow_edge e join task o on o.run_id = r.run_id and o.task_no = e.parent_no and o.item is null
    where e.version_id = r.version_id and e.child_no = old.task_no and old.item is null
  ) as p
  where old.task_id = any (p_task_ids) and t.task_id = any (array[old.task_id]);
  v_maps := tasks_revived(p_task_ids, 'pending', p_now);
  perform fencepost.request_approval(a.task_id, a.reason, a.expires_at - a.requested_at) from approval a where a.approval_id = any (v_gates) order by a.task_id;
  perform advance(null, p_task_ids, null, p_now);

  select q.ends, q.deltas into v_more
  from queue_tasks(array(
    select row(t.task_id, t.run_id, t.task_no, 'item', r.tenant, d.type, coalesce(d.priority, r.priority, 5), d.max_attempts, d.timeout, t.input,
               false, null, null, null, null, null, null, null, null, null)::due_task
    from task t
    join run r on r.run_id = t.run_id
    join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
    where t.task_id = any (p_task_ids) and t.kind = 'item'
    order by t.task_id), p_now) as q;
  v_jobs := array(select t.job_id from task t where t.task_id = any (p_task_ids) and t.kind = 'item' and t.status = 'queued');
  perform advance(v_more.ends, null, v_more.deltas, p_now);
  perform items_revived(v_jobs, v_maps, p_now);

  select u.ends, u.deltas into v_more
  from undo_runs(array(select distinct t.run_id from task t where t.task_id = any (p_task_ids) and t.kind = 'compensation'), p_now) as u;
  perform advance(v_more.ends, null, v_more.deltas, p_now);
end
$$;
comment on function fencepost_private.start_anew(bigint[], timestamptz) is 'Begins failed tasks anew; their maps and runs live again too.';

-- The gate whose rejection or expiry failed a task; null when it failed otherwise.
create function fencepost_private.failing_gate(p_task_id bigint, p_failed_at timestamptz)
returns bigint
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select a.approval_id from approval a
  where a.task_id = p_task_id and a.is_gate and a.status in ('rejected', 'expired') and a.decided_at = p_failed_at
$$;
comment on function fencepost_private.failing_gate(bigint, timestamptz) is 'The gate that failed a task, if one did.';

-- Tasks that failed are queued or pending again; their maps, runs and the runs around those live again. Returns the maps.
create function fencepost_private.tasks_revived(p_task_ids bigint[], p_as fencepost_private.task_status, p_now timestamptz)
returns bigint[]
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_deltas run_delta[];
  v_maps   bigint[];
begin
  with back as (
    update task t set status = p_as, error = null, finished_at = null
    where t.task_id = any (p_task_ids) and (t.status = 'failed' or t.kind = 'compensation' and t.status = 'cancelled')
    returning t.run_id, t.kind, t.parent_task_id, t.released, t.kind not in ('item', 'compensation') as counts
  ), maps as (
    update task m
    set items_open = m.items_open + n.n, items_failed = m.items_failed - n.n, status = 'waiting', error = null, finished_at = null
    from (select b.parent_task_id, count(*)::int as n from back b where b.kind = 'item' group by b.parent_task_id) as n,
         task before
    where m.task_id = n.parent_task_id and before.task_id = m.task_id
    returning m.task_id, m.run_id, m.released, before.status as was
  )
  select coalesce(array_agg(d.delta), '{}'), array(select m.task_id from maps m order by m.task_id) into v_deltas, v_maps
  from (
    select row(b.run_id, count(*) filter (where b.counts and p_as = 'pending'), count(*) filter (where p_as = 'queued'), 0,
               -count(*) filter (where b.counts and b.released), -count(*) filter (where b.counts and not b.released), 0,
               0, -count(*) filter (where b.kind = 'compensation'))::run_delta as delta
    from back b group by b.run_id
    union all
    select row(m.run_id, 0, 0, 1, case when m.released then -1 else 0 end, case when m.released then 0 else -1 end, 0, 0, 0)::run_delta from maps m where m.was = 'failed'
  ) as d;
  if cardinality(v_deltas) > 0 then
    perform revive_parents(array(select distinct d.run_id from unnest(v_deltas) as d), p_now);
    perform advance(null, null, v_deltas, p_now);
  end if;
  return v_maps;
end
$$;
comment on function fencepost_private.tasks_revived(bigint[], fencepost_private.task_status, timestamptz) is 'Brings failed tasks, and the runs around them, back to life; returns the maps of items among them.';

-- Of these jobs, which are ready, items wait for room in their map, and all of them while their run is paused.
create function fencepost_private.items_revived(p_job_ids bigint[], p_map_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_more record;
begin
  perform park_items(p_job_ids, p_map_ids), park_paused(p_job_ids);
  select i.ends, i.deltas into v_more from start_items(p_map_ids, p_now) as i;
  perform advance(v_more.ends, null, v_more.deltas, p_now);
end
$$;
comment on function fencepost_private.items_revived(bigint[], bigint[], timestamptz) is 'Parks jobs that live again where their map is full or their run paused.';

-- A child run that lives again brings its parent task back from failed to waiting, and so on outwards.
create function fencepost_private.revive_parents(p_run_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_deltas run_delta[];
begin
  with back as (
    update task t set status = 'waiting', error = null, finished_at = null
    from run r
    where r.run_id = any (p_run_ids) and t.task_id = r.parent_task_id and t.status = 'failed'
      and not exists (select from run o where o.run_id = t.run_id and (o.cancelled_at is not null or o.compensating_at is not null))
    returning t.run_id, t.released
  )
  select coalesce(array_agg(row(b.run_id, 0, 0, 1, case when b.released then -1 else 0 end, case when b.released then 0 else -1 end, 0, 0, 0)::run_delta), '{}') into v_deltas from back b;
  if cardinality(v_deltas) > 0 then
    perform revive_parents(array(select distinct d.run_id from unnest(v_deltas) as d), p_now);
    perform advance(null, null, v_deltas, p_now);
  end if;
end
$$;
comment on function fencepost_private.revive_parents(bigint[], timestamptz) is 'Brings tasks whose child run lives again back to waiting.';
--! EndIncluded workflows/revive.sql
--! Included workflows/expressions.sql
-- What expressions of a definition see, and how they are read. All are PostgreSQL's own SQL/JSON paths over
-- {"input": …, "tasks": {name: output}, "errors": {name: error}, "run": {…}}, for items of a map also "item", "index".

-- The context of the expressions of one of a run's tasks. With p_names only the outputs of those tasks; null gives those
-- of all that come before it, which have ended: what else may have ended by now is chance, and not seen.
create function fencepost_private.run_context(p_run_id bigint, p_task_no int, p_names text[])
returns jsonb
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_run     record;
  v_outputs jsonb := '{}'::jsonb;
  v_errors  jsonb := '{}'::jsonb;
begin
  select r.version_id, r.input, jsonb_build_object('id', r.run_id, 'workflow', w.name, 'tags', to_jsonb(r.tags), 'started_at', r.created_at) as run into v_run
  from run r cross join lateral (select w.name from workflow w where w.workflow_id = r.workflow_id offset 0) as w
  where r.run_id = p_run_id;
  if p_names is null or cardinality(p_names) > 0 then
    with recursive before as (
      select e.parent_no as task_no from workflow_edge e where p_names is null and e.version_id = v_run.version_id and e.child_no = p_task_no
      union
      select e.parent_no from before b cross join lateral (select e.parent_no from workflow_edge e where e.version_id = v_run.version_id and e.child_no = b.task_no offset 0) as e
    )
    select coalesce(jsonb_object_agg(d.name, coalesce(t.output, 'null')) filter (where t.status in ('completed', 'failed')), '{}'),
           coalesce(jsonb_object_agg(d.name, t.error) filter (where t.status = 'failed'), '{}')
      into v_outputs, v_errors
    from (
      select d.name, d.task_no
      from unnest(p_names) as n(name)
      cross join lateral (select d.name, d.task_no from workflow_task d where d.name = n.name and d.version_id = v_run.version_id offset 0) as d
      union all
      select d.name, d.task_no
      from before b
      cross join lateral (select d.name, d.task_no from workflow_task d where d.version_id = v_run.version_id and d.task_no = b.task_no offset 0) as d
    ) as d
    cross join lateral (select t.status, t.output, t.error from task t where t.run_id = p_run_id and t.task_no = d.task_no and t.item is null offset 0) as t;
  end if;
  return jsonb_build_object('input', v_run.input, 'run', v_run.run, 'tasks', v_outputs, 'errors', v_errors);
end
$$;
comment on function fencepost_private.run_context(bigint, int, text[]) is 'What the expressions of a task of a run see: the outputs of the named tasks, or of all that come before it.';

-- Whether a path is a predicate, which is true, false or unknown (null) also where there is nothing to read. A path that
-- is none finds nothing there, or something else, or cannot be evaluated.
create function fencepost_private.is_predicate(p_path jsonpath)
returns boolean
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return jsonb_path_query_array_tz('{}', p_path) in ('[true]', '[false]', '[null]');
exception when others then
  return false;
end
$$;
comment on function fencepost_private.is_predicate(jsonpath) is 'Whether a path is a predicate.';

-- Decides a condition. One that is unknown, because it compares a text with a number for instance, or that cannot be
-- evaluated, is neither true nor false: then `problem` says so, and what it has read. No path stops whoever moves its run.
create function fencepost_private.decided(p_path jsonpath, p_context jsonb, out holds boolean, out problem text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_path is null then
    return;
  end if;
  holds := jsonb_path_match_tz(p_context, p_path);
  if holds is null then
    problem := format('its condition is neither true nor false: %s where %s', p_path, what_was_read(p_path, p_context));
  end if;
exception when others then
  problem := format('its condition is neither true nor false: %s where %s (%s)', p_path, what_was_read(p_path, p_context), sqlerrm);
end
$$;
comment on function fencepost_private.decided(jsonpath, jsonb) is 'Whether a condition is true in a context, or what keeps it from being true or false.';

create function fencepost_private.described(p_value jsonb)
returns text
language sql
immutable
return coalesce(fencepost_private.clipped(fencepost_private.shown(p_value)::text, 200), 'nothing');
comment on function fencepost_private.described(jsonb) is 'A value as a message shows it.';

-- The values of a context that a path starts from, for people: $."input"."amount" is "5000".
create function fencepost_private.what_was_read(p_path jsonpath, p_context jsonb)
returns text
language sql
stable
set search_path = fencepost_private, pg_temp
as $$
  select coalesce(string_agg(format('%s is %s', r.path, described(nullif(jsonb_path_query_array_tz(p_context, r.path::jsonpath, silent => true), '[]') -> 0)), ', ' order by r.place), 'nothing is read')
  from (
    select m[1] as path, min(place) as place
    from regexp_matches(p_path::text, '(\$(?:\."(?:[^"\\]|\\.)*")+)|"(?:[^"\\]|\\.)*"', 'g') with ordinality as f(m, place)
    where m[1] is not null
    group by m[1] order by 2 limit 5
  ) as r
$$;
comment on function fencepost_private.what_was_read(jsonpath, jsonb) is 'The values that a path starts from in a context, for people.';

-- What a path gives in a context: null (not JSON's) when it finds nothing; an array, always, when it may find several
-- values. Errors: JE003 when it cannot be evaluated, or is a predicate and unknown.
create function fencepost_private.value_at(p_path jsonpath, p_context jsonb)
returns jsonb
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_found   jsonb;
  v_problem text;
begin
  begin
    v_found := jsonb_path_query_array_tz(p_context, p_path);
  exception when others then
    v_problem := sqlerrm;
  end;
  if v_found = '[null]' and is_predicate(p_path) then
    v_problem := 'neither true nor false';
  end if;
  if v_problem is not null then
    perform raise_error('JE003', format('%s where %s: %s', p_path, what_was_read(p_path, p_context), v_problem));
  end if;
  return case when finds_many(p_path) then v_found
              when jsonb_array_length(v_found) = 1 then v_found -> 0
              else nullif(v_found, '[]') end;
end
$$;
comment on function fencepost_private.value_at(jsonpath, jsonb) is 'What a path gives in a context; null when it finds nothing. Raises JE003.';

-- The same, but says what went wrong instead of raising it.
create function fencepost_private.try_value(p_path jsonpath, p_context jsonb, out value jsonb, out problem text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_path is not null then
    value := value_at(p_path, p_context);
  end if;
exception when others then
  problem := sqlerrm;
end
$$;
comment on function fencepost_private.try_value(jsonpath, jsonb) is 'What a path gives in a context, or why it cannot be evaluated.';

-- Whether a path may find several values: it has a wildcard, a filter, a range or keyvalue(). What such a path finds is
-- always an array, also when it happens to be a single value.
create function fencepost_private.finds_many(p_path jsonpath) returns boolean
language sql immutable
set search_path = fencepost_private, pg_temp
as $$
  select regexp_replace(p_path::text, '"([^"\\]|\\.)*"', '""', 'g') ~ '\[\*|\.\*|\?\s*\(|\sto\s|\.keyvalue'
$$;
comment on function fencepost_private.finds_many(jsonpath) is 'Whether a path may find several values, and so always gives an array.';

-- Fills an input template: strings that start with $ are paths (null when they find nothing; an array, always, when they
-- have a wildcard, a filter or a range), $$ begins a literal dollar, everything else stays. Errors: JE003, as value_at.
create function fencepost_private.filled(p_template jsonb, p_context jsonb)
returns jsonb
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $body$
begin
  case jsonb_typeof(p_template)
    when 'string' then
      if p_template #>> '{}' like '$$%' then
        return to_jsonb(substr(p_template #>> '{}', 2));
      elsif p_template #>> '{}' like '$%' then
        return coalesce(value_at((p_template #>> '{}')::jsonpath, p_context), 'null');
      end if;
      return p_template;
    when 'object' then
      return (select coalesce(jsonb_object_agg(e.key, filled(e.value, p_context)), '{}') from jsonb_each(p_template) as e);
    when 'array' then
      return (select coalesce(jsonb_agg(filled(e.value, p_context) order by e.place), '[]') from jsonb_array_elements(p_template) with ordinality as e(value, place));
    else
      return p_template;
  end case;
end
$body$;
comment on function fencepost_private.filled(jsonb, jsonb) is 'An input template with its paths replaced by what they find in a context. Raises JE003.';

-- The same, but says what went wrong instead of raising it. With p_of_items as half_filled, for all items of a map.
create function fencepost_private.try_filled(p_template jsonb, p_context jsonb, p_of_items boolean, out value jsonb, out problem text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_template is not null then
    value := case when p_of_items then half_filled(p_template, p_context) else filled(p_template, p_context) end;
  end if;
exception when others then
  problem := 'its input cannot be built: ' || sqlerrm;
end
$$;
comment on function fencepost_private.try_filled(jsonb, jsonb, boolean) is 'An input template filled, or why it cannot be.';

-- Fills what is the same for all items of a map, once: paths that read neither item nor index. What they found is
-- written so that filled() leaves it as it is.
create function fencepost_private.half_filled(p_template jsonb, p_context jsonb)
returns jsonb
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $body$
begin
  case jsonb_typeof(p_template)
    when 'string' then
      if p_template #>> '{}' ~ '^\$($|[^$])' and not path_roots((p_template #>> '{}')::jsonpath) && '{item,index,*}' then
        return literal(filled(p_template, p_context));
      end if;
      return p_template;
    when 'object' then
      return (select coalesce(jsonb_object_agg(e.key, half_filled(e.value, p_context)), '{}') from jsonb_each(p_template) as e);
    when 'array' then
      return (select coalesce(jsonb_agg(half_filled(e.value, p_context) order by e.place), '[]') from jsonb_array_elements(p_template) with ordinality as e(value, place));
    else
      return p_template;
  end case;
end
$body$;
comment on function fencepost_private.half_filled(jsonb, jsonb) is 'An input template with those paths replaced that do not read the item of a map.';

-- A value as a template that gives it back: its strings that start with $ begin with one more.
create function fencepost_private.literal(p_value jsonb)
returns jsonb
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if position('"$' in p_value::text) = 0 then
    return p_value;
  end if;
  case jsonb_typeof(p_value)
    when 'string' then
      return case when p_value #>> '{}' like '$%' then to_jsonb('$' || (p_value #>> '{}')) else p_value end;
    when 'object' then
      return (select jsonb_object_agg(e.key, literal(e.value)) from jsonb_each(p_value) as e);
    when 'array' then
      return (select jsonb_agg(literal(e.value) order by e.place) from jsonb_array_elements(p_value) with ordinality as e(value, place));
    else
      return p_value;
  end case;
end
$$;
comment on function fencepost_private.literal(jsonb) is 'A value as an input template that gives exactly that value.';

-- What a path reads of its context: input, run, item, index, tasks.<name>, errors.<name> …; * where it may read
-- anything (a bare $, a wildcard). Read from the path as the server prints it: keys quoted, no comments.
create function fencepost_private.path_roots(p_path jsonpath)
returns text[]
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select coalesce(array_agg(distinct case
    when m[2] is null or m[2] in ('tasks', 'errors') and m[3] is null then '*'
    when m[2] in ('tasks', 'errors') then m[2] || '.' || m[3]
    else m[2] end), '{}')
  from regexp_matches(p_path::text, '(\$)(?:\."((?:[^"\\]|\\.)*)"(?:\."((?:[^"\\]|\\.)*)")?)?|"(?:[^"\\]|\\.)*"', 'g') as m
  where m[1] is not null
$$;
comment on function fencepost_private.path_roots(jsonpath) is 'What a path reads of its context; * where it may read anything.';

-- The strings of an input template that are paths.
create function fencepost_private.template_paths(p_template jsonb)
returns setof text
language sql
immutable
set search_path = fencepost_private, pg_temp
as $body$
  select s #>> '{}' from jsonb_path_query(p_template, 'strict $.** ? (@.type() == "string")') as s where s #>> '{}' ~ '^\$($|[^$])'
$body$;
comment on function fencepost_private.template_paths(jsonb) is 'The strings of an input template that are paths.';

-- Which tasks' outputs and errors these paths read; null when that cannot be told.
create function fencepost_private.tasks_read(p_paths text[])
returns text[]
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select case when '*' = any (r.roots) then null
              else array(select distinct substr(n, position('.' in n) + 1) from unnest(r.roots) as n where n ~ '^(tasks|errors)\.') end
  from (select array(select unnest(path_roots(p::jsonpath)) from unnest(p_paths) as p) as roots) as r
$$;
comment on function fencepost_private.tasks_read(text[]) is 'Names of the tasks whose outputs or errors these paths read; null when they may read any.';
--! EndIncluded workflows/expressions.sql
--! Included workflows/schema_inside.sql
-- What a JSON Schema asserts of what is inside arrays and objects.

-- items are those that prefixItems left over; contains counts those that fit.
create function fencepost_private.misfit_of_array(p_root jsonb, p_schema jsonb, p_value jsonb, p_place text, p_depth int)
returns text
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_length int := jsonb_array_length(p_value);
  v_fixed  int := coalesce(jsonb_array_length(p_schema -> 'prefixItems'), 0);
  v_fit    int;
  v_found  text;
begin
  if v_length < (p_schema ->> 'minItems')::numeric or v_length > (p_schema ->> 'maxItems')::numeric then
    return format('%s has %s items, outside %s to %s', p_place, v_length, coalesce(p_schema ->> 'minItems', '0'), coalesce(p_schema ->> 'maxItems', 'any'));
  elsif p_schema -> 'uniqueItems' = 'true' and v_length <> (select count(distinct e) from jsonb_array_elements(p_value) as e) then
    return format('%s has an item twice', p_place);
  end if;
  if v_fixed > 0 or p_schema ? 'items' then
    select m.problem into v_found
    from jsonb_array_elements(p_value) with ordinality as e(value, place)
    cross join lateral misfit(p_root, case when e.place <= v_fixed then p_schema -> 'prefixItems' -> (e.place::int - 1) else p_schema -> 'items' end,
                              e.value, format('%s[%s]', p_place, e.place - 1), p_depth + 1) as m(problem)
    where m.problem is not null limit 1;
  end if;
  if v_found is null and p_schema ? 'contains' then
    select count(*) into v_fit from jsonb_array_elements(p_value) as e(value) where misfit(p_root, p_schema -> 'contains', e.value, p_place, p_depth + 1) is null;
    if v_fit < coalesce((p_schema ->> 'minContains')::numeric, 1) or v_fit > (p_schema ->> 'maxContains')::numeric then
      v_found := format('%s has %s items that fit contains, outside %s to %s', p_place, v_fit, coalesce(p_schema ->> 'minContains', '1'), coalesce(p_schema ->> 'maxContains', 'any'));
    end if;
  end if;
  return v_found;
end
$$;
comment on function fencepost_private.misfit_of_array(jsonb, jsonb, jsonb, text, int) is 'What a JSON Schema asserts of an array.';

-- additionalProperties are those that properties does not name and no pattern matches. Properties that tell alternatives
-- apart, by const or enum, come first: they refuse at once what would be looked at in depth otherwise.
create function fencepost_private.misfit_of_object(p_root jsonb, p_schema jsonb, p_value jsonb, p_place text, p_depth int)
returns text
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_size  int;
  v_found text;
begin
  if p_schema ?| array['minProperties', 'maxProperties'] then
    v_size := (select count(*) from jsonb_object_keys(p_value));
    if v_size < (p_schema ->> 'minProperties')::numeric or v_size > (p_schema ->> 'maxProperties')::numeric then
      return format('%s has %s keys, outside %s to %s', p_place, v_size, coalesce(p_schema ->> 'minProperties', '0'), coalesce(p_schema ->> 'maxProperties', 'any'));
    end if;
  end if;
  if p_schema ?| array['required', 'dependentRequired'] then
    select format('%s.%s is required%s', p_place, r.name, ' because of ' || r.because) into v_found
    from (
      select k.name, null as because from jsonb_array_elements_text(p_schema -> 'required') as k(name)
      union all
      select k.name, d.key from jsonb_each(p_schema -> 'dependentRequired') as d(key, names) cross join jsonb_array_elements_text(d.names) as k(name) where p_value ? d.key
    ) as r
    where not p_value ? r.name limit 1;
  end if;
  if v_found is null and p_schema ?| array['properties', 'patternProperties', 'additionalProperties', 'propertyNames'] then
    select m.problem into v_found
    from (
      select e.key, e.value from jsonb_each(p_value) as e
      order by coalesce(p_schema -> 'properties' -> e.key ?| array['const', 'enum'], false) desc offset 0
    ) as e
    cross join lateral (
      select p_schema -> 'properties' -> e.key as schema, e.value, format('%s.%s', p_place, e.key) as place
      union all
      select p.schema, e.value, format('%s.%s', p_place, e.key) from jsonb_each(p_schema -> 'patternProperties') as p(pattern, schema) where e.key ~ p.pattern
      union all
      select p_schema -> 'additionalProperties', e.value, format('%s.%s', p_place, e.key)
      where not coalesce(p_schema -> 'properties' ? e.key, false) and not exists (select from jsonb_object_keys(p_schema -> 'patternProperties') as p(pattern) where e.key ~ p.pattern)
      union all
      select p_schema -> 'propertyNames', to_jsonb(e.key), format('the key %s of %s', quote_literal(e.key), p_place)
    ) as s
    cross join lateral misfit(p_root, s.schema, s.value, s.place, p_depth + 1) as m(problem)
    where s.schema is not null and m.problem is not null limit 1;
  end if;
  if v_found is null and p_schema ? 'dependentSchemas' then
    select m.problem into v_found
    from jsonb_each(p_schema -> 'dependentSchemas') as d(key, schema)
    cross join lateral misfit(p_root, d.schema, p_value, p_place, p_depth + 1) as m(problem)
    where p_value ? d.key and m.problem is not null limit 1;
  end if;
  return v_found;
end
$$;
comment on function fencepost_private.misfit_of_object(jsonb, jsonb, jsonb, text, int) is 'What a JSON Schema asserts of an object.';
--! EndIncluded workflows/schema_inside.sql
--! Included workflows/schema_choice.sql
-- What a JSON Schema asserts by way of other schemas, of any value.

-- What a reference leads to: the whole, or what stands in its $defs. Null when it leads elsewhere, or nowhere.
create function fencepost_private.schema_at(p_root jsonb, p_ref text)
returns jsonb
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select case when p_ref = '#' then p_root
              else p_root -> substring(p_ref from '^#/(\$defs|definitions)/') -> replace(replace(substring(p_ref from '^#/[^/]+/([^/]+)$'), '~1', '/'), '~0', '~') end
$$;
comment on function fencepost_private.schema_at(jsonb, text) is 'The schema that a local reference leads to; null when there is none.';

-- anyOf is content with the first that fits; oneOf has to look at all.
create function fencepost_private.misfit_of_choice(p_root jsonb, p_schema jsonb, p_value jsonb, p_place text, p_depth int)
returns text
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_key    text;
  v_schema jsonb;
  v_misfit text;
  v_fit    int;
  v_all    text;
  v_found  text;
begin
  if p_schema ? '$ref' then
    v_found := misfit(p_root, schema_at(p_root, p_schema ->> '$ref'), p_value, p_place, p_depth + 1);
  end if;
  if v_found is null and p_schema ? 'allOf' then
    select m.problem into v_found
    from jsonb_array_elements(p_schema -> 'allOf') as s(schema)
    cross join lateral misfit(p_root, s.schema, p_value, p_place, p_depth + 1) as m(problem)
    where m.problem is not null limit 1;
  end if;
  foreach v_key in array array['anyOf', 'oneOf'] loop
    if v_found is null and p_schema ? v_key then
      v_fit := 0;
      v_all := null;
      for v_schema in select s.schema from jsonb_array_elements(p_schema -> v_key) as s(schema) loop
        v_misfit := misfit(p_root, v_schema, p_value, p_place, p_depth + 1);
        v_fit := v_fit + (v_misfit is null)::int;
        v_all := case when length(v_all) > 2000 then v_all else concat_ws('; or ', v_all, v_misfit) end;
        exit when v_fit = 1 and v_key = 'anyOf';
      end loop;
      v_found := case when v_fit = 0 then clipped(format('%s fits nothing of %s: %s', p_place, v_key, v_all), 2000)
                      when v_fit > 1 and v_key = 'oneOf' then format('%s fits %s schemas of oneOf, and must fit exactly one', p_place, v_fit) end;
    end if;
  end loop;
  if v_found is null and p_schema ? 'not' and misfit(p_root, p_schema -> 'not', p_value, p_place, p_depth + 1) is null then
    v_found := format('%s must not fit %s', p_place, clipped((p_schema -> 'not')::text, 200));
  end if;
  if v_found is null and p_schema ? 'if' then
    v_key := case when misfit(p_root, p_schema -> 'if', p_value, p_place, p_depth + 1) is null then 'then' else 'else' end;
    v_found := misfit(p_root, p_schema -> v_key, p_value, p_place, p_depth + 1);
  end if;
  return v_found;
end
$$;
comment on function fencepost_private.misfit_of_choice(jsonb, jsonb, jsonb, text, int) is 'What a JSON Schema asserts of a value by $ref, allOf, anyOf, oneOf, not and if.';
--! EndIncluded workflows/schema_choice.sql
--! Included workflows/schema.sql
-- Whether a value fits a JSON Schema: all that draft 2020-12 asserts, but for `unevaluated…` and for dynamic and remote
-- references, which check_schema refuses. `format` and whatever else describes is for people.
--
-- A misfit is the first way in which a value does not fit, with its place; null when it fits. p_root is the whole schema,
-- for references; p_depth counts how deep we are. What goes too deep or takes too long is no misfit, which `not` would
-- turn into a fit, but raises. The checks that are left are counted down in a setting: alternatives inside alternatives
-- multiply, and who moves a run must not wait for that.
create function fencepost_private.misfit(p_root jsonb, p_schema jsonb, p_value jsonb, p_place text, p_depth int)
returns text
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_found text;
begin
  if p_schema is null or p_schema in ('true', '{}') then
    return null;
  elsif p_schema = 'false' then
    return format('%s is not allowed', p_place);
  elsif p_depth > 100 then
    perform raise_error('JE003', 'the input cannot be checked: its schema goes more than 100 levels deep', format('at %s', left(p_place, 500)), 'Nest it less.');
  elsif set_config('fencepost.checks_left', (current_setting('fencepost.checks_left')::int - 1)::text, true) = '-1' then
    perform raise_error('JE003', 'the input takes too long to check against its schema', format('at %s', left(p_place, 500)),
      'Tell the alternatives of anyOf and oneOf apart by a property with const.');
  end if;
  v_found := misfit_of_value(p_schema, p_value, p_place);
  if v_found is null and jsonb_typeof(p_value) = 'array' then
    v_found := misfit_of_array(p_root, p_schema, p_value, p_place, p_depth);
  elsif v_found is null and jsonb_typeof(p_value) = 'object' then
    v_found := misfit_of_object(p_root, p_schema, p_value, p_place, p_depth);
  end if;
  if v_found is null and p_schema ?| array['$ref', 'allOf', 'anyOf', 'oneOf', 'not', 'if'] then
    v_found := misfit_of_choice(p_root, p_schema, p_value, p_place, p_depth);
  end if;
  return v_found;
end
$$;
comment on function fencepost_private.misfit(jsonb, jsonb, jsonb, text, int) is 'The first way in which a value does not fit a part of a JSON Schema, with its place; null when it fits.';

-- There may be 50,000 checks, and one more for every two bytes of the value: what is long may take longer.
-- Errors: JE003 when it cannot be checked.
create function fencepost_private.schema_problem(p_schema jsonb, p_value jsonb, p_place text)
returns text
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_schema is null then
    return null;
  end if;
  perform set_config('fencepost.checks_left', (50000 + octet_length(p_value::text) / 2)::text, true);
  return misfit(p_schema, p_schema, p_value, p_place, 0);
exception when data_exception or program_limit_exceeded then   -- a regular expression or the stack gave up
  perform raise_error('JE003', 'the input cannot be checked against its schema', sqlerrm, 'Simplify the schema.');
  return null;
end
$$;
comment on function fencepost_private.schema_problem(jsonb, jsonb, text) is 'The first way in which a value does not fit a JSON Schema, with its place; null when it fits. Raises JE003 when that cannot be found out.';

-- What is asserted of any value, of numbers and of texts.
create function fencepost_private.misfit_of_value(p_schema jsonb, p_value jsonb, p_place text)
returns text
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_type   text := jsonb_typeof(p_value);
  v_number numeric;
  v_length int;
begin
  -- jsonb ? asks for a text, or for an element of an array
  if p_schema ? 'type' and not (p_schema -> 'type' ? v_type or v_type = 'number' and p_schema -> 'type' ? 'integer' and (p_value #>> '{}')::numeric % 1 = 0) then
    return format('%s must be of type %s, received %s', p_place, p_schema ->> 'type', v_type);
  elsif p_schema ? 'enum' then
    if not exists (select from jsonb_array_elements(p_schema -> 'enum') as e(value) where e.value = p_value) then
      return format('%s must be one of %s, received %s', p_place, p_schema -> 'enum', left(p_value::text, 100));
    end if;
  end if;
  if p_schema ? 'const' and p_schema -> 'const' <> p_value then
    return format('%s must be %s, received %s', p_place, p_schema -> 'const', left(p_value::text, 100));
  end if;
  if v_type = 'number' then
    v_number := (p_value #>> '{}')::numeric;
    if v_number < (p_schema ->> 'minimum')::numeric or v_number > (p_schema ->> 'maximum')::numeric then
      return format('%s must be from %s to %s, received %s', p_place, coalesce(p_schema ->> 'minimum', 'any'), coalesce(p_schema ->> 'maximum', 'any'), p_value);
    elsif v_number <= (p_schema ->> 'exclusiveMinimum')::numeric or v_number >= (p_schema ->> 'exclusiveMaximum')::numeric then
      return format('%s must be between %s and %s, and neither of them, received %s', p_place, coalesce(p_schema ->> 'exclusiveMinimum', 'any'), coalesce(p_schema ->> 'exclusiveMaximum', 'any'), p_value);
    elsif v_number % (p_schema ->> 'multipleOf')::numeric <> 0 then
      return format('%s must be a multiple of %s, received %s', p_place, p_schema ->> 'multipleOf', p_value);
    end if;
  elsif v_type = 'string' then
    v_length := length(p_value #>> '{}');
    if v_length < (p_schema ->> 'minLength')::numeric or v_length > (p_schema ->> 'maxLength')::numeric then
      return format('%s has %s characters, outside %s to %s', p_place, v_length, coalesce(p_schema ->> 'minLength', '0'), coalesce(p_schema ->> 'maxLength', 'any'));
    elsif (p_value #>> '{}') !~ (p_schema ->> 'pattern') then
      return format('%s must match %s', p_place, p_schema ->> 'pattern');
    end if;
  end if;
  return null;
end
$$;
comment on function fencepost_private.misfit_of_value(jsonb, jsonb, text) is 'What a JSON Schema asserts of any value, of numbers and of texts.';
--! EndIncluded workflows/schema.sql
--! Included workflows/check_schema.sql
-- Whether a schema is one: otherwise the first input would find out. What is asserted but not looked at here is refused,
-- so that nobody relies on it; keywords that nobody knows describe, and are left alone.

-- What each keyword must be.
create function fencepost_private.schema_keywords()
returns table (keyword text, must_be text)
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select k.keyword, w.must_be
  from (values
    ('the name of a type, or an array of them: object, array, string, number, integer, boolean, null', '{type}'::text[]),
    ('an array', '{enum}'),
    ('an array of names', '{required}'),
    ('an object of arrays of names', '{dependentRequired}'),
    ('a schema', '{items,contains,additionalProperties,propertyNames,not,if,then,else}'),
    ('an array of schemas, and not empty', '{prefixItems,allOf,anyOf,oneOf}'),
    ('an object of schemas', '{properties,dependentSchemas,$defs,definitions}'),
    ('an object of schemas by regular expressions', '{patternProperties}'),
    ('a number', '{minimum,maximum,exclusiveMinimum,exclusiveMaximum}'),
    ('a number above 0', '{multipleOf}'),
    ('a whole number from 0 to 1000000000', '{minLength,maxLength,minItems,maxItems,minContains,maxContains,minProperties,maxProperties}'),
    ('true or false', '{uniqueItems}'),
    ('a regular expression', '{pattern}'),
    ('# or #/$defs/<name>, and lead to a schema', '{$ref}'),
    ('left out: it is not supported', '{$dynamicRef,$recursiveRef,unevaluatedProperties,unevaluatedItems,dependencies,additionalItems}')
  ) as w(must_be, keywords)
  cross join unnest(w.keywords) as k(keyword)
$$;
comment on function fencepost_private.schema_keywords() is 'The keywords of a JSON Schema that are looked at, and what each must be.';

-- Errors: JE008, naming the place.
create function fencepost_private.check_schema(p_schema jsonb, p_place text)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_ref text;
begin
  perform check_schema_part(p_schema, p_schema, p_place, 0);
  v_ref := endless_ref(p_schema);
  if v_ref is not null then
    perform raise_error('JE008', 'a JSON Schema must not lead back to itself at the same place', format('at %s: received {"$ref": %s}', p_place, to_json(v_ref)),
      'A reference may lead back from within properties, items or contains, not through $ref, allOf, anyOf, oneOf, not, if or dependentSchemas alone.');
  end if;
end
$$;
comment on function fencepost_private.check_schema(jsonb, text) is 'Raises JE008 for a JSON Schema that has no meaning, that would not be looked at whole, or that would never come to an end.';

create function fencepost_private.check_schema_part(p_root jsonb, p_schema jsonb, p_place text, p_depth int)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v       record;
  v_types constant jsonb := '["object", "array", "string", "number", "integer", "boolean", "null"]'::jsonb;
begin
  if p_schema is null or jsonb_typeof(p_schema) = 'boolean' then
    return;
  elsif jsonb_typeof(p_schema) <> 'object' then
    perform raise_error('JE008', 'a JSON Schema is an object or a boolean', format('at %s: received %s', p_place, left(p_schema::text, 200)), 'For example {"type": "string"}.');
  elsif p_depth > 100 then
    perform raise_error('JE008', 'a JSON Schema may be nested at most 100 deep', format('at %s: received %s', p_place, left(p_schema::text, 200)), 'Nest it less.');
  elsif p_depth > 0 and p_schema ? '$id' then
    perform raise_error('JE008', '$id of a JSON Schema belongs to the whole', format('at %s.$id: received %s', p_place, left(p_schema ->> '$id', 200)),
      'Leave it out: references are read from the whole schema.');
  end if;
  for v in
    select k.key, k.value, jsonb_typeof(k.value) as is_a, w.must_be from jsonb_each(p_schema) as k join schema_keywords() as w on w.keyword = k.key
  loop
    if not (case v.must_be
         when 'an array' then v.is_a = 'array'
         when 'an array of names' then is_names(v.value)
         when 'an object of arrays of names' then v.is_a = 'object' and not exists (select from jsonb_each(v.value) as e where not is_names(e.value))
         when 'a schema' then true
         when 'an array of schemas, and not empty' then v.is_a = 'array' and v.value <> '[]'
         when 'an object of schemas' then v.is_a = 'object'
         when 'an object of schemas by regular expressions' then v.is_a = 'object' and not exists (select from jsonb_object_keys(v.value) as k where not is_pattern(k))
         when 'a number' then v.is_a = 'number'
         when 'a number above 0' then v.is_a = 'number' and v.value > '0'
         when 'a whole number from 0 to 1000000000' then v.is_a = 'number' and v.value @? '$ ? (@ >= 0 && @ <= 1000000000 && @.floor() == @)'
         when 'true or false' then v.is_a = 'boolean'
         when 'a regular expression' then v.is_a = 'string' and is_pattern(v.value #>> '{}')
         when '# or #/$defs/<name>, and lead to a schema' then v.is_a = 'string' and coalesce(jsonb_typeof(schema_at(p_root, v.value #>> '{}')) in ('object', 'boolean'), false)
         when 'left out: it is not supported' then false
         else case v.is_a when 'array' then v.value <@ v_types and v.value <> '[]' when 'string' then v_types @> v.value else false end
       end) then
      perform raise_error('JE008', format('%s of a JSON Schema must be %s', v.key, v.must_be), format('at %s.%s: received %s', p_place, v.key, left(v.value::text, 200)),
        case when v.must_be like 'left out%' then 'Say the same with other keywords, or leave it to the task that reads the input.' else 'See json-schema.org.' end);
    end if;
    perform check_schema_part(p_root, s.schema, s.place, p_depth + 1)
    from (
      select v.value as schema, format('%s.%s', p_place, v.key) as place where v.must_be = 'a schema'
      union all
      select e.value, format('%s.%s[%s]', p_place, v.key, e.place - 1)
      from jsonb_array_elements(case when v.must_be like 'an array of schemas%' then v.value end) with ordinality as e(value, place)
      union all
      select e.value, format('%s.%s.%s', p_place, v.key, e.key)
      from jsonb_each(case when v.must_be like 'an object of schemas%' then v.value end) as e
    ) as s;
  end loop;
end
$$;
comment on function fencepost_private.check_schema_part(jsonb, jsonb, text, int) is 'Raises JE008 for the first keyword of a part of a JSON Schema that has no meaning, or that is not looked at.';

-- A reference that is followed more than 100 times without a step into the value, so in a circle or as good as. Only the
-- whole and what stands in its $defs can be referred to: these are the nodes, and the references in them the edges.
create function fencepost_private.endless_ref(p_root jsonb)
returns text
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  with recursive node as (
    select '#' as ref, p_root as schema
    union all
    select format('#/%s/%s', d.keyword, replace(replace(e.key, '~', '~0'), '/', '~1')), e.value
    from unnest(array['$defs', 'definitions']) as d(keyword) cross join jsonb_each(p_root -> d.keyword) as e
  ), part as (
    select n.ref, n.schema from node n
    union all
    select p.ref, s.schema
    from part p
    cross join lateral (
      select p.schema -> k.keyword as schema from unnest(array['not', 'if', 'then', 'else']) as k(keyword)
      union all
      select e.schema from unnest(array['allOf', 'anyOf', 'oneOf']) as k(keyword) cross join jsonb_array_elements(p.schema -> k.keyword) as e(schema)
      union all
      select e.value from jsonb_each(p.schema -> 'dependentSchemas') as e
    ) as s
    where jsonb_typeof(s.schema) = 'object'
  ), edge as materialized (
    select distinct p.ref, p.schema ->> '$ref' as leads_to from part p where p.schema ? '$ref'
  ), walk as (
    select e.leads_to as ref, 1 as steps from edge e
    union
    select e.leads_to, w.steps + 1 from walk w join edge e on e.ref = w.ref where w.steps <= 100
  )
  select w.ref from walk w where w.steps > 100 order by w.ref limit 1
$$;
comment on function fencepost_private.endless_ref(jsonb) is 'A reference of a JSON Schema that leads back to itself at the same place of a value; null when there is none.';

create function fencepost_private.is_names(p_value jsonb)
returns boolean
language sql
immutable
return jsonb_typeof(p_value) = 'array' and not p_value @? '$[*] ? (@.type() <> "string")';
comment on function fencepost_private.is_names(jsonb) is 'Whether a JSON value is an array of texts.';

create function fencepost_private.is_pattern(p_text text)
returns boolean
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  return '' ~ p_text is not null;
exception when data_exception then
  return false;
end
$$;
comment on function fencepost_private.is_pattern(text) is 'Whether a text is a regular expression.';
--! EndIncluded workflows/check_schema.sql
--! Included workflows/check_definition.sql
-- Checks a definition, but for cycles (see task_order). The first problem raises JE008: what is wrong, where (as a
-- path such as tasks.charge.after[1]) and what would be right.
create function fencepost_private.check_definition(p_definition jsonb)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_tasks jsonb := p_definition -> 'tasks';   -- taken out once: it may have a megabyte
  v_count int;
  v       record;
begin
  if p_definition is null or jsonb_typeof(p_definition) <> 'object' then
    perform raise_error('JE008', 'a definition must be a JSON object', format('received %s', coalesce(jsonb_typeof(p_definition), 'null')), 'For example {"tasks": {"a": {"type": "t.a"}}}.');
  end if;
  if octet_length(p_definition::text) > 1048576 then
    perform raise_error('JE008', 'a definition may have at most 1 MiB', format('received %s bytes', octet_length(p_definition::text)), 'Split it into child workflows, or map over data.');
  end if;
  perform check_keys(p_definition, array['tasks', 'input', 'on_failure', 'description'], '');
  perform check_choice(p_definition, 'on_failure', array['fail', 'compensate'], '');
  if jsonb_typeof(p_definition -> 'input') not in ('object', 'boolean') then
    perform raise_error('JE008', 'input must be a JSON Schema', format('at input: received %s', jsonb_typeof(p_definition -> 'input')), 'An object such as {"type": "object", "required": ["amount"]}.');
  end if;
  perform check_schema(p_definition -> 'input', 'input');
  if jsonb_typeof(v_tasks) is distinct from 'object' or v_tasks = '{}' then
    perform raise_error('JE008', 'a definition needs tasks', format('at tasks: received %s', coalesce(left(v_tasks::text, 200), 'nothing')), 'An object with a task for each name.');
  end if;
  select count(*) into v_count from jsonb_object_keys(v_tasks);
  if v_count > 10000 then
    perform raise_error('JE008', 'a definition may have at most 10000 tasks', format('at tasks: received %s', v_count), 'Use a map, or child workflows.');
  end if;

  for v in select t.name, t.spec, 'tasks.' || t.name as place from jsonb_each(v_tasks) as t(name, spec) loop
    if v.name !~ '^[A-Za-z_][A-Za-z0-9_-]{0,99}$' then
      perform raise_error('JE008', 'a task needs a name of letters, digits, _ and -', format('at tasks: received %s', quote_literal(left(v.name, 120))), 'Begin with a letter; at most 100 characters.');
    end if;
    perform check_task(v.spec, v.place, v_tasks);
  end loop;

  select c.name, a.parent, a.place - 1 as place, a.parent = c.name as is_self, s.spec is null as is_unknown, s.spec ->> 'kind' as kind into v
  from jsonb_each(v_tasks) as c(name, spec)
  cross join lateral jsonb_array_elements_text(coalesce(c.spec -> 'after', '[]')) with ordinality as a(parent, place)
  left join lateral (select v_tasks -> a.parent as spec) as s on true
  where s.spec is null or a.parent = c.name
  limit 1;
  if found then
    perform raise_error('JE008',
      case when v.is_self then format('task %s waits for itself', v.name) else format('task %s waits for %s, which does not exist', v.name, quote_literal(v.parent)) end,
      format('at tasks.%s.after[%s]: received %s', v.name, v.place, quote_literal(v.parent)),
      coalesce(did_you_mean(v.parent, array(select k from jsonb_object_keys(v_tasks) as k where k <> v.name)), 'Name a task of this definition.'));
  end if;
  select c.name, a.parent into v
  from jsonb_each(v_tasks) as c(name, spec)
  cross join lateral jsonb_array_elements_text(coalesce(c.spec -> 'after', '[]')) as a(parent)
  group by c.name, a.parent having count(*) > 1 limit 1;
  if found then
    perform raise_error('JE008', format('task %s waits twice for %s', v.name, v.parent), format('at tasks.%s.after', v.name), 'Name each parent once.');
  end if;
end
$$;
comment on function fencepost_private.check_definition(jsonb) is 'Raises JE008 for the first problem of a workflow definition, naming its place.';

-- One task of p_tasks. Errors: JE008.
create function fencepost_private.check_task(p_spec jsonb, p_place text, p_tasks jsonb)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_kind   text;
  v_common constant text[] := array['kind', 'after', 'when', 'description', 'on_failure'];
  v_needed text;
begin
  if jsonb_typeof(p_spec) <> 'object' then
    perform raise_error('JE008', 'a task must be a JSON object', format('at %s: received %s', p_place, jsonb_typeof(p_spec)), 'For example {"type": "email.send", "after": ["charge"]}.');
  end if;
  perform check_choice(p_spec, 'kind', array['job', 'approval', 'timer', 'signal', 'map', 'workflow'], p_place);
  v_kind := coalesce(p_spec ->> 'kind', 'job');
  perform check_keys(p_spec, v_common || case v_kind
    when 'job' then array['type', 'input', 'retry', 'timeout', 'priority', 'compensate']
    when 'approval' then array['expires_after', 'on_expiry', 'on_reject', 'reason']
    when 'timer' then array['delay', 'until']
    when 'signal' then array['signal', 'expires_after']
    when 'map' then array['type', 'over', 'input', 'max_parallel', 'retry', 'timeout', 'priority']
    else array['workflow', 'version', 'input'] end, p_place);
  perform check_choice(p_spec, 'on_failure', array['fail', 'continue'], p_place);

  v_needed := case v_kind when 'job' then 'type' when 'map' then 'type' when 'signal' then 'signal' when 'workflow' then 'workflow' end;
  if v_needed is not null and not is_name(p_spec -> v_needed) then
    perform raise_error('JE008', format('a task of kind %s needs a %s', v_kind, v_needed), format('at %s.%s: received %s', p_place, v_needed, coalesce(left((p_spec -> v_needed)::text, 200), 'nothing')),
      'A name such as payment.charge.');
  end if;
  if p_spec ? 'compensate' and not is_name(p_spec -> 'compensate') then
    perform raise_error('JE008', 'compensate names the type of the job that undoes the task', format('at %s.compensate: received %s', p_place, left((p_spec -> 'compensate')::text, 200)), 'A name such as payment.refund.');
  end if;
  if p_spec ? 'after' and (jsonb_typeof(p_spec -> 'after') <> 'array' or exists (select from jsonb_array_elements(p_spec -> 'after') as a where jsonb_typeof(a) <> 'string')) then
    perform raise_error('JE008', 'after must be an array of task names', format('at %s.after: received %s', p_place, left((p_spec -> 'after')::text, 200)), 'For example ["validate"].');
  end if;
  if v_kind = 'map' and not p_spec ? 'over' then
    perform raise_error('JE008', 'a map needs over', format('at %s.over: received nothing', p_place), 'A path to an array, such as $.tasks.reserve.parcels.');
  end if;
  if v_kind = 'timer' and (p_spec ? 'delay') = (p_spec ? 'until') then
    perform raise_error('JE008', 'a timer needs either delay or until', format('at %s: received %s', p_place, case when p_spec ? 'delay' then 'both' else 'neither' end), 'delay is an interval, until a path to a time.');
  end if;
  if p_spec ? 'retry' then
    if jsonb_typeof(p_spec -> 'retry') <> 'object' then
      perform raise_error('JE008', 'retry must be a JSON object', format('at %s.retry: received %s', p_place, left((p_spec -> 'retry')::text, 200)), 'For example {"max_attempts": 3}.');
    end if;
    perform check_keys(p_spec -> 'retry', array['max_attempts'], p_place || '.retry');
    perform check_number(p_spec -> 'retry', 'max_attempts', 1, 1000000, p_place || '.retry');
  end if;
  perform check_number(p_spec, 'priority', 0, 9, p_place), check_number(p_spec, 'max_parallel', 1, 1000000, p_place), check_number(p_spec, 'version', 1, 2147483647, p_place);
  perform check_choice(p_spec, 'on_expiry', array['reject', 'approve', 'fail'], p_place), check_choice(p_spec, 'on_reject', array['fail', 'skip', 'continue'], p_place);
  perform check_interval(p_spec, 'timeout', p_place), check_interval(p_spec, 'expires_after', p_place), check_interval(p_spec, 'delay', p_place);
  if jsonb_typeof(p_spec -> 'description') <> 'string' then
    perform raise_error('JE008', 'description must be a text', format('at %s.description: received %s', p_place, left((p_spec -> 'description')::text, 200)), 'It is for people.');
  end if;
  if p_spec ? 'reason' and (jsonb_typeof(p_spec -> 'reason') <> 'string' or length(p_spec ->> 'reason') not between 1 and 1000) then
    perform raise_error('JE008', 'reason must be a text of 1 to 1000 characters', format('at %s.reason: received %s', p_place, left((p_spec -> 'reason')::text, 200)), 'What the person who decides should know.');
  end if;
  perform check_path(p_spec, 'when', p_place, p_tasks), check_path(p_spec, 'over', p_place, p_tasks), check_path(p_spec, 'until', p_place, p_tasks);
  perform check_template(p_spec -> 'input', p_place || '.input', p_tasks, v_kind = 'map');
end
$$;
comment on function fencepost_private.check_task(jsonb, text, jsonb) is 'Raises JE008 for the first problem of a task in a definition.';

create function fencepost_private.is_name(p_value jsonb)
returns boolean
language sql
immutable
return coalesce(jsonb_typeof(p_value) = 'string' and p_value #>> '{}' ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$', false);
comment on function fencepost_private.is_name(jsonb) is 'Whether a JSON value is a text that can name a type, a signal or a workflow.';

create function fencepost_private.check_keys(p_object jsonb, p_known text[], p_place text)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_key text := (select k from jsonb_object_keys(p_object) as k where not k = any (p_known) limit 1);
begin
  if v_key is not null then
    perform raise_error('JE008', format('unknown key %s', quote_literal(v_key)), format('at %s: received %s', coalesce(nullif(p_place, ''), 'the definition'), quote_literal(v_key)),
      coalesce(did_you_mean(v_key, p_known), '') || 'Known keys: ' || array_to_string(p_known, ', ') || '.');
  end if;
end
$$;
comment on function fencepost_private.check_keys(jsonb, text[], text) is 'Raises JE008 for a key that is not known.';

create function fencepost_private.check_choice(p_object jsonb, p_key text, p_choices text[], p_place text)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_object ? p_key and not coalesce(p_object ->> p_key = any (p_choices), false) then
    perform raise_error('JE008', format('%s must be one of %s', p_key, array_to_string(p_choices, ', ')), format('at %s: received %s', concat_ws('.', nullif(p_place, ''), p_key), left((p_object -> p_key)::text, 200)),
      coalesce(did_you_mean(p_object ->> p_key, p_choices), format('Leave it out for %s.', p_choices[1])));
  end if;
end
$$;
comment on function fencepost_private.check_choice(jsonb, text, text[], text) is 'Raises JE008 for a value that is not one of the choices.';

create function fencepost_private.check_number(p_object jsonb, p_key text, p_least int, p_most int, p_place text)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_object ? p_key and (jsonb_typeof(p_object -> p_key) <> 'number' or (p_object ->> p_key)::numeric % 1 <> 0
      or (p_object ->> p_key)::numeric not between p_least and p_most) then
    perform raise_error('JE008', format('%s must be a whole number from %s to %s', p_key, p_least, p_most), format('at %s.%s: received %s', p_place, p_key, left((p_object -> p_key)::text, 200)), format('For example %s, or leave it out.', p_least));
  end if;
end
$$;
comment on function fencepost_private.check_number(jsonb, text, int, int, text) is 'Raises JE008 for a value that is not a whole number in range.';

create function fencepost_private.check_interval(p_object jsonb, p_key text, p_place text)
returns void
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_object ? p_key then
    begin
      if jsonb_typeof(p_object -> p_key) = 'string' and (p_object ->> p_key)::interval > interval '0' and (p_object ->> p_key)::interval <= interval '100 years' then
        return;
      end if;
    exception when data_exception then
      null;
    end;
    perform raise_error('JE008', format('%s must be an interval longer than nothing, and of at most 100 years', p_key), format('at %s.%s: received %s', p_place, p_key, left((p_object -> p_key)::text, 200)), 'For example "3 days" or "90 seconds".');
  end if;
end
$$;
comment on function fencepost_private.check_interval(jsonb, text, text) is 'Raises JE008 for a value that is not a positive interval.';

create function fencepost_private.check_path(p_object jsonb, p_key text, p_place text, p_tasks jsonb)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if not p_object ? p_key then
    return;
  elsif jsonb_typeof(p_object -> p_key) <> 'string' then
    perform raise_error('JE008', format('%s must be an SQL/JSON path in a string', p_key), format('at %s.%s: received %s', p_place, p_key, left((p_object -> p_key)::text, 200)), 'For example "$.input.amount > 1000".');
  end if;
  perform check_expression(p_object ->> p_key, p_key, format('%s.%s', p_place, p_key), p_tasks, false);
  if p_key = 'when' and not is_predicate((p_object ->> p_key)::jsonpath) then
    perform raise_error('JE008', 'when must be a predicate: something that is true or false', format('at %s.when: received %s', p_place, quote_literal(left(p_object ->> p_key, 200))),
      'For example $.input.amount > 1000, $.input.express == true or exists($.input.coupon).');
  end if;
end
$$;
comment on function fencepost_private.check_path(jsonb, text, text, jsonb) is 'Raises JE008 for a value that is not an SQL/JSON path over the context of a run.';

-- Every string of an input template that starts with $ must be a path ($$ begins a literal dollar).
create function fencepost_private.check_template(p_template jsonb, p_place text, p_tasks jsonb, p_of_item boolean)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $body$
declare
  v_path text;
begin
  for v_path in select t from template_paths(p_template) as t loop
    perform check_expression(v_path, 'a string of the input', p_place, p_tasks, p_of_item);
  end loop;
end
$body$;
comment on function fencepost_private.check_template(jsonb, text, jsonb, boolean) is 'Raises JE008 for a string of an input template that looks like a path and is none.';

-- A path must parse, have no variables, and read what there is: input, run, tasks and errors of this definition's
-- tasks, and in the input of a map also item and index. Errors: JE008.
create function fencepost_private.check_expression(p_path text, p_what text, p_place text, p_tasks jsonb, p_of_item boolean)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $body$
declare
  v_path jsonpath;
  v_root text;
begin
  begin
    v_path := p_path::jsonpath;
  exception when others then
    perform raise_error('JE008', format('%s is not a valid SQL/JSON path', p_what), format('at %s: received %s (%s)', p_place, quote_literal(left(p_path, 200)), sqlerrm),
      'For example $.input.amount > 1000 or $.tasks.reserve.parcels. In an input, strings that start with $ are paths; write $$ for a literal dollar.');
  end;
  if regexp_replace(v_path::text, '"(?:[^"\\]|\\.)*"', '""', 'g') like '%$""%' then
    perform raise_error('JE008', format('%s has a variable, and there are none', p_what), format('at %s: received %s', p_place, quote_literal(left(p_path, 200))),
      'Begin with $.input, $.tasks or $.run. In an input, write $$ for a literal dollar.');
  end if;
  select r into v_root
  from unnest(path_roots(v_path)) as r
  where not (r in ('input', 'run', '*') or p_of_item and r in ('item', 'index') or r ~ '^(tasks|errors)\.' and p_tasks ? substr(r, position('.' in r) + 1))
  limit 1;
  if found then
    perform raise_error('JE008', format('%s reads $.%s, which does not exist', p_what, v_root), format('at %s: received %s', p_place, quote_literal(left(p_path, 200))),
      coalesce(did_you_mean(substr(v_root, position('.' in v_root) + 1), array(select k from jsonb_object_keys(p_tasks) as k where v_root ~ '^(tasks|errors)\.')),
        'There are $.input, $.tasks.<name>, $.errors.<name> and $.run; in the input of a map also $.item and $.index.'));
  end if;
end
$body$;
comment on function fencepost_private.check_expression(text, text, text, jsonb, boolean) is 'Raises JE008 for a path that does not parse or reads what no run has.';
--! EndIncluded workflows/check_definition.sql
--! Included workflows/check_reads.sql
-- A path may read a task only where that has ended for sure: in tasks that come after it, directly or not. Elsewhere it
-- would find the output or nothing, as chance has it. p_order are the places of the tasks in topological order.
-- Errors: JE008, naming the place.
create function fencepost_private.check_reads(p_definition jsonb, p_order int[])
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_readers text[];
  v_places  text[];
  v_paths   text[];
  v_names   text[];
  v_targets text[];
  v_task    record;
  v_before  bit varying;
  v_known   bit varying[] := array_fill(null::bit varying, array[cardinality(p_order)]);   -- by task: which targets come before it, or are it
begin
  -- what is read of others than direct parents
  select array_agg(t.name), array_agg(p.key), array_agg(p.path), array_agg(n.name), array_agg(distinct n.name)
    into v_readers, v_places, v_paths, v_names, v_targets
  from jsonb_each(p_definition -> 'tasks') as t(name, spec)
  cross join lateral (
    select k.key, t.spec ->> k.key as path from unnest(array['when', 'over', 'until']) as k(key) where t.spec ? k.key
    union all
    select 'input', i.path from template_paths(t.spec -> 'input') as i(path)
  ) as p
  cross join lateral (select distinct substr(r, position('.' in r) + 1) as name from unnest(path_roots(p.path::jsonpath)) as r where r ~ '^(tasks|errors)\.') as n
  where not coalesce(t.spec -> 'after' ? n.name, false);
  if v_targets is null then
    return;
  end if;

  -- parents first: what comes before a task is its parents and what comes before them
  for v_task in
    with named as materialized (
      select t.name, t.spec -> 'after' as parents, o.task_no::int, g.bit::int
      from jsonb_each(p_definition -> 'tasks') with ordinality as t(name, spec, place)
      join unnest(p_order) with ordinality as o(place, task_no) on o.place = t.place
      left join unnest(v_targets) with ordinality as g(name, bit) on g.name = t.name
    ), above as (
      select c.task_no, array_agg(p.task_no) as parents
      from named c
      cross join lateral jsonb_array_elements_text(coalesce(c.parents, '[]')) as a(parent)
      join named p on p.name = a.parent
      group by c.task_no
    ), reads as (
      select r.reader, array_agg(g.bit::int) as bits, array_agg(r.name) as names, array_agg(r.place) as places, array_agg(r.path) as paths
      from unnest(v_readers, v_places, v_paths, v_names) as r(reader, place, path, name)
      join unnest(v_targets) with ordinality as g(name, bit) on g.name = r.name
      group by r.reader
    )
    select n.task_no, n.name, n.bit, coalesce(a.parents, '{}') as parents, coalesce(r.bits, '{}') as bits, r.names, r.places, r.paths
    from named n left join above a on a.task_no = n.task_no left join reads r on r.reader = n.name
    order by n.task_no
  loop
    v_before := repeat('0', cardinality(v_targets))::bit varying;
    for v_parent in 1..cardinality(v_task.parents) loop
      v_before := v_before | v_known[v_task.parents[v_parent]];
    end loop;
    for v_read in 1..cardinality(v_task.bits) loop
      if get_bit(v_before, v_task.bits[v_read] - 1) = 0 then
        perform raise_error('JE008', format('task %s reads task %s, which does not come before it', v_task.name, v_task.names[v_read]),
          format('at tasks.%s.%s: received %s', v_task.name, v_task.places[v_read], quote_literal(left(v_task.paths[v_read], 200))),
          format('Name %s in after, or a task that comes after it.', v_task.names[v_read]));
      end if;
    end loop;
    v_known[v_task.task_no] := case when v_task.bit is null then v_before else set_bit(v_before, v_task.bit - 1, 1) end;
  end loop;
end
$$;
comment on function fencepost_private.check_reads(jsonb, int[]) is 'Raises JE008 for a path that reads a task which does not come before its own.';
--! EndIncluded workflows/check_reads.sql
--! Included workflows/publish_workflow.sql
-- Publishes a definition as the next version of a workflow, and returns the version. Publishing an equal definition
-- again returns the version that has it and changes nothing. The definition is checked whole before anything is
-- written: keys, kinds, names, references, cycles (named), paths and what they read, intervals, numbers, sizes.
--
-- Locks: the workflow's row, so that two publications get two numbers; runs are started meanwhile.
-- Errors: JE003 (name), JE008 (definition; the message names the place).
create function fencepost.publish_workflow(name text, definition jsonb)
returns int
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now      timestamptz := fencepost_private.now();
  v_workflow record;
  v_version  workflow_version;
  v_order    int[];
begin
  if publish_workflow.name is null or publish_workflow.name !~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$' then
    perform raise_error('JE003', 'a workflow needs a name such as order.fulfil', format('received name = %s', coalesce(quote_literal(left(publish_workflow.name, 250)), 'null')),
      'Use 1 to 200 letters, digits and any of _ . : / - and start with a letter, digit or underscore.');
  end if;
  perform check_definition(publish_workflow.definition);
  v_order := task_order(publish_workflow.definition);
  perform check_reads(publish_workflow.definition, v_order);

  insert into workflow (name, created_at) values (publish_workflow.name, v_now) on conflict do nothing;
  select w.workflow_id, w.latest_version into v_workflow from workflow w where w.name = publish_workflow.name for no key update;
  select v.* into v_version from workflow_version v
  where v.workflow_id = v_workflow.workflow_id and v.checksum = md5(publish_workflow.definition::text);
  if found then
    return v_version.version;
  end if;

  insert into workflow_version (workflow_id, version, definition, checksum, tasks, compensates, created_at, created_by)
  values (v_workflow.workflow_id, v_workflow.latest_version + 1, publish_workflow.definition, md5(publish_workflow.definition::text),
          cardinality(v_order), publish_workflow.definition ->> 'on_failure' is not distinct from 'compensate', v_now, actor())
  returning * into v_version;
  perform store_tasks(v_version.version_id, publish_workflow.definition, v_order);
  -- now, so that no run has to make a type or lane while others wait for the run
  perform ensure_lane(n.type, n.priority)
  from (
    select d.type, coalesce(d.priority, 5) as priority from workflow_task d where d.version_id = v_version.version_id and d.type is not null
    union
    select d.compensate, coalesce(d.priority, 5) from workflow_task d where d.version_id = v_version.version_id and d.compensate is not null
    order by 1, 2
  ) as n;
  update workflow w set latest_version = v_version.version where w.workflow_id = v_workflow.workflow_id;
  return v_version.version;
end
$$;
comment on function fencepost.publish_workflow(text, jsonb)
  is 'Publishes a definition as the next version of a workflow and returns that; an equal one returns the version that has it. Raises JE003, JE008.';

-- Takes a checked definition apart into workflow_task and workflow_edge, numbered in topological order.
create function fencepost_private.store_tasks(p_version_id int, p_definition jsonb, p_order int[])
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
begin
  with named as materialized (
    select t.name, t.spec, t.place::int from jsonb_each(p_definition -> 'tasks') with ordinality as t(name, spec, place)
  ), numbered as materialized (
    select n.name, n.spec, o.task_no::int as task_no
    from named n join unnest(p_order) with ordinality as o(place, task_no) on o.place = n.place
  ), edges as materialized (
    select distinct p.task_no as parent_no, c.task_no as child_no
    from numbered c
    cross join lateral jsonb_array_elements_text(coalesce(c.spec -> 'after', '[]')) as a(parent)
    join numbered p on p.name = a.parent
  ), stored_edges as (
    insert into workflow_edge (version_id, parent_no, child_no) select p_version_id, e.parent_no, e.child_no from edges e
  ), parents as (
    select e.child_no, count(*)::int as n from edges e group by e.child_no
  ), children as (
    select e.parent_no, count(*)::int as n from edges e group by e.parent_no
  )
  insert into workflow_task (version_id, task_no, name, kind, parents, children, type, when_path, over_path, input, refers_to, continues, compensate,
                             priority, max_attempts, timeout, expires_after, on_expiry, on_reject, reason, delay, until_path, signal, max_parallel, child, child_version)
  select p_version_id, n.task_no, n.name, coalesce(n.spec ->> 'kind', 'job')::task_kind, coalesce(p.n, 0), coalesce(c.n, 0),
         n.spec ->> 'type', (n.spec ->> 'when')::jsonpath, (n.spec ->> 'over')::jsonpath, n.spec -> 'input', tasks_read(array_remove(array[n.spec ->> 'when', n.spec ->> 'over', n.spec ->> 'until'], null) || array(select template_paths(n.spec -> 'input'))),
         coalesce(n.spec ->> 'on_failure' = 'continue', false), n.spec ->> 'compensate',
         (n.spec ->> 'priority')::numeric::int, (n.spec #>> '{retry,max_attempts}')::numeric::int, (n.spec ->> 'timeout')::interval,
         (n.spec ->> 'expires_after')::interval, coalesce(n.spec ->> 'on_expiry', 'reject'), coalesce(n.spec ->> 'on_reject', 'fail'), n.spec ->> 'reason',
         (n.spec ->> 'delay')::interval, (n.spec ->> 'until')::jsonpath, n.spec ->> 'signal', (n.spec ->> 'max_parallel')::numeric::int,
         n.spec ->> 'workflow', (n.spec ->> 'version')::numeric::int
  from numbered n
  left join parents p on p.child_no = n.task_no
  left join children c on c.parent_no = n.task_no
  order by n.task_no;
end
$$;
comment on function fencepost_private.store_tasks(int, jsonb, int[]) is 'Stores the tasks and edges of a checked definition in topological order.';

-- Numbers the tasks so that parents come first: returns, in that order, their places in the definition.
-- Errors: JE008 when there is a cycle, which is named.
create function fencepost_private.task_order(p_definition jsonb)
returns int[]
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_names  text[] := array(select t.name from jsonb_each(p_definition -> 'tasks') with ordinality as t(name, spec, place) order by t.place);
  v_count  int := cardinality(v_names);
  v_unmet  int[];
  v_first  int[];          -- where the children of each task begin in v_child
  v_child  int[];
  v_queue  int[];
  v_head   int := 1;
  v_tail   int := 0;
  v_task   int;
  v_walk   text[] := '{}'::text[];
begin
  with edges as materialized (
    select distinct p.place::int as parent, c.place::int as child
    from jsonb_each(p_definition -> 'tasks') with ordinality as c(name, spec, place)
    cross join lateral jsonb_array_elements_text(coalesce(c.spec -> 'after', '[]')) as a(parent)
    join unnest(v_names) with ordinality as p(name, place) on p.name = a.parent
  )
  select array(select coalesce(e.n, 0)::int from generate_series(1, v_count) as g(place)
               left join (select child, count(*) as n from edges group by child) as e on e.child = g.place order by g.place),
         array(select e.child from edges e order by e.parent, e.child),
         array(select 1 + coalesce(sum(coalesce(e.n, 0)) over (order by g.place rows between unbounded preceding and 1 preceding), 0)::int
               from generate_series(1, v_count + 1) as g(place)
               left join (select parent, count(*) as n from edges group by parent) as e on e.parent = g.place order by g.place)
    into v_unmet, v_child, v_first;

  v_queue := array_fill(0, array[v_count]);
  for v_place in 1..v_count loop
    if v_unmet[v_place] = 0 then
      v_tail := v_tail + 1;
      v_queue[v_tail] := v_place;
    end if;
  end loop;
  while v_head <= v_tail loop
    v_task := v_queue[v_head];
    v_head := v_head + 1;
    for v_edge in v_first[v_task]..v_first[v_task + 1] - 1 loop
      v_unmet[v_child[v_edge]] := v_unmet[v_child[v_edge]] - 1;
      if v_unmet[v_child[v_edge]] = 0 then
        v_tail := v_tail + 1;
        v_queue[v_tail] := v_child[v_edge];
      end if;
    end loop;
  end loop;
  if v_tail = v_count then
    return v_queue;
  end if;

  -- what is left holds a cycle: walk from parent to parent until a task comes round again
  select t.place into v_task from unnest(v_unmet) with ordinality as t(unmet, place) where t.unmet > 0 order by t.place limit 1;
  while not v_names[v_task] = any (v_walk) loop
    v_walk := v_names[v_task] || v_walk;
    select p.place into v_task
    from jsonb_array_elements_text(p_definition -> 'tasks' -> v_names[v_task] -> 'after') as a(parent)
    join unnest(v_names, v_unmet) with ordinality as p(name, unmet, place) on p.name = a.parent and p.unmet > 0
    limit 1;
  end loop;
  v_walk := v_names[v_task] || v_walk[1:array_position(v_walk, v_names[v_task])];
  perform raise_error('JE008', format('tasks wait for each other in a cycle: %s', array_to_string(v_walk, ' -> ')),
    format('tasks.%s.after', v_walk[array_upper(v_walk, 1)]), 'Take one of these references away.');
  return null;   -- never reached
end
$$;
comment on function fencepost_private.task_order(jsonb) is 'A topological order of a definition''s tasks, as places in it. Raises JE008 naming a cycle.';
--! EndIncluded workflows/publish_workflow.sql
--! Included workflows/configure_workflow.sql
-- An operator changes settings of a workflow, for all its versions. null leaves a setting as it is.
--   keep_finished  how long its finished runs are kept, with their tasks, approvals, signals and idempotency keys; from
--                  nothing to 100 years, by default 7 days. What is kept longer whatever it says: see retire_runs.
-- Locks: the workflow's row. Errors: JE002; JE003 (keep_finished).
create function fencepost.configure_workflow(name text, keep_finished interval default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := fencepost_private.now();
  v     workflow;
begin
  if configure_workflow.keep_finished not between interval '0' and interval '100 years' then
    perform raise_error('JE003', 'keep_finished must be an interval such as "7 days", at most 100 years', format('received keep_finished = %s', configure_workflow.keep_finished),
      'Nothing was changed.');
  end if;
  perform find_version(configure_workflow.name, null);
  select w.* into v from workflow w where w.name = configure_workflow.name for no key update;
  if coalesce(configure_workflow.keep_finished, v.keep_finished) = v.keep_finished then
    return;
  end if;
  update workflow w set keep_finished = configure_workflow.keep_finished where w.workflow_id = v.workflow_id;
  insert into event (xid, at, tenant, kind, actor, data)
  values (xid(), v_now, current_tenant(), 'operator.workflow_configured', actor(),
          jsonb_build_object('workflow', v.name, 'before', jsonb_build_object('keep_finished', v.keep_finished), 'after', jsonb_build_object('keep_finished', configure_workflow.keep_finished)));
end
$$;
comment on function fencepost.configure_workflow(text, interval) is 'Sets how long finished runs of a workflow are kept; null leaves it as it is. Raises JE002, JE003.';
--! EndIncluded workflows/configure_workflow.sql
--! Included workflows/advance.sql
-- How runs move, set-wise, in the transaction of whatever moved them:
--
--   ends    tasks that end now, and how        ->  their children lose an unmet parent; maps start their next items
--   starts  tasks whose parents have all ended ->  skipped, queued as a job, or waiting for something
--
-- Starting a task may end it at once (a condition is false, a signal is there already), so this goes round until nothing
-- moves: at most as often as the graph is deep. Then the runs' numbers and status are settled, and child runs that
-- ended end the task that started them, which goes round again.
--
-- Times are written and read in UTC, whoever's session it is.
--
-- Plans: these statements may be planned when their tables are empty, and are kept while they grow. So the functions of
-- this folder turn the planner's other ways off in their heads: no statement of theirs is better served by reading a
-- whole table, or by hashing or sorting one, than by its index. enable_seqscan alone is enough where a statement names a
-- run or two; whatever joins many rows says hash and merge join too, and force_generic_plan where it is called so often
-- that planning it would cost more than running it. What is looked up by key stands in a lateral subquery with OFFSET 0;
-- what is updated by key is joined by `key = any (array[…])`. Either can only be an index scan, key by key: a plain join
-- may as well read the whole table through an index, while it seems small.
-- Locks: the caller holds the root runs; tasks are locked in id order, then jobs.
create function fencepost_private.advance(p_ends fencepost_private.task_end[], p_starts bigint[], p_deltas fencepost_private.run_delta[], p_now timestamptz)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set timezone = 'UTC'
as $$
declare
  v_ends   task_end[] := coalesce(p_ends, '{}'::task_end[]);
  v_starts bigint[] := coalesce(p_starts, '{}'::bigint[]);
  v_deltas run_delta[] := coalesce(p_deltas, '{}'::run_delta[]);
  v_ended  ended_task[];
  v_more   record;
begin
  loop
    while cardinality(v_ends) > 0 or cardinality(v_starts) > 0 loop
      if cardinality(v_ends) > 0 then
        v_ended := end_tasks(v_ends, p_now);
        v_deltas := v_deltas || deltas_of(v_ended);
        v_starts := v_starts || release_children(v_ended);
        select c.ends, c.deltas into v_more from count_items(v_ended, p_now) as c;
        v_ends := v_more.ends;
        v_deltas := v_deltas || v_more.deltas;
        if exists (select from unnest(v_ended) as e where e.kind = 'compensation' and e.status = 'completed') then
          select u.ends, u.deltas into v_more from undo_runs(array(select distinct e.run_id from unnest(v_ended) as e where e.kind = 'compensation'), p_now) as u;
          v_ends := v_ends || v_more.ends;
          v_deltas := v_deltas || v_more.deltas;
        end if;
      end if;
      if cardinality(v_starts) > 0 then
        select s.ends, s.starts, s.deltas into v_more from start_tasks(v_starts, p_now) as s;
        v_starts := v_more.starts;
        v_ends := v_ends || v_more.ends;
        v_deltas := v_deltas || v_more.deltas;
      end if;
    end loop;
    exit when cardinality(v_deltas) = 0;
    v_ends := settle_runs(v_deltas, p_now);
    v_deltas := '{}';
  end loop;
end
$$;
comment on function fencepost_private.advance(fencepost_private.task_end[], bigint[], fencepost_private.run_delta[], timestamptz)
  is 'Moves runs on: ends tasks, starts those that became ready, settles the runs. The caller holds the root runs.';

-- Jobs of tasks that ended. A dead letter fails its task, so does nothing else; a discarded one had failed it before.
create function fencepost_private.jobs_ended(p_ends fencepost_private.task_end[], p_now timestamptz) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  if cardinality(p_ends) > 0 then
    perform advance(p_ends, null, null, p_now);
  end if;
end
$$;
comment on function fencepost_private.jobs_ended(fencepost_private.task_end[], timestamptz) is 'Called by every ending of jobs with the tasks that end by it.';

-- Ends tasks that are still alive; others are passed over, so nothing ends twice.
create function fencepost_private.end_tasks(p_ends fencepost_private.task_end[], p_now timestamptz)
returns fencepost_private.ended_task[]
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_ended ended_task[];
begin
  with given as materialized (
    select distinct on (e.task_id) e.task_id, e.status, e.output, e.error, t.status as was, t.released as was_released, t.kind, t.run_id, r.version_id, r.tenant, r.cancelled_at is not null as run_cancelled, d.continues, d.name
    from unnest(p_ends) as e
    cross join lateral (select t.* from task t where t.task_id = e.task_id offset 0) as t
    cross join lateral (select r.* from run r where r.run_id = t.run_id offset 0) as r
    cross join lateral (select d.* from workflow_task d where d.version_id = r.version_id and d.task_no = t.task_no offset 0) as d
    where t.status in ('pending', 'queued', 'waiting')
    order by e.task_id
  ), changed as (
    update task t
    set status = g.status, output = g.output, error = g.error, finished_at = p_now, due_at = null, gate_id = null,
        released = t.released or t.item is null and (g.status in ('completed', 'skipped') or g.status = 'failed' and g.continues)
    from given g
    where t.task_id = any (array[g.task_id])
    returning t.task_id, t.run_id, g.version_id, t.task_no, t.kind, t.parent_task_id, g.was, t.status, t.released,
              t.released and not g.was_released and not g.run_cancelled as releases, g.tenant, g.name, t.error
  ), told as (
    insert into event (xid, at, tenant, kind, run_id, task_id, data)
    select xid(), p_now, c.tenant, 'task.skipped', c.run_id, c.task_id, jsonb_build_object('task', c.name, 'reason', c.error)
    from changed c where c.status = 'skipped'
  ), withdrawn as (
    update approval a set status = 'withdrawn', decided_at = p_now
    where a.approval_id = any (array(
      select o.approval_id
      from changed c cross join lateral (select a.approval_id, a.status from approval a where a.task_id = c.task_id offset 0) as o
      where c.status in ('cancelled', 'failed') and o.status = 'pending'))
  )
  select array_agg(row(c.task_id, c.run_id, c.version_id, c.task_no, c.kind, c.parent_task_id, c.was, c.status, c.released, c.releases)::ended_task order by c.task_id)
    into v_ended
  from changed c;
  return coalesce(v_ended, '{}'::ended_task[]);
end
$$;
comment on function fencepost_private.end_tasks(fencepost_private.task_end[], timestamptz) is 'Ends tasks that are alive and returns them with what they were before.';

-- What ended tasks change in the numbers of their runs. Items count only as queued: their map stands for them.
create function fencepost_private.deltas_of(p_ended fencepost_private.ended_task[])
returns fencepost_private.run_delta[]
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select coalesce(array_agg(d.delta), '{}')
  from (
    select row(e.run_id,
      -count(*) filter (where e.was = 'pending' and e.kind not in ('item', 'compensation')),
      -count(*) filter (where e.was = 'queued'),
      -count(*) filter (where e.was = 'waiting'),
      count(*) filter (where e.kind not in ('item', 'compensation') and (e.status in ('completed', 'skipped') or e.status = 'failed' and e.released)),
      count(*) filter (where e.kind not in ('item', 'compensation') and e.status = 'failed' and not e.released),
      count(*) filter (where e.kind not in ('item', 'compensation') and e.status = 'cancelled'),
      -count(*) filter (where e.kind = 'compensation' and e.status = 'completed'),
      count(*) filter (where e.kind = 'compensation' and e.status in ('failed', 'cancelled')))::run_delta as delta
    from unnest(p_ended) as e
    group by e.run_id
  ) as d
$$;
comment on function fencepost_private.deltas_of(fencepost_private.ended_task[]) is 'What ended tasks change in the numbers of their runs.';

-- Takes an unmet parent from the children of tasks that ended well. Returns the children that have none left.
-- Locks: those children, in the order of runs and tasks. A statement of its own: it sees what others did before it.
create function fencepost_private.release_children(p_ended fencepost_private.ended_task[])
returns bigint[]
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_ready bigint[];
begin
  with hit as materialized (
    select c.task_id, count(*)::int as met, (count(*) filter (where e.status = 'skipped'))::int as skipped
    from unnest(p_ended) as e
    cross join lateral (select w.child_no from workflow_edge w where w.version_id = e.version_id and w.parent_no = e.task_no offset 0) as w
    cross join lateral (select t.task_id from task t where t.run_id = e.run_id and t.task_no = w.child_no and t.item is null offset 0) as c
    where e.releases
    group by c.task_id
    order by c.task_id
  ), met as (
    update task t set unmet = t.unmet - h.met, skipped_parents = t.skipped_parents + h.skipped
    from hit h
    where t.task_id = any (array[h.task_id]) and t.status = 'pending'
    returning t.task_id, t.unmet
  )
  select array_agg(m.task_id order by m.task_id) filter (where m.unmet = 0) into v_ready from met m;
  return coalesce(v_ready, '{}'::bigint[]);
end
$$;
comment on function fencepost_private.release_children(fencepost_private.ended_task[]) is 'Counts ended parents off their children and returns the children that have no unmet parent left.';
--! EndIncluded workflows/advance.sql
--! Included workflows/items.sql
-- Maps: one job for each element of an array, at most max_parallel at once. The map's row counts its items once a
-- batch, however many of them ended in it.

create function fencepost_private.array_length_of(p_value jsonb)
returns int
language sql
immutable
return case jsonb_typeof(p_value) when 'array' then jsonb_array_length(p_value) end;
comment on function fencepost_private.array_length_of(jsonb) is 'Number of elements of a JSON array; null for anything else.';

create function fencepost_private.map_place(p_task_id bigint) returns text
language sql immutable
return 'map ' || p_task_id;
comment on function fencepost_private.map_place(bigint) is 'What a parked item of this map waits for.';

-- Starts the next items of these maps, as many as max_parallel leaves room for: first those that came back from the
-- dead and were parked for room, then new ones, a few at once like all payloads.
create function fencepost_private.start_items(p_map_ids bigint[], p_now timestamptz, out ends fencepost_private.task_end[], out deltas fencepost_private.run_delta[])
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_maps bigint[] := p_map_ids;
  v_held bigint[];
  v_due  due_task[];
  v_more record;
begin
  ends := '{}';
  deltas := '{}';
  if cardinality(p_map_ids) = 0 then
    return;
  end if;
  v_held := array(
    select h.id from room_in(p_map_ids) as w
    cross join lateral (select p.id from parked p where p.waits_for = w.place order by p.id limit w.room) as h
    where w.held > 0 and w.room > 0);
  if cardinality(v_held) > 0 then
    perform unpark_jobs(v_held);
  end if;

  while cardinality(v_maps) > 0 loop
    with room as materialized (
      select m.task_id, m.run_id, m.items_started as first_item, least(m.items - m.items_started, w.room) as wanted,
             r.tenant, d.type, coalesce(d.priority, r.priority, 5) as priority, d.max_attempts, d.timeout
      from room_in(v_maps) as w
      cross join lateral (select m.* from task m where m.task_id = w.task_id offset 0) as m
      cross join lateral (select r.* from run r where r.run_id = m.run_id offset 0) as r
      cross join lateral (select d.* from workflow_task d where d.version_id = r.version_id and d.task_no = m.task_no offset 0) as d
      where w.room > 0 and m.items_started < m.items
    ), shared as materialized (
      select r.*, greatest(0, least(r.wanted, payloads_at_once(v_due) - (sum(r.wanted) over (order by r.task_id) - r.wanted)))::int as many from room r
    ), moved as (
      update task m set items_started = m.items_started + s.many from shared s where m.task_id = any (array[s.task_id]) and s.many > 0
    )
    select array(
             select row(t.task_id, t.run_id, t.task_no, 'item', s.tenant, s.type, s.priority, s.max_attempts, s.timeout, t.input,
                        false, null, null, null, null, null, null, null, null, null)::due_task
             from shared s
             cross join lateral (
               select t.* from task t where t.parent_task_id = s.task_id and t.item >= s.first_item and t.item < s.first_item + s.many offset 0
             ) as t
             order by t.task_id),
           array(select s.task_id from shared s where s.many < s.wanted order by s.task_id)
      into v_due, v_maps;
    if cardinality(v_due) > 0 then
      select q.ends, q.deltas into v_more from queue_tasks(v_due, p_now) as q;
      ends := ends || v_more.ends;
      deltas := deltas || v_more.deltas;
    end if;
  end loop;
end
$$;
comment on function fencepost_private.start_items(bigint[], timestamptz) is 'Enqueues the next items of these maps, within max_parallel.';

-- For how many more items each of these maps has room, what its parked items wait for, and how many those are. Maps of
-- runs that are paused, cancelled or compensating have none.
create function fencepost_private.room_in(p_map_ids bigint[])
returns table (task_id bigint, room int, place text, held int)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
begin
  return query
  select m.task_id, coalesce(d.max_parallel, m.items) - (m.items_started - (m.items - m.items_open) - coalesce(h.n, 0)), h.place, coalesce(h.n, 0)
  from unnest(p_map_ids) as i(task_id)
  cross join lateral (select m.* from task m where m.task_id = i.task_id offset 0) as m
  cross join lateral (select r.* from run r where r.run_id = m.run_id offset 0) as r
  cross join lateral (select d.* from workflow_task d where d.version_id = r.version_id and d.task_no = m.task_no offset 0) as d
  left join lateral (
    select map_place(m.task_id) as place, count(*)::int as n from parked p where p.waits_for = map_place(m.task_id)
  ) as h on d.max_parallel is not null
  where m.status = 'waiting' and r.paused_at is null and r.cancelled_at is null and r.compensating_at is null;
end
$$;
comment on function fencepost_private.room_in(bigint[]) is 'How many more items may run of each of these maps, and how many are parked for room.';

-- Counts ended items on their maps, starts the next ones, and ends maps that have none left: completed with the outputs
-- in order, or failed when an item did.
create function fencepost_private.count_items(p_ended fencepost_private.ended_task[], p_now timestamptz, out ends fencepost_private.task_end[], out deltas fencepost_private.run_delta[])
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_maps bigint[];
  v_done bigint[];
  v_more record;
begin
  ends := '{}';
  deltas := '{}';
  with ended as materialized (
    select e.parent_task_id as map_id, count(*)::int as n, (count(*) filter (where e.status <> 'completed'))::int as failed
    from unnest(p_ended) as e where e.kind = 'item' group by e.parent_task_id order by e.parent_task_id
  ), counted as (
    update task m set items_open = m.items_open - e.n, items_failed = m.items_failed + e.failed
    from ended e where m.task_id = any (array[e.map_id])
    returning m.task_id, m.items_open
  )
  select array_agg(c.task_id) filter (where c.items_open > 0), array_agg(c.task_id) filter (where c.items_open = 0) into v_maps, v_done from counted c;
  if v_maps is not null then
    select i.ends, i.deltas into v_more from start_items(v_maps, p_now) as i;
    ends := v_more.ends;
    deltas := v_more.deltas;
  end if;
  if v_done is not null then
    ends := ends || array(
      select row(m.task_id, case when m.items_failed = 0 then 'completed' else 'failed' end,
                 case when m.items_failed = 0 then (select jsonb_agg(coalesce(t.output, 'null') order by t.item) from task t where t.parent_task_id = m.task_id) end,
                 case when m.items_failed > 0 then format('%s of %s items failed', m.items_failed, m.items) end)::task_end
      from unnest(v_done) as d(task_id) cross join lateral (select m.* from task m where m.task_id = d.task_id offset 0) as m
      order by m.task_id);
  end if;
end
$$;
comment on function fencepost_private.count_items(fencepost_private.ended_task[], timestamptz) is 'Counts ended items on their maps, starts further ones, and returns the maps that end.';
--! EndIncluded workflows/items.sql
--! Included workflows/start_tasks.sql
-- Starts tasks whose parents have all ended: each is skipped, gets a job, or begins to wait. Those of runs that are
-- paused, cancelled or compensating stay as they are. Returns the tasks that end at once, the first tasks of child runs,
-- and what changes in the runs' numbers.
--
-- The join rule: a task is skipped when its condition is false, or when it has parents and all of them were skipped.
-- A condition that is neither true nor false opens no gate: it fails its task, and so does an input, `over` or `until`
-- that cannot be evaluated.
--
-- What they need is read for some of them at once: see payloads_at_once.
create function fencepost_private.start_tasks(
  p_task_ids bigint[], p_now timestamptz, out ends fencepost_private.task_end[], out starts bigint[], out deltas fencepost_private.run_delta[])
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_first int := 1;
  v_next  int;
  v_due   due_task[];
  v_kinds task_kind[];
  v_more  record;
begin
  ends := '{}';
  starts := '{}';
  deltas := '{}';
  while v_first <= cardinality(p_task_ids) loop
    v_next := v_first + payloads_at_once(v_due);
    v_due := due_tasks(p_task_ids[v_first : v_next - 1], p_now);
    v_first := v_next;
    ends := ends || array(select row(d.task_id, d.ends_as, null, d.reason)::task_end from unnest(v_due) as d where d.ends_as is not null);
    v_due := array(select d from unnest(v_due) as d where d.ends_as is null);
    v_kinds := array(select distinct d.kind from unnest(v_due) as d);
    if 'job' = any (v_kinds) then
      select q.ends, q.deltas into v_more from queue_tasks(array(select d from unnest(v_due) as d where d.kind = 'job'), p_now) as q;
      ends := ends || v_more.ends;
      deltas := deltas || v_more.deltas;
    end if;
    if v_kinds && array['approval', 'timer', 'signal', 'map', 'workflow']::task_kind[] then
      select w.ends, w.starts, w.deltas into v_more from await_tasks(array(select d from unnest(v_due) as d where d.kind <> 'job'), p_now) as w;
      ends := ends || v_more.ends;
      starts := starts || v_more.starts;
      deltas := deltas || v_more.deltas;
    end if;
  end loop;
end
$$;
comment on function fencepost_private.start_tasks(bigint[], timestamptz) is 'Starts tasks whose parents have ended; returns those that end at once, those of child runs, and what changes in the runs'' numbers.';

-- How many payloads to build next: those that make some 4 MB, if they are like the last ones. Each may be as large as its
-- type allows, an array holds a gigabyte, and what is larger than work_mem is sorted on disk.
create function fencepost_private.payloads_at_once(p_last fencepost_private.due_task[])
returns int
language sql stable
return least(500, greatest(1, coalesce(nullif(cardinality(p_last), 0) * 4e6 / pg_column_size(p_last), 100)))::int;
comment on function fencepost_private.payloads_at_once(fencepost_private.due_task[]) is 'How many payloads to build next, by the size of the last ones.';

-- A text as a moment in time, or null when it is none.
create function fencepost_private.try_time(p_text text)
returns timestamptz
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return case when isfinite(p_text::timestamptz) then p_text::timestamptz end;
exception when data_exception then
  return null;
end
$$;
comment on function fencepost_private.try_time(text) is 'A text as a moment in time; null when it is none.';

-- Reads what the start of these tasks needs: conditions, payloads, times, items. Pending tasks without an unmet parent only.
create function fencepost_private.due_tasks(p_task_ids bigint[], p_now timestamptz)
returns fencepost_private.due_task[]
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_due due_task[];
begin
  with due as materialized (
    select t.task_id, t.run_id, r.tenant, r.input as run_input, r.priority as run_priority, d.*,
           d.parents > 0 and t.skipped_parents = d.parents as all_skipped
    from unnest(p_task_ids) as i(task_id)
    cross join lateral (select t.* from task t where t.task_id = i.task_id offset 0) as t
    cross join lateral (select r.* from run r where r.run_id = t.run_id offset 0) as r
    cross join lateral (select d.* from workflow_task d where d.version_id = r.version_id and d.task_no = t.task_no offset 0) as d
    where t.status = 'pending' and t.unmet = 0 and t.item is null
      and r.paused_at is null and r.cancelled_at is null and r.compensating_at is null
  ), seen as materialized (
    select d.*, c.context, w.problem, d.all_skipped or w.holds is false as is_skipped
    from due d
    left join lateral (
      select run_context(d.run_id, d.task_no, d.refers_to) as context
      where not d.all_skipped and (d.when_path is not null or d.over_path is not null or d.until_path is not null or d.input is not null)
    ) as c on true
    cross join lateral decided(case when not d.all_skipped then d.when_path end, c.context) as w
  ), starting as materialized (
    select s.*, s.problem is null and not s.is_skipped as goes_on from seen s
  )
  select coalesce(array_agg(row(
    s.task_id, s.run_id, s.task_no, s.kind, s.tenant, s.type, coalesce(s.priority, s.run_priority, 5), s.max_attempts, s.timeout,
    case when not s.goes_on or s.kind not in ('job', 'workflow') then null
         when s.input is not null then filled.value
         else jsonb_build_object('input', s.run_input, 'tasks', parents.outputs) end,
    s.compensate is not null,
    case when s.is_skipped then 'skipped' when e.problem is not null then 'failed' end,
    case when s.all_skipped then 'all its parents were skipped' when s.is_skipped then format('its condition is false: %s', s.when_path) else e.problem end,
    p_now + s.expires_after,
    case when s.kind = 'timer' then coalesce(p_now + s.delay, t.until) end,
    s.signal,
    case when s.kind = 'map' then o.value end,
    case when s.kind = 'map' then filled.value end,
    s.child, s.child_version)::due_task order by s.task_id), '{}') into v_due
  from starting s
  cross join lateral try_filled(case when s.goes_on then s.input end, s.context, s.kind = 'map') as filled
  cross join lateral try_value(case when s.goes_on then s.over_path end, s.context) as o
  cross join lateral try_value(case when s.goes_on then s.until_path end, s.context) as u
  cross join lateral (select try_time(u.value #>> '{}') as until offset 0) as t
  cross join lateral (
    select case when not s.goes_on then s.problem
                when filled.problem is not null then filled.problem
                when o.problem is not null or u.problem is not null then concat_ws(': ', case s.kind when 'map' then 'over' else 'until' end || ' cannot be evaluated', o.problem, u.problem)
                when s.kind = 'map' and jsonb_typeof(o.value) is distinct from 'array' then format('over did not give an array but %s', described(o.value))
                when s.until_path is not null and t.until is null then format('until did not give a time but %s', described(u.value)) end as problem
    offset 0
  ) as e
  left join lateral (
    select coalesce(jsonb_object_agg(d.name, coalesce(p.output, 'null')) filter (where p.status in ('completed', 'failed')), '{}') as outputs
    from (select e.parent_no from workflow_edge e where e.version_id = s.version_id and e.child_no = s.task_no offset 0) as e
    cross join lateral (select t.status, t.output from task t where t.run_id = s.run_id and t.task_no = e.parent_no and t.item is null offset 0) as p
    cross join lateral (select d.name from workflow_task d where d.version_id = s.version_id and d.task_no = e.parent_no offset 0) as d
    where s.goes_on and s.kind in ('job', 'workflow') and s.input is null
  ) as parents on true;
  return v_due;
end
$$;
comment on function fencepost_private.due_tasks(bigint[], timestamptz) is 'What the start of these tasks needs, for those that may start now.';

-- Gives tasks their jobs. A payload that its type refuses fails the task instead of whoever moved the run.
create function fencepost_private.queue_tasks(p_due fencepost_private.due_task[], p_now timestamptz, out ends fencepost_private.task_end[], out deltas fencepost_private.run_delta[])
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_jobs new_job[];
begin
  -- a statement of its own: the next one must see the types and lanes that it makes
  perform ensure_lane(n.type, n.priority) from (select distinct d.type, d.priority from unnest(p_due) as d order by d.type, d.priority) as n;
  with checked as materialized (
    select d.*, l.lane_id, l.type_id,
           case when octet_length(d.payload::text) > t.max_payload_bytes then format('JE006: the payload for %s is too large: %s bytes of at most %s', d.type, octet_length(d.payload::text), t.max_payload_bytes)
                when t.payload_check is not null and jsonb_path_match(d.payload, t.payload_check, silent => true) is not true
                then format('JE006: the payload for %s fails the check of its type: %s', d.type, t.payload_check) end as refusal
    from unnest(p_due) as d
    join job_type t on t.type = d.type
    join lane l on l.type_id = t.type_id and l.priority = d.priority and l.flow = 0
  )
  select array_agg(row(nextval('job_id_seq'), 1, c.type_id, c.lane_id, c.tenant, c.payload, null, null, c.max_attempts, c.timeout, null, c.run_id, c.task_id, null)::new_job order by c.task_id)
           filter (where c.refusal is null),
         coalesce(array_agg(row(c.task_id, 'failed', null, c.refusal)::task_end) filter (where c.refusal is not null), '{}')
    into v_jobs, ends
  from checked c;

  perform enqueue_rows(coalesce(v_jobs, '{}'::new_job[]), p_now, p_trusted => true);
  with queued as (
    update task t set status = 'queued', job_id = j.id, ready_at = p_now
    from unnest(v_jobs) as j
    where t.task_id = any (array[j.task_id])
    returning t.run_id, t.kind
  )
  select coalesce(array_agg(d.delta), '{}') into deltas
  from (select row(q.run_id, -count(*) filter (where q.kind not in ('item', 'compensation')), count(*), 0, 0, 0, 0, 0, 0)::run_delta as delta
        from queued q group by q.run_id) as d;
  if exists (select from unnest(p_due) as d where d.keeps_input) then
    update task t set input = d.payload from unnest(p_due) as d where d.keeps_input and t.task_id = any (array[d.task_id]);
  end if;
end
$$;
comment on function fencepost_private.queue_tasks(fencepost_private.due_task[], timestamptz) is 'Enqueues the jobs of these tasks; those whose payload is refused fail.';

-- Lets approvals, timers, signals, maps and child workflows begin to wait. What is there already ends at once.
create function fencepost_private.await_tasks(
  p_due fencepost_private.due_task[], p_now timestamptz, out ends fencepost_private.task_end[], out starts bigint[], out deltas fencepost_private.run_delta[])
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_unfit task_end[];
  v_more  record;
  v_child record;
begin
  with waiting as (
    update task t
    set status = 'waiting', ready_at = p_now, due_at = coalesce(d.due_at, d.expires_at),
        items = array_length_of(d.items), items_started = 0, items_open = array_length_of(d.items), items_failed = 0
    from unnest(p_due) as d
    where t.task_id = any (array[d.task_id])
    returning t.task_id, t.run_id
  ), asked as (
    insert into approval (run_id, task_id, reason, requested_at, requested_by, expires_at)
    select d.run_id, d.task_id, coalesce(w.reason, w.name), p_now, 'workflow', d.expires_at
    from unnest(p_due) as d
    cross join lateral (select r.version_id from run r where r.run_id = d.run_id offset 0) as r
    cross join lateral (select w.name, w.reason from workflow_task w where w.version_id = r.version_id and w.task_no = d.task_no offset 0) as w
    where d.kind = 'approval'
    order by d.task_id
    returning approval_id, run_id, task_id, expires_at
  ), told as (
    insert into event (xid, at, tenant, kind, run_id, task_id, data)
    select xid(), p_now, r.tenant, 'approval.requested', a.run_id, a.task_id, jsonb_strip_nulls(jsonb_build_object('approval_id', a.approval_id, 'expires_at', a.expires_at))
    from asked a cross join lateral (select r.tenant from run r where r.run_id = a.run_id offset 0) as r
  ), maps as materialized (
    select d.task_id, d.run_id, d.task_no, d.items, d.template,
           -- only for expressions that read the item and something else at once
           case when exists (select from template_paths(d.template) as p where not path_roots(p::jsonpath) <@ '{item,index}') then run_context(d.run_id, d.task_no, null) else '{}' end as context
    from unnest(p_due) as d
    where d.kind = 'map'
  ), itemised as (
    insert into task (run_id, task_no, kind, status, parent_task_id, item, input, error)
    select o.run_id, o.task_no, 'item', 'pending', o.task_id, o.item, case when o.template is null then o.own else f.value end, f.problem
    from (
      -- ordered first: what is filled in may be large
      select m.*, i.place - 1 as item, jsonb_build_object('item', i.element, 'index', i.place - 1) as own
      from (select m.task_id, m.run_id, m.task_no, m.template, m.context, m.items from maps m order by m.task_id offset 0) as m
      cross join lateral jsonb_array_elements(m.items) with ordinality as i(element, place)
      offset 0
    ) as o
    cross join lateral try_filled(o.template, o.context || o.own, false) as f
    returning parent_task_id, item, error
  )
  select coalesce(array_agg(d.delta), '{}'),
         array(select distinct on (i.parent_task_id) row(i.parent_task_id, 'failed', null, format('item %s: %s', i.item, i.error))::task_end
               from itemised i where i.error is not null order by i.parent_task_id, i.item)
    into deltas, v_unfit
  from (select row(w.run_id, -count(*), 0, count(*), 0, 0, 0, 0, 0)::run_delta as delta from waiting w group by w.run_id) as d;
  -- one item that cannot be given its input fails the map before any begins
  delete from task t where t.parent_task_id = any (array(select u.task_id from unnest(v_unfit) as u));
  update task t set items = null, items_open = null where t.task_id = any (array(select u.task_id from unnest(v_unfit) as u));

  select coalesce(array_agg(row(e.task_id, e.status, e.output, e.error)::task_end), '{}') into ends
  from (
    select d.task_id, 'completed' as status, to_jsonb(d.due_at) as output, null as error from unnest(p_due) as d where d.kind = 'timer' and d.due_at <= p_now
    union all
    select d.task_id, 'completed', '[]'::jsonb, null from unnest(p_due) as d where d.kind = 'map' and d.items = '[]'
    union all
    select s.task_id, 'completed', s.payload, null
    from take_signals(array(select d.task_id from unnest(p_due) as d where d.kind = 'signal')) as s
  ) as e;

  select i.ends, i.deltas into v_more
  from start_items(array(
    select d.task_id from unnest(p_due) as d
    where d.kind = 'map' and d.items <> '[]' and not exists (select from unnest(v_unfit) as u where u.task_id = d.task_id)), p_now) as i;
  ends := ends || v_unfit || v_more.ends;
  deltas := deltas || v_more.deltas;

  starts := '{}';
  for v_child in select d.task_id, d.run_id, d.payload, d.child, d.child_version from unnest(p_due) as d where d.kind = 'workflow' order by d.task_id loop
    select c.failure, c.starts into v_more from start_child(v_child.task_id, v_child.run_id, v_child.child, v_child.child_version, v_child.payload, p_now) as c;
    starts := starts || v_more.starts;
    if v_more.failure is not null then
      ends := ends || row(v_child.task_id, 'failed', null, v_more.failure)::task_end;
    end if;
  end loop;
end
$$;
comment on function fencepost_private.await_tasks(fencepost_private.due_task[], timestamptz) is 'Lets tasks that are no jobs begin to wait; returns those that end at once, and the first tasks of child runs.';
--! EndIncluded workflows/start_tasks.sql
--! Included workflows/settle_runs.sql
-- The one place that writes the status of a run, from its numbers. The first that holds:
--   cancelled · compensated · failed (a compensation failed) · compensating · paused · failed (a task failed or was
--   cancelled singly) · completed (all ended well) · waiting (nothing queued) · running
-- Starts compensation when a failed run has nothing queued any more. Returns the ends of parent tasks whose child run
-- ended: once nothing of it is queued, so that what its parent does next does not overtake it.
create function fencepost_private.settle_runs(p_deltas fencepost_private.run_delta[], p_now timestamptz)
returns fencepost_private.task_end[]
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_changed record;
  v_ends    task_end[];
  v_undo    record;
begin
  with delta as materialized (
    select d.run_id, sum(d.pending) as pending, sum(d.queued) as queued, sum(d.waiting) as waiting, sum(d.ended_well) as ended_well,
           sum(d.failed) as failed, sum(d.cancelled) as cancelled, sum(d.undoing) as undoing, sum(d.undo_failed) as undo_failed
    from unnest(p_deltas) as d group by d.run_id order by d.run_id
  ), summed as materialized (
    select r.run_id, r.status as was, r.parent_task_id, r.tenant, v.compensates, r.cancelled_at, r.paused_at, r.compensating_at, r.finished_at,
           r.pending + d.pending as pending, r.queued + d.queued as queued, r.waiting + d.waiting as waiting, r.ended_well + d.ended_well as ended_well,
           r.failed + d.failed as failed, r.cancelled + d.cancelled as cancelled, r.undoing + d.undoing as undoing, r.undo_failed + d.undo_failed as undo_failed
    from delta d
    cross join lateral (select r.* from run r where r.run_id = d.run_id offset 0) as r
    cross join lateral (select v.compensates from workflow_version v where v.version_id = r.version_id offset 0) as v
  ), derived as materialized (
    select s.*, run_status_of(s.cancelled_at, s.compensating_at, s.paused_at, s.pending::int, s.queued::int, s.waiting::int, s.failed::int, s.cancelled::int, s.undoing::int, s.undo_failed::int) as status
    from summed s
  ), written as (
    update run r
    set pending = d.pending, queued = d.queued, waiting = d.waiting, ended_well = d.ended_well, failed = d.failed, cancelled = d.cancelled,
        undoing = d.undoing, undo_failed = d.undo_failed, status = d.status,
        finished_at = case when d.status in ('completed', 'compensated') or d.status in ('failed', 'cancelled') and d.queued = 0 and (d.waiting = 0 or d.status = 'cancelled')
                           then coalesce(r.finished_at, p_now) end
    from derived d where r.run_id = any (array[d.run_id])
    returning r.run_id, r.root_run_id, d.was, r.status, r.tenant, r.parent_task_id, r.queued, d.compensates and r.compensating_at is null and r.status = 'failed' and r.queued = 0 as must_undo
  ), told as (
    insert into event (xid, at, tenant, kind, run_id, task_id)
    select xid(), p_now, w.tenant, ('run.' || w.status)::event_kind, w.run_id, w.parent_task_id
    from written w
    where w.status is distinct from w.was and w.status in ('completed', 'failed', 'cancelled', 'compensated')
    order by w.run_id
  )
  select array_agg(distinct w.root_run_id) filter (where w.root_run_id <> w.run_id) as roots,
         array_agg(w.run_id) filter (where w.must_undo) as undo,
         array_agg(w.run_id) filter (where w.parent_task_id is not null and w.queued = 0 and w.status in ('completed', 'failed', 'cancelled', 'compensated') and not w.must_undo) as children
    into v_changed
  from written w;

  v_ends := '{}';
  if v_changed.roots is not null then
    perform touch_roots(v_changed.roots);
  end if;
  if v_changed.undo is not null then
    perform begin_compensation(u.run_id, p_now) from (select u from unnest(v_changed.undo) as u order by u desc) as u(run_id);   -- inner runs first
  end if;
  if v_changed.children is not null then
    v_ends := array(
      select row(r.parent_task_id, case r.status when 'completed' then 'completed' else 'failed' end,
                 case when r.status = 'completed' then run_output(r.run_id) end,
                 case when r.status <> 'completed' then format('child run %s ended as %s', r.run_id, r.status) end)::task_end
      from run r where r.run_id = any (v_changed.children)
      order by r.parent_task_id);
    select u.ends, u.deltas into v_undo from undo_runs(waiting_to_undo(v_changed.children), p_now) as u;
    if cardinality(v_undo.deltas) > 0 or cardinality(v_undo.ends) > 0 then
      perform advance(v_undo.ends, null, v_undo.deltas, p_now);
    end if;
  end if;
  return v_ends;
end
$$;
comment on function fencepost_private.settle_runs(fencepost_private.run_delta[], timestamptz)
  is 'Applies changes to the numbers of runs and derives their status; returns the ends of tasks whose child run ended.';

-- The cast stands at the first word, not around the whole: only so is it immutable, and the call inlined.
create function fencepost_private.run_status_of(
  p_cancelled_at timestamptz, p_compensating_at timestamptz, p_paused_at timestamptz, p_pending int, p_queued int, p_waiting int, p_failed int, p_cancelled int,
  p_undoing int, p_undo_failed int)
returns fencepost_private.run_status
language sql
immutable
return case
  when p_cancelled_at is not null then 'cancelled'::fencepost_private.run_status
  when p_compensating_at is not null and p_undoing = 0 then 'compensated'
  when p_compensating_at is not null and p_undo_failed > 0 then 'failed'
  when p_compensating_at is not null then 'compensating'
  when p_paused_at is not null then 'paused'
  when p_failed + p_cancelled > 0 then 'failed'
  when p_pending + p_queued + p_waiting = 0 then 'completed'
  when p_queued = 0 then 'waiting'
  else 'running' end;
comment on function fencepost_private.run_status_of(timestamptz, timestamptz, timestamptz, int, int, int, int, int, int, int) is 'The status of a run, from its numbers: the first rule that holds.';

-- The output of a run: the outputs of the tasks that no other waits for, by name.
create function fencepost_private.run_output(p_run_id bigint)
returns jsonb
language sql
stable
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select coalesce(jsonb_object_agg(d.name, coalesce(t.output, 'null')), '{}')
  from run r
  join workflow_task d on d.version_id = r.version_id and d.children = 0
  join task t on t.run_id = r.run_id and t.task_no = d.task_no and t.item is null and t.status = 'completed'
  where r.run_id = p_run_id
$$;
comment on function fencepost_private.run_output(bigint) is 'Outputs of the last tasks of a run, by name.';
--! EndIncluded workflows/settle_runs.sql
--! Included workflows/compensate.sql
-- Undoing. Once a failed run of a workflow with on_failure "compensate" has nothing queued, what still waits is cancelled
-- and the completed tasks that name `compensate` are undone one after another, children before parents, each with the
-- input and the output that it had. An undoing is a job like any other: retried, dead-lettered when it cannot be done
-- (the run is then failed), and replayed from there.
--
-- Runs inside of it that are still alive are cancelled, but for those of workflows that undo themselves: what is alive in
-- these is cancelled, so that they have failed and do so. The first undoing waits until the last of them has ended.
create function fencepost_private.begin_compensation(p_run_id bigint, p_now timestamptz)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_inner bigint[];
  v_more  record;
begin
  update run r set compensating_at = p_now, finished_at = null
  where r.run_id = p_run_id and r.compensating_at is null and r.cancelled_at is null;
  if not found then
    return;      -- another run of its family had it cancelled meanwhile
  end if;
  with undo as (
    insert into task (run_id, task_no, kind, status, parent_task_id, item)
    select t.run_id, t.task_no, 'compensation', 'pending', t.task_id, 0
    from task t
    join run r on r.run_id = t.run_id
    join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
    where t.run_id = p_run_id and t.status = 'completed' and t.item is null and d.compensate is not null
    returning task_id
  )
  update run r set undoing = (select count(*) from undo) where r.run_id = p_run_id;

  perform advance(array(
    select row(t.task_id, 'cancelled', null, 'the run is being compensated')::task_end
    from task t where t.run_id = p_run_id and t.status in ('pending', 'waiting') and t.kind <> 'compensation' order by t.task_id), null, null, p_now);
  with stopped as (
    update run c
    set cancelled_at = case when v.compensates then null else p_now end, paused_at = null, reason = 'the run around it is being compensated'
    from workflow_version v
    where c.run_id = any (run_family(p_run_id)) and c.run_id <> p_run_id and v.version_id = c.version_id
      and c.finished_at is null and c.cancelled_at is null and c.compensating_at is null
    returning c.run_id
  )
  select array_agg(s.run_id) into v_inner from stopped s;
  if v_inner is not null then
    perform stop_runs(v_inner, 'the run around it is being compensated', p_now);
  end if;
  select u.ends, u.deltas into v_more from undo_runs(array[p_run_id], p_now) as u;
  perform advance(v_more.ends, null, v_more.deltas || row(p_run_id, 0, 0, 0, 0, 0, 0, 0, 0)::run_delta, p_now);
end
$$;
comment on function fencepost_private.begin_compensation(bigint, timestamptz) is 'Cancels what still waits in a failed run and starts to undo its completed tasks.';

-- Enqueues, for each of these runs that is compensating, the undoing that is last in the topological order, unless one is
-- queued already, one has failed, somebody holds the run, or a child run has not come to its end.
create function fencepost_private.undo_runs(p_run_ids bigint[], p_now timestamptz, out ends fencepost_private.task_end[], out deltas fencepost_private.run_delta[])
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
begin
  select q.ends, q.deltas into ends, deltas
  from queue_tasks(array(
    select row(u.task_id, u.run_id, u.task_no, 'compensation', r.tenant, d.compensate, coalesce(d.priority, r.priority, 5), null, null,
               jsonb_build_object('task', d.name, 'input', t.input, 'output', t.output, 'run', jsonb_build_object('id', r.run_id, 'input', r.input)),
               false, null, null, null, null, null, null, null, null, null)::due_task
    from unnest(p_run_ids) as i(run_id)
    join run r on r.run_id = i.run_id and r.compensating_at is not null and r.cancelled_at is null and r.paused_at is null and r.undoing > 0 and r.undo_failed = 0
    cross join lateral (
      select c.* from task c where c.run_id = r.run_id and c.kind = 'compensation' and c.status = 'pending' order by c.task_no desc limit 1
    ) as u
    join task t on t.task_id = u.parent_task_id
    join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
    where not exists (select from task q where q.run_id = r.run_id and q.kind = 'compensation' and q.status = 'queued')
      and not exists (
        select from run c
        where c.root_run_id = r.root_run_id and c.root_run_id <> c.run_id and c.depth > r.depth and c.finished_at is null and c.run_id = any (run_family(r.run_id)))), p_now) as q;
end
$$;
comment on function fencepost_private.undo_runs(bigint[], timestamptz) is 'Enqueues the next undoing of each of these runs; returns those whose payload is refused, and what changes in the runs'' numbers.';

-- Runs around these child runs, which have ended, that wait for them before they undo what they did.
create function fencepost_private.waiting_to_undo(p_run_ids bigint[])
returns bigint[]
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  with recursive around as (
    select t.run_id from run c join task t on t.task_id = c.parent_task_id where c.run_id = any (p_run_ids)
    union
    select t.run_id from around a join run c on c.run_id = a.run_id join task t on t.task_id = c.parent_task_id
  )
  select coalesce(array_agg(r.run_id), '{}') from around a join run r on r.run_id = a.run_id where r.compensating_at is not null and r.undoing > 0
$$;
comment on function fencepost_private.waiting_to_undo(bigint[]) is 'Runs around these child runs that are compensating.';
--! EndIncluded workflows/compensate.sql
--! Included workflows/start_run.sql
-- Starts a run of a workflow, in the caller's transaction, and returns its id.
--   workflow         its name
--   input            JSON for the run, at most 1 MiB, checked against the definition's schema; default {}
--   version          default the latest; the run stays on it for life
--   idempotency_key  the same key for the same workflow and tenant gives the same run
--   tags             words for finding it: at most 100, of 1 to 200 characters each
--   priority         of its jobs, unless a task says otherwise
-- Locks: the new run; waits for a concurrent start under the same key.
-- Errors: JE002 (workflow or version), JE003 (input, priority, tags), JE005 (key used with another input), JE006 (input too large).
create function fencepost.start_run(workflow text, input jsonb default '{}', version int default null, idempotency_key text default null,
                                    tags text[] default '{}', priority int default null, tenant text default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now     timestamptz := fencepost_private.now();
  v_tenant  text := coalesce(start_run.tenant, current_tenant());
  v_input   jsonb := coalesce(start_run.input, '{}');
  v_version record;
  v_known   record;
  v_id      bigint;
  v_problem text;
begin
  v_version := find_version(start_run.workflow, start_run.version);
  perform check_lane('run', coalesce(start_run.priority, 5)),
          check_job_options(null, null, start_run.idempotency_key, null, null, null, start_run.tenant), check_tags(start_run.tags),
          check_size(v_input, format('the input of %s', start_run.workflow));
  v_problem := schema_problem(v_version.definition -> 'input', v_input, 'input');
  if v_problem is not null then
    perform raise_error('JE003', format('the input does not fit the schema of %s version %s', start_run.workflow, v_version.version), v_problem, 'See the definition of the version.');
  end if;

  loop
    v_id := (create_runs(v_version.workflow_id, v_version.version_id, v_tenant, array[v_input], start_run.idempotency_key, coalesce(start_run.tags, '{}'), start_run.priority, null, null, v_now))[1];
    exit when v_id is not null;
    select r.run_id, r.input into v_known from run r
    where r.tenant = v_tenant and r.workflow_id = v_version.workflow_id and r.idempotency_key = start_run.idempotency_key;
    if found and v_known.input is distinct from v_input then
      perform raise_error('JE005', format('idempotency key %s was already used with another input', quote_literal(start_run.idempotency_key)), format('the key belongs to run %s', v_known.run_id),
        'Send the same input to get the same run, or use another key.');
    elsif found then
      return v_known.run_id;
    end if;
  end loop;
  perform start_roots(array[v_id], v_now);
  return v_id;
end
$$;
comment on function fencepost.start_run(text, jsonb, int, text, text[], int, text)
  is 'Starts a run of a workflow in the caller''s transaction and returns its id; with a used idempotency key, the run that has it. Raises JE002, JE003, JE005, JE006.';

-- Errors: JE003 for tags that are none, or too many.
create function fencepost_private.check_tags(p_tags text[])
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_bad text;
begin
  if cardinality(p_tags) > 100 then
    perform raise_error('JE003', 'a run may have at most 100 tags', format('received %s', cardinality(p_tags)), 'They are words for finding it: data belongs into the input.');
  end if;
  select coalesce(left(quote_literal(t), 100), 'null') into v_bad from unnest(p_tags) as t where t is null or length(t) not between 1 and 200 limit 1;
  if found then
    perform raise_error('JE003', 'a tag must have 1 to 200 characters', format('received %s', v_bad), 'Tags are words for finding a run.');
  end if;
end
$$;
comment on function fencepost_private.check_tags(text[]) is 'Raises JE003 for tags that no run may have.';

-- A published version by workflow name and number (null: the latest). Errors: JE002.
create function fencepost_private.find_version(p_workflow text, p_version int, out workflow_id int, out version_id int, out version int, out definition jsonb)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
begin
  select w.workflow_id, v.version_id, v.version, v.definition into workflow_id, version_id, version, definition
  from workflow w
  join workflow_version v on v.workflow_id = w.workflow_id and v.version = coalesce(p_version, w.latest_version)
  where w.name = p_workflow;
  if not found then
    perform raise_error('JE002', format('workflow %s%s does not exist', coalesce(quote_literal(p_workflow), 'null'), coalesce(' version ' || p_version, '')), format('received workflow = %s, version = %s', coalesce(p_workflow, 'null'), coalesce(p_version::text, 'null')),
      coalesce(did_you_mean(p_workflow, array(select w.name from workflow w where w.name <> p_workflow)), 'Publish it first with fencepost.publish_workflow().'));
  end if;
end
$$;
comment on function fencepost_private.find_version(text, int) is 'A published version of a workflow. Raises JE002.';

-- Stores runs of one version, one for each input, and their tasks, all pending. Returns their ids in the order of the
-- inputs; none when the idempotency key (for a single run only) is taken.
create function fencepost_private.create_runs(
  p_workflow_id int, p_version_id int, p_tenant text, p_inputs jsonb[], p_key text, p_tags text[], p_priority int, p_parent_task_id bigint, p_restarted_from bigint, p_now timestamptz)
returns bigint[]
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_outer record;
  v_ids   bigint[];
begin
  select r.root_run_id, r.depth + 1 as depth into v_outer
  from (select t.run_id from task t where t.task_id = p_parent_task_id offset 0) as t
  cross join lateral (select r.root_run_id, r.depth from run r where r.run_id = t.run_id offset 0) as r;
  with given as materialized (
    select nextval('run_id_seq') as id, i.input, i.place from unnest(p_inputs) with ordinality as i(input, place)
  ), stored as (
    insert into run (run_id, root_run_id, depth, workflow_id, version_id, tenant, input, tags, priority, idempotency_key, parent_task_id, restarted_from, created_at, pending)
    select g.id, coalesce(v_outer.root_run_id, g.id), coalesce(v_outer.depth, 0), p_workflow_id, p_version_id, p_tenant, g.input, p_tags, p_priority, p_key, p_parent_task_id, p_restarted_from, p_now, v.tasks
    from given g cross join workflow_version v
    where v.version_id = p_version_id
    order by g.place
    on conflict do nothing
    returning run_id
  ), listed as (
    insert into task (run_id, task_no, kind, status, unmet)
    select s.run_id, d.task_no, d.kind, 'pending', d.parents
    from stored s cross join workflow_task d
    where d.version_id = p_version_id
    order by s.run_id, d.task_no
  ), told as (
    insert into event (xid, at, tenant, kind, run_id, task_id, actor, data)
    select xid(), p_now, p_tenant, 'run.started', s.run_id, p_parent_task_id, actor(),
           case when p_restarted_from is not null then jsonb_build_object('restarted_from', p_restarted_from) end
    from stored s order by s.run_id
  )
  select array_agg(s.run_id order by s.run_id) into v_ids from stored s;
  return coalesce(v_ids, '{}'::bigint[]);
end
$$;
comment on function fencepost_private.create_runs(int, int, text, jsonb[], text, text[], int, bigint, bigint, timestamptz)
  is 'Stores runs of one version with their tasks; returns none when the idempotency key is taken.';

create function fencepost_private.start_roots(p_run_ids bigint[], p_now timestamptz)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  perform advance(null, startable(p_run_ids), null, p_now);
end
$$;
comment on function fencepost_private.start_roots(bigint[], timestamptz) is 'Starts the tasks of these runs that wait for no other.';

create function fencepost_private.startable(p_run_ids bigint[])
returns bigint[]
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select coalesce(array_agg(t.task_id order by t.task_id), '{}')
  from task t
  where t.run_id = any (p_run_ids) and t.status = 'pending' and t.unmet = 0 and t.item is null
$$;
comment on function fencepost_private.startable(bigint[]) is 'The pending tasks of these runs that wait for no other.';

-- Why a task fails whose input goes to a workflow with this schema, also when it cannot be checked; null when it fits.
create function fencepost_private.input_failure(p_schema jsonb, p_input jsonb)
returns text
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  return 'JE003: ' || schema_problem(p_schema, p_input, 'input');
exception when sqlstate 'JE003' then
  return 'JE003: ' || sqlerrm;
end
$$;
comment on function fencepost_private.input_failure(jsonb, jsonb) is 'Why a task fails whose input does not fit the schema of its workflow or cannot be checked against it; null when it fits.';

-- The run of a task of kind workflow: returns its first tasks, or why it cannot be (a missing workflow, an unfit input, a
-- workflow that starts itself without end), which fails the task instead of whoever moved the run.
create function fencepost_private.start_child(
  p_task_id bigint, p_run_id bigint, p_workflow text, p_version int, p_input jsonb, p_now timestamptz, out failure text, out starts bigint[])
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_version record;
  v_outer   record;
  v_id      bigint;
begin
  starts := '{}';
  select r.tenant, r.priority, r.tags, r.depth into v_outer from run r where r.run_id = p_run_id;
  select w.workflow_id, v.version_id, v.definition into v_version
  from workflow w join workflow_version v on v.workflow_id = w.workflow_id and v.version = coalesce(p_version, w.latest_version)
  where w.name = p_workflow;
  failure := case
    when not found then format('JE002: workflow %s%s does not exist', p_workflow, ' version ' || p_version)
    when v_outer.depth >= 20 then 'JE003: child runs are nested at most 20 deep'
    when octet_length(p_input::text) > 1048576 then format('JE006: the input of %s is too large: %s bytes of at most 1048576', p_workflow, octet_length(p_input::text))
    else input_failure(v_version.definition -> 'input', p_input) end;
  if failure is not null then
    return;
  end if;
  v_id := (create_runs(v_version.workflow_id, v_version.version_id, v_outer.tenant, array[p_input], null, v_outer.tags, v_outer.priority, p_task_id, null, p_now))[1];
  update task t set child_run_id = v_id where t.task_id = p_task_id;
  starts := startable(array[v_id]);
end
$$;
comment on function fencepost_private.start_child(bigint, bigint, text, int, jsonb, timestamptz) is 'Makes the run that carries out a task of kind workflow; returns its first tasks, or why it cannot be.';
--! EndIncluded workflows/start_run.sql
--! Included workflows/start_runs.sql
-- Starts many runs of one workflow, one for each input, all or nothing, the fast way. Returns their ids in that order.
-- Errors: JE002, JE003, JE006 (the message names the place in the list, counted from 1).
create function fencepost.start_runs(workflow text, inputs jsonb[], version int default null, tags text[] default '{}', priority int default null, tenant text default null)
returns bigint[]
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now     timestamptz := fencepost_private.now();
  v_version record;
  v_problem record;
  v_ids     bigint[];
begin
  if start_runs.inputs is null or cardinality(start_runs.inputs) = 0 then
    return '{}'::bigint[];
  end if;
  v_version := find_version(start_runs.workflow, start_runs.version);
  perform check_lane('run', coalesce(start_runs.priority, 5)), check_job_options(null, null, null, null, null, null, start_runs.tenant), check_tags(start_runs.tags);
  perform check_size(i.input, format('input %s of the list', i.place)) from unnest(start_runs.inputs) with ordinality as i(input, place);
  if v_version.definition ? 'input' then
    select i.place, s.problem into v_problem
    from unnest(start_runs.inputs) with ordinality as i(input, place)
    cross join lateral schema_problem(v_version.definition -> 'input', coalesce(i.input, '{}'), 'input') as s(problem)
    where s.problem is not null limit 1;
    if found then
      perform raise_error('JE003', format('input %s of the list does not fit the schema of %s version %s', v_problem.place, start_runs.workflow, v_version.version), v_problem.problem, 'See the definition of the version.');
    end if;
  end if;
  v_ids := create_runs(v_version.workflow_id, v_version.version_id, coalesce(start_runs.tenant, current_tenant()),
    array(select coalesce(i.input, '{}') from unnest(start_runs.inputs) with ordinality as i(input, place) order by i.place),
    null, coalesce(start_runs.tags, '{}'), start_runs.priority, null, null, v_now);
  perform start_roots(v_ids, v_now);
  return v_ids;
end
$$;
comment on function fencepost.start_runs(text, jsonb[], int, text[], int, text) is 'Starts one run for each input, all or nothing, and returns their ids in that order. Raises JE002, JE003, JE006.';
--! EndIncluded workflows/start_runs.sql
--! Included workflows/version_of.sql
-- The version of a workflow that has this very definition: what publishing it again would return, without publishing.
-- Who holds a definition starts runs of it whatever was published since. Locks: none.
-- Errors: JE002 (the workflow, or no version with an equal definition).
create function fencepost.version_of(name text, definition jsonb)
returns int
language plpgsql
stable
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_latest  record := find_version(version_of.name, null);
  v_version int;
begin
  select v.version into v_version
  from workflow_version v
  where v.workflow_id = v_latest.workflow_id and v.checksum = md5(version_of.definition::text);
  if not found then
    perform raise_error('JE002', format('this definition of workflow %s was never published', quote_literal(version_of.name)),
      format('its latest version is %s, and no version equals the definition', v_latest.version),
      'Publish the definition first, or name the workflow and a version that exists.');
  end if;
  return v_version;
end
$$;
comment on function fencepost.version_of(text, jsonb) is 'The version of a workflow that has an equal definition. Raises JE002.';
--! EndIncluded workflows/version_of.sql
--! Included workflows/approve.sql
-- Decides an approval: approved. The decision becomes the output of an approval task; a gate opens.
-- Locks: the root run, the approval. Errors: JE002, JE003 (comment or decided_by too long), JE006 (data of more than 1 MiB);
-- JE004 when it was decided before, or its time is over (in a paused run no time is), or its run has ended.
create function fencepost.approve(approval_id bigint, decided_by text default null, comment text default null, data jsonb default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform decide(approve.approval_id, 'approved', coalesce(approve.decided_by, actor()), approve.comment, approve.data, fencepost_private.now());
end
$$;
comment on function fencepost.approve(bigint, text, text, jsonb) is 'Approves: the run goes on. One decision only; a second raises JE004. Raises JE002, JE003, JE006.';

-- One decision, by whomever: approved, rejected or expired.
create function fencepost_private.decide(p_approval_id bigint, p_status fencepost_private.approval_status, p_by text, p_comment text, p_data jsonb, p_now timestamptz)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set timezone = 'UTC'
as $$
declare
  v      record;
  v_good boolean;
  v_why  text := format('%s by %s%s', p_status, p_by, ': ' || p_comment);
begin
  perform check_length(p_by, 'decided_by', 200), check_length(p_comment, 'the comment'), check_size(p_data, 'the data of a decision');
  perform lock_roots(array(select a.run_id from approval a where a.approval_id = p_approval_id));
  select a.approval_id, a.status, a.task_id, a.run_id, a.is_gate, a.expires_at, r.tenant, r.paused_at, t.status as task_status, t.job_id, d.on_expiry, d.on_reject, d.name into v
  from approval a
  join run r on r.run_id = a.run_id
  join task t on t.task_id = a.task_id
  join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
  where a.approval_id = p_approval_id;
  if not found then
    perform raise_error('JE002', format('approval %s does not exist', coalesce(p_approval_id::text, 'null')), format('received approval_id = %s', coalesce(p_approval_id::text, 'null')), 'See fencepost.approvals.');
  elsif v.status <> 'pending' then
    perform raise_error('JE004', format('approval %s is %s already', p_approval_id, v.status), format('received the decision %s', p_status), 'A decision is made once.');
  elsif p_status <> 'expired' and v.expires_at <= p_now and v.paused_at is null then
    perform raise_error('JE004', format('approval %s has expired', p_approval_id), format('it expired at %s, it is %s', v.expires_at, p_now),
      'The housekeeping does next what its definition says of that; fencepost.replay_task() asks for it again.');
  end if;

  perform touch_roots(array[v.run_id]);
  update approval a set status = p_status, decided_at = p_now, decided_by = p_by, comment = p_comment, data = p_data where a.approval_id = p_approval_id;
  insert into event (xid, at, tenant, kind, run_id, task_id, actor, data)
  values (xid(), p_now, v.tenant, 'approval.decided', v.run_id, v.task_id, p_by,
          with_data(jsonb_build_object('approval_id', p_approval_id, 'task', v.name, 'decision', p_status, 'comment', p_comment), p_data));

  v_good := p_status = 'approved' or p_status = 'expired' and v.on_expiry = 'approve';
  if v.is_gate then
    perform open_gate(v.task_id, v_good, v_why, p_now);
  else
    perform advance(array[row(v.task_id,
      case when v_good then 'completed'
           when p_status = 'expired' and v.on_expiry = 'fail' then 'failed'
           when v.on_reject = 'skip' then 'skipped'
           when v.on_reject = 'continue' then 'completed'
           else 'failed' end,
      with_data(jsonb_build_object('approved', v_good, 'decision', p_status, 'decided_by', p_by, 'comment', p_comment, 'decided_at', p_now), p_data),
      case when not v_good then v_why end)::task_end], null, null, p_now);
  end if;
end
$$;
comment on function fencepost_private.decide(bigint, fencepost_private.approval_status, text, text, jsonb, timestamptz) is 'Writes a decision and moves its run on. Raises JE002, JE003, JE004, JE006.';

-- A decision without what is not known, and with the data that came with it as it is.
create function fencepost_private.with_data(p_decision jsonb, p_data jsonb)
returns jsonb
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select jsonb_strip_nulls(p_decision) || case when p_data is null then '{}' else jsonb_build_object('data', p_data) end
$$;
comment on function fencepost_private.with_data(jsonb, jsonb) is 'A decision as JSON, with its data.';

-- Lets the task behind a gate go on, or fails it.
create function fencepost_private.open_gate(p_task_id bigint, p_good boolean, p_why text, p_now timestamptz)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v record;
begin
  update task t set gate_id = null, unmet = case when t.status = 'pending' then t.unmet - 1 else t.unmet end
  from run r
  where t.task_id = p_task_id and r.run_id = t.run_id
  returning t.task_id, t.status, t.unmet, t.job_id, r.paused_at into v;
  if not p_good then
    perform advance(array[row(p_task_id, 'failed', null, p_why)::task_end], null, null, p_now);
    if v.status = 'queued' then
      perform cancel_jobs(array[v.job_id], p_why, p_now);
    end if;
  elsif v.status = 'queued' and v.paused_at is null then
    perform unpark_jobs(array[v.job_id]);
  elsif v.status = 'pending' and v.unmet = 0 then
    perform advance(null, array[p_task_id], null, p_now);
  end if;
end
$$;
comment on function fencepost_private.open_gate(bigint, boolean, text, timestamptz) is 'Opens or shuts the gate before a task.';
--! EndIncluded workflows/approve.sql
--! Included workflows/reject.sql
-- Decides an approval: rejected. What that does to the run is told by on_reject of the task: fail (default), skip,
-- continue; behind a gate the task fails.
-- Locks: the root run, the approval. Errors: JE002, JE003, JE006 (as approve); JE004 when it was decided before, or its time is
-- over.
create function fencepost.reject(approval_id bigint, decided_by text default null, comment text default null, data jsonb default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform decide(reject.approval_id, 'rejected', coalesce(reject.decided_by, actor()), reject.comment, reject.data, fencepost_private.now());
end
$$;
comment on function fencepost.reject(bigint, text, text, jsonb) is 'Rejects, with the consequence that the task''s on_reject names. One decision only; a second raises JE004. Raises JE002, JE003, JE006.';
--! EndIncluded workflows/reject.sql
--! Included workflows/request_approval.sql
-- Puts a gate before a task that has not begun: it waits until somebody approves. Returns the approval's id.
-- A rejected or expired gate fails the task. Items of maps and undoings have no gates of their own.
-- Locks: the root run. Errors: JE002, JE003; JE004 when the task runs already, has ended, or has a gate, or its run or one
-- around it was cancelled or undoes what it did.
create function fencepost.request_approval(task_id bigint, reason text default null, expires_after interval default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := fencepost_private.now();
  v     record;
  v_id  bigint;
begin
  perform check_length(request_approval.reason, 'the reason');
  if request_approval.expires_after <= interval '0' or request_approval.expires_after > interval '100 years' then
    perform raise_error('JE003', 'expires_after must be longer than nothing, and at most 100 years', format('received expires_after = %s', request_approval.expires_after), 'Leave it out to wait without an end.');
  end if;
  perform lock_roots(array(select t.run_id from task t where t.task_id = request_approval.task_id));
  select t.task_id, t.run_id, t.kind, t.status, t.job_id, t.gate_id, r.tenant into v
  from task t join run r on r.run_id = t.run_id where t.task_id = request_approval.task_id;
  if not found then
    perform raise_task_not_found(request_approval.task_id);
  end if;
  if v.kind in ('item', 'compensation') then
    perform raise_error('JE004', format('task %s is an %s and has no gate of its own', v.task_id, case v.kind when 'item' then 'item of a map' else 'undoing' end),
      format('received task_id = %s', v.task_id), 'Gate the map before it begins, or pause the run.');
  end if;
  if exists (select from late_tasks(array[v.task_id])) then
    perform raise_error('JE004', format('the run of task %s was cancelled or is being compensated, or one around it: it cannot be gated', v.task_id), format('received task_id = %s', v.task_id),
      'Nothing of such a run begins any more.');
  end if;
  if v.status not in ('pending', 'queued') or v.gate_id is not null
     or v.status = 'queued' and park_jobs(array[v.job_id], 'approval') = 0 and not exists (select from parked p where p.id = v.job_id) then
    perform raise_error('JE004', format('task %s %s: it cannot be gated', v.task_id, case when v.gate_id is not null then 'has a gate already' when v.status = 'queued' then 'is running' else 'is ' || v.status end),
      format('received task_id = %s', v.task_id), 'Only tasks that are pending or queued, and not claimed yet, can be gated.');
  end if;
  insert into approval (run_id, task_id, is_gate, reason, requested_at, requested_by, expires_at)
  values (v.run_id, v.task_id, true, request_approval.reason, v_now, actor(), v_now + request_approval.expires_after)
  returning approval_id into v_id;
  perform touch_roots(array[v.run_id]);
  update task t set gate_id = v_id, unmet = case when t.status = 'pending' then t.unmet + 1 else t.unmet end where t.task_id = v.task_id;
  insert into event (xid, at, tenant, kind, run_id, task_id, actor, data)
  values (xid(), v_now, v.tenant, 'approval.requested', v.run_id, v.task_id, actor(), jsonb_strip_nulls(jsonb_build_object('approval_id', v_id, 'reason', request_approval.reason, 'gate', true)));
  return v_id;
end
$$;
comment on function fencepost.request_approval(bigint, text, interval) is 'Puts a gate before a task that has not begun and returns the approval''s id. Raises JE002, JE003, JE004.';

create function fencepost_private.raise_task_not_found(p_task_id bigint)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  perform raise_error('JE002', format('task %s does not exist', coalesce(p_task_id::text, 'null')), format('received task_id = %s', coalesce(p_task_id::text, 'null')), 'See fencepost.tasks.');
end
$$;
comment on function fencepost_private.raise_task_not_found(bigint) is 'Raises JE002 for a task id.';
--! EndIncluded workflows/request_approval.sql
--! Included workflows/signal_run.sql
-- Sends a signal to a run: the task that waits for it ends with the payload as its output. A signal that nobody waits for
-- yet is kept, and taken when its task begins to wait. Each signal is taken once. One that comes after expires_after is too
-- late for the task that waited, whose wait ends then, also when the housekeeping had not come to it. Returns its id.
-- Locks: the root run. Errors: JE002, JE003 (name), JE006 (payload of more than 1 MiB); JE004 when the run has ended.
create function fencepost.signal_run(run_id bigint, name text, payload jsonb default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := fencepost_private.now();
  v_run record;
  v_id  bigint;
begin
  if signal_run.name is null or length(signal_run.name) not between 1 and 200 then
    perform raise_error('JE003', 'a signal needs a name of 1 to 200 characters', format('received %s', coalesce(left(quote_literal(signal_run.name), 100), 'null')), 'The name that a task of kind signal waits for.');
  end if;
  perform check_size(signal_run.payload, format('the payload of the signal %s', quote_literal(signal_run.name)));
  v_run := lock_run(signal_run.run_id);
  if v_run.status in ('completed', 'cancelled', 'compensated', 'compensating') then
    perform raise_error('JE004', format('run %s is %s and takes no signals', signal_run.run_id, v_run.status), format('received the signal %s', quote_literal(signal_run.name)), 'Signals are for runs that can still move.');
  end if;
  insert into signal (run_id, name, payload, received_at, sent_by)
  values (signal_run.run_id, signal_run.name, signal_run.payload, v_now, actor())
  returning signal_id into v_id;
  insert into event (xid, at, tenant, kind, run_id, actor, data)
  values (xid(), v_now, v_run.tenant, 'signal.received', signal_run.run_id, actor(), jsonb_build_object('signal', signal_run.name, 'signal_id', v_id));
  perform touch_roots(array[signal_run.run_id]);

  if v_run.paused_at is null then
    perform advance(array(
      select row(t.task_id, 'failed', null, 'it was waited for in vain')::task_end
      from task t
      join workflow_task d on d.version_id = v_run.version_id and d.task_no = t.task_no
      where t.run_id = signal_run.run_id and t.kind = 'signal' and t.status = 'waiting' and d.signal = signal_run.name and t.due_at <= v_now), null, null, v_now);
  end if;
  perform advance(array(
    select row(s.task_id, 'completed', s.payload, null)::task_end
    from take_signals(array(
      select t.task_id
      from task t
      join workflow_task d on d.version_id = v_run.version_id and d.task_no = t.task_no
      where t.run_id = signal_run.run_id and t.kind = 'signal' and t.status = 'waiting' and d.signal = signal_run.name
      order by t.task_no limit 1)) as s), null, null, v_now);
  return v_id;
end
$$;
comment on function fencepost.signal_run(bigint, text, jsonb) is 'Sends a signal to a run; it is kept until a task takes it. Returns its id. Raises JE002, JE003, JE004, JE006.';

-- Gives each of these waiting tasks the oldest stored signal of its name, if there is one.
create function fencepost_private.take_signals(p_task_ids bigint[])
returns table (task_id bigint, payload jsonb)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
begin
  if cardinality(p_task_ids) = 0 then
    return;
  end if;
  return query
  with asking as materialized (
    select t.task_id, t.run_id, d.signal, row_number() over (partition by t.run_id, d.signal order by t.task_no) as place
    from unnest(p_task_ids) as i(task_id)
    cross join lateral (select t.* from task t where t.task_id = i.task_id offset 0) as t
    cross join lateral (select r.version_id from run r where r.run_id = t.run_id offset 0) as r
    cross join lateral (select d.signal from workflow_task d where d.version_id = r.version_id and d.task_no = t.task_no offset 0) as d
  ), stored as materialized (
    select s.signal_id, s.run_id, s.name, s.payload, row_number() over (partition by s.run_id, s.name order by s.signal_id) as place
    from (select distinct a.run_id, a.signal from asking a) as a
    cross join lateral (select s.* from signal s where s.run_id = a.run_id and s.name = a.signal offset 0) as s
    where s.task_id is null
  )
  update signal s set task_id = a.task_id
  from asking a join stored o on o.run_id = a.run_id and o.name = a.signal and o.place = a.place
  where s.signal_id = any (array[o.signal_id])
  returning a.task_id, coalesce(o.payload, 'null');
end
$$;
comment on function fencepost_private.take_signals(bigint[]) is 'Gives waiting tasks the oldest stored signals of their names.';

-- Locks the root of a run and returns the run. Errors: JE002.
create function fencepost_private.lock_run(p_run_id bigint)
returns fencepost_private.run
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_run run;
begin
  perform lock_roots(array[p_run_id]);
  select r.* into v_run from run r where r.run_id = p_run_id;
  if not found then
    perform raise_error('JE002', format('run %s does not exist', coalesce(p_run_id::text, 'null')), format('received run_id = %s', coalesce(p_run_id::text, 'null')), 'See fencepost.runs.');
  end if;
  return v_run;
end
$$;
comment on function fencepost_private.lock_run(bigint) is 'Locks the root of a run and returns the run. Raises JE002.';
--! EndIncluded workflows/signal_run.sql
--! Included workflows/pause_run.sql
-- Holds a run, and its child runs: nothing of it is started any more. What runs now finishes; its jobs that wait are
-- parked, and so is a retry that comes up meanwhile: it keeps its wait. Pausing twice changes nothing.
-- Locks: the root run, then the jobs. Errors: JE002, JE003 (reason too long); JE004 when the run has ended.
create function fencepost.pause_run(run_id bigint, reason text default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now  timestamptz := fencepost_private.now();
  v_run  run := lock_run(pause_run.run_id);
  v_runs bigint[];
begin
  perform check_length(pause_run.reason, 'the reason');
  if v_run.paused_at is not null then
    return;
  end if;
  if v_run.status in ('completed', 'cancelled', 'compensated') then
    perform raise_error('JE004', format('run %s is %s and cannot be paused', v_run.run_id, v_run.status), format('received run_id = %s', v_run.run_id), 'Only runs that can still move can be held.');
  end if;
  v_runs := run_family(v_run.run_id);
  update run r set paused_at = v_now, reason = pause_run.reason
  where r.run_id = any (v_runs) and r.paused_at is null and r.status not in ('completed', 'cancelled', 'compensated');
  perform park_jobs(array(select t.job_id from task t where t.run_id = any (v_runs) and t.status = 'queued'), 'run');
  insert into event (xid, at, tenant, kind, run_id, actor, data)
  values (xid(), v_now, v_run.tenant, 'run.paused', v_run.run_id, actor(), case when pause_run.reason is not null then jsonb_build_object('reason', pause_run.reason) end);
  perform advance(null, null, array(select row(r, 0, 0, 0, 0, 0, 0, 0, 0)::run_delta from unnest(v_runs) as r), v_now);
end
$$;
comment on function fencepost.pause_run(bigint, text) is 'Holds a run and its child runs; what runs now finishes. Raises JE002, JE003, JE004.';

-- A run and all its child runs, outermost first.
create function fencepost_private.run_family(p_run_id bigint)
returns bigint[]
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  with recursive kin as materialized (
    select c.run_id, t.run_id as around
    from run r
    join run c on c.root_run_id = r.root_run_id and c.root_run_id <> c.run_id
    join task t on t.task_id = c.parent_task_id
    where r.run_id = p_run_id
  ), family as (
    select p_run_id as run_id
    union all
    select k.run_id from family f join kin k on k.around = f.run_id
  )
  select array_agg(f.run_id order by f.run_id) from family f
$$;
comment on function fencepost_private.run_family(bigint) is 'A run and all its child runs, in id order.';
--! EndIncluded workflows/pause_run.sql
--! Included workflows/resume_run.sql
-- Lets a held run go on: parked jobs are ready again, or wait on until the time of their retry, and tasks whose parents ended meanwhile start.
-- Locks: the root run, then the jobs. Errors: JE002; JE004 when it is not paused.
create function fencepost.resume_run(run_id bigint)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now  timestamptz := fencepost_private.now();
  v_run  run := lock_run(resume_run.run_id);
  v_runs bigint[];
  v_more record;
begin
  if v_run.paused_at is null then
    perform raise_error('JE004', format('run %s is %s, not paused', v_run.run_id, v_run.status), format('received run_id = %s', v_run.run_id), 'Only a paused run can be resumed.');
  end if;
  v_runs := run_family(v_run.run_id);
  update run r set paused_at = null, reason = null where r.run_id = any (v_runs);
  perform unpark_jobs(array(
    select p.id from task t join parked p on p.id = t.job_id
    where t.run_id = any (v_runs) and t.status = 'queued' and t.gate_id is null and p.waits_for is distinct from map_place(t.parent_task_id)));
  insert into event (xid, at, tenant, kind, run_id, actor) values (xid(), v_now, v_run.tenant, 'run.resumed', v_run.run_id, actor());
  select i.ends || u.ends as ends, i.deltas || u.deltas as deltas into v_more
  from start_items(array(select t.task_id from task t where t.run_id = any (v_runs) and t.kind = 'map' and t.status = 'waiting'), v_now) as i
  cross join undo_runs(v_runs, v_now) as u;
  perform advance(v_more.ends, startable(v_runs), v_more.deltas || array(select row(r, 0, 0, 0, 0, 0, 0, 0, 0)::run_delta from unnest(v_runs) as r), v_now);
end
$$;
comment on function fencepost.resume_run(bigint) is 'Lets a paused run and its child runs go on. Raises JE002, JE004.';
--! EndIncluded workflows/resume_run.sql
--! Included workflows/cancel_run.sql
-- Cancels a run and its child runs: tasks that wait end at once, running handlers are told, nothing new starts.
-- Cancelling twice changes nothing.
-- Locks: the root run, then tasks and jobs. Errors: JE002, JE003 (reason too long); JE004 when the run has completed or was compensated.
create function fencepost.cancel_run(run_id bigint, reason text default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := fencepost_private.now();
  v_run run := lock_run(cancel_run.run_id);
begin
  perform check_length(cancel_run.reason, 'the reason');
  if v_run.status = 'cancelled' then
    return;
  end if;
  if v_run.status in ('completed', 'compensated') then
    perform raise_error('JE004', format('run %s is %s and cannot be cancelled', v_run.run_id, v_run.status), format('received run_id = %s', v_run.run_id), 'Only runs that can still move can be cancelled.');
  end if;
  perform cancel_runs(array[v_run.run_id], cancel_run.reason, v_now);
end
$$;
comment on function fencepost.cancel_run(bigint, text) is 'Cancels a run and its child runs; running handlers are told. Raises JE002, JE003, JE004.';

-- Cancels these runs and their children. The caller holds the roots.
create function fencepost_private.cancel_runs(p_run_ids bigint[], p_reason text, p_now timestamptz)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_runs bigint[] := array(select distinct f from unnest(p_run_ids) as r cross join lateral unnest(run_family(r)) as f);
begin
  update run r set cancelled_at = p_now, paused_at = null, reason = p_reason
  where r.run_id = any (v_runs) and r.status not in ('completed', 'cancelled', 'compensated');
  perform stop_runs(v_runs, coalesce(p_reason, 'the run was cancelled'), p_now);
end
$$;
comment on function fencepost_private.cancel_runs(bigint[], text, timestamptz) is 'Cancels these runs and their child runs.';

-- Cancels whatever is alive in these runs: what waits ends, running handlers are told.
create function fencepost_private.stop_runs(p_run_ids bigint[], p_why text, p_now timestamptz)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_jobs bigint[];
begin
  -- first what waits, so that a map or a parent does not end as failed because of what is cancelled inside of it
  perform advance(
    array(select row(t.task_id, 'cancelled', null, p_why)::task_end
          from task t where t.run_id = any (p_run_ids) and t.status in ('pending', 'waiting') order by t.task_id),
    null, array(select row(r, 0, 0, 0, 0, 0, 0, 0, 0)::run_delta from unnest(p_run_ids) as r), p_now);

  -- a job may move between the places while we look: look again, in new statements, until each has ended or was told.
  -- What a run that is not cancelled begins to undo by this goes on.
  for v_try in 1..20 loop
    v_jobs := array(
      select t.job_id from task t join run r on r.run_id = t.run_id
      where t.run_id = any (p_run_ids) and t.status = 'queued' and (t.kind <> 'compensation' or r.cancelled_at is not null)
        and not exists (select from lease l where l.id = t.job_id and l.cancel_requested_at is not null)
      order by t.job_id);
    exit when cardinality(v_jobs) = 0;
    perform cancel_jobs(v_jobs, p_why, p_now);
  end loop;
end
$$;
comment on function fencepost_private.stop_runs(bigint[], text, timestamptz) is 'Cancels whatever is alive in these runs.';
--! EndIncluded workflows/cancel_run.sql
--! Included workflows/replay_task.sql
-- Tries a failed task again, and its run goes on when it ends well: its dead letter is replayed; a task that failed without
-- one begins anew (an approval is asked for again, a wait waits again, a payload is built again). A task whose child run
-- failed tries again what failed in there; a map does its failed items.
-- Locks: the root run. Errors: JE002; JE004 when it has not failed, was given up, or the run was cancelled or compensated.
create function fencepost.replay_task(task_id bigint)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_task task;
begin
  perform lock_roots(array(select t.run_id from task t where t.task_id = replay_task.task_id));
  select t.* into v_task from task t where t.task_id = replay_task.task_id;
  if not found then
    perform raise_task_not_found(replay_task.task_id);
  end if;
  if retry_tasks(array[v_task.task_id], fencepost_private.now()) = 0 then
    if v_task.status = 'failed' then
      perform refuse_late(array[v_task.task_id]);
    end if;
    perform raise_error('JE004', format('task %s is %s and has nothing to try again', v_task.task_id, v_task.status), format('received task_id = %s', v_task.task_id),
      case when v_task.status = 'failed' then 'Its dead letter was discarded, or what failed in its child run cannot be tried again: restart the run from it with fencepost.restart_run().'
           else 'Only a failed task can be tried again.' end);
  end if;
end
$$;
comment on function fencepost.replay_task(bigint) is 'Tries a failed task again; its run goes on when it ends well. Raises JE002, JE004.';

-- Tries again what failed behind these tasks. Returns how many tasks that are.
create function fencepost_private.retry_tasks(p_task_ids bigint[], p_now timestamptz)
returns int
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_jobs bigint[];
  v_anew bigint[];
begin
  select coalesce(array_agg(f.job_id order by f.job_id) filter (where f.job_id is not null), '{}'), coalesce(array_agg(f.task_id order by f.task_id) filter (where f.job_id is null), '{}')
    into v_jobs, v_anew
  from retryable(p_task_ids) as f;
  if cardinality(v_jobs) > 0 then
    perform replay_jobs(v_jobs);
  end if;
  if cardinality(v_anew) > 0 then
    perform start_anew(v_anew, p_now);
  end if;
  return cardinality(v_jobs) + cardinality(v_anew);
end
$$;
comment on function fencepost_private.retry_tasks(bigint[], timestamptz) is 'Tries again what failed behind these tasks; returns how many tasks that are.';

-- What failed behind these tasks and can be tried again: they themselves, items of maps, tasks of child runs. With the dead
-- letter of each, or null where it begins anew. Not what was given up, nor decisions and waits inside of child runs that
-- these went on without.
create function fencepost_private.retryable(p_task_ids bigint[])
returns table (task_id bigint, job_id bigint)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_failed bigint[];
begin
  v_failed := array(
    with recursive failed as (
      select t.task_id from task t where t.task_id = any (p_task_ids) and (t.status = 'failed' or t.kind = 'compensation' and t.status = 'cancelled')
      union
      select i.task_id
      from failed f
      cross join lateral (select t.child_run_id from task t where t.task_id = f.task_id offset 0) as t
      cross join lateral (
        select i.task_id from task i where i.parent_task_id = f.task_id and i.kind = 'item' and i.status = 'failed'
        union all
        select i.task_id from failed_tasks(t.child_run_id) as i
      ) as i
    )
    select f.task_id from failed f);
  return query
  select f.task_id, z.id
  from unnest(v_failed) as i(id)
  cross join lateral (select t.* from task t where t.task_id = i.id offset 0) as f
  left join lateral (select z.id from dead_letter z where z.id = f.job_id offset 0) as z on true
  where (z.id is not null
         or case f.kind when 'map' then f.items is null
                        when 'workflow' then f.child_run_id is null
                        when 'job' then f.job_id is null or failing_gate(f.task_id, f.finished_at) is not null
                        when 'compensation' then f.job_id is null or f.status = 'cancelled'
                        when 'item' then f.job_id is null
                        else true end)
    and f.task_id not in (select l.task_id from late_tasks(v_failed) as l);
end
$$;
comment on function fencepost_private.retryable(bigint[]) is 'What failed behind these tasks and can be tried again, with its dead letter if it has one.';

-- The failed tasks of a run that a retry of the run means: not decisions and waits that the run went on without.
create function fencepost_private.failed_tasks(p_run_id bigint)
returns table (task_id bigint)
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select t.task_id from task t
  where t.run_id = p_run_id
    and (t.status = 'failed' and not (t.released and t.kind in ('approval', 'signal')) or t.kind = 'compensation' and t.status = 'cancelled')
$$;
comment on function fencepost_private.failed_tasks(bigint) is 'The failed tasks of a run that a retry of it means.';
--! EndIncluded workflows/replay_task.sql
--! Included workflows/retry_run.sql
-- Tries every failed task of a run again, like replay_task; of a run that undoes what it did, the undoings that failed.
-- Returns how many tasks are tried again.
-- Locks: the root run. Errors: JE002; JE004 when nothing in it can be tried again.
create function fencepost.retry_run(run_id bigint)
returns int
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_run   run := lock_run(retry_run.run_id);
  v_count int := retry_tasks(array(select f.task_id from failed_tasks(v_run.run_id) as f), fencepost_private.now());
begin
  if v_count = 0 then
    perform raise_error('JE004', format('run %s is %s and has nothing to try again', v_run.run_id, v_run.status), format('received run_id = %s', v_run.run_id),
      'Use restart_run() to begin anew from a task.');
  end if;
  return v_count;
end
$$;
comment on function fencepost.retry_run(bigint) is 'Tries every failed task of a run again and returns how many. Raises JE002, JE004.';
--! EndIncluded workflows/retry_run.sql
--! Included workflows/restart_run.sql
-- Begins a new run of the same version that takes over from an old one, which has ended, what had ended well there:
-- completed and skipped tasks, and failures that the run went over. Not from_task, nor a task that had not ended well, nor
-- one whose undoing had begun, whatever became of that; nor what comes after any of these: those are done again.
-- Returns the new run, linked to the old, which is left as it is.
-- Locks: the old root run. Errors: JE002 (run), JE003 (no such task); JE004 when it has not ended, or is inside another.
create function fencepost.restart_run(run_id bigint, from_task text default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now  timestamptz := fencepost_private.now();
  v_run  run := lock_run(restart_run.run_id);
  v_out  record;
  v_from int;
  v_redo int[];
  v_id   bigint;
begin
  if v_run.parent_task_id is not null then
    v_out := outer_task(v_run.run_id);
    perform raise_error('JE004', format('run %s is part of run %s and cannot be restarted by itself', v_run.run_id, v_out.run_id), format('received run_id = %s', v_run.run_id),
      format('Restart the run around it from the task that it carries out: fencepost.restart_run(%s, %L).', v_out.run_id, v_out.task));
  elsif v_run.finished_at is null then
    perform raise_error('JE004', format('run %s is %s and has not ended: a second one would do the same beside it', v_run.run_id, v_run.status), format('received run_id = %s', v_run.run_id),
      case when v_run.cancelled_at is null then 'Cancel it first with fencepost.cancel_run().' else 'Wait until what runs of it has stopped.' end);
  end if;
  if restart_run.from_task is not null then
    select d.task_no into v_from from workflow_task d where d.version_id = v_run.version_id and d.name = restart_run.from_task;
    if not found then
      perform raise_error('JE003', format('run %s has no task %s', v_run.run_id, quote_literal(restart_run.from_task)), format('received from_task = %s', quote_literal(restart_run.from_task)),
        coalesce(did_you_mean(restart_run.from_task, array(select d.name from workflow_task d where d.version_id = v_run.version_id)), 'Name a task of its version.'));
    end if;
  end if;
  v_redo := array(
    with recursive redo as (
      select t.task_no from task t
      where t.run_id = v_run.run_id and t.item is null
        and (t.task_no = v_from or not (t.status in ('completed', 'skipped') or t.status = 'failed' and t.released)
             or exists (select from task u where u.parent_task_id = t.task_id and u.kind = 'compensation' and u.ready_at is not null))
      union
      select e.child_no from redo r join workflow_edge e on e.version_id = v_run.version_id and e.parent_no = r.task_no
    )
    select r.task_no from redo r);

  v_id := (create_runs(v_run.workflow_id, v_run.version_id, v_run.tenant, array[v_run.input], null, v_run.tags, v_run.priority, null, v_run.run_id, v_now))[1];
  with taken as (
    update task n
    set status = o.status, input = o.input, output = o.output, error = o.error, released = true, ready_at = o.ready_at, finished_at = o.finished_at
    from task o
    where n.run_id = v_id and o.run_id = v_run.run_id and o.task_no = n.task_no and n.item is null and o.item is null and not o.task_no = any (v_redo)
    returning n.task_no
  )
  update run r set pending = r.pending - n.n, ended_well = n.n from (select count(*) as n from taken) as n where r.run_id = v_id;
  update task n set unmet = n.unmet - m.met, skipped_parents = m.skipped
  from (
    select e.child_no, count(*)::int as met, (count(*) filter (where t.status = 'skipped'))::int as skipped
    from task t join workflow_edge e on e.version_id = v_run.version_id and e.parent_no = t.task_no
    where t.run_id = v_id and t.released
    group by e.child_no
  ) as m
  where n.run_id = v_id and n.task_no = m.child_no and n.status = 'pending' and n.item is null;
  perform start_roots(array[v_id], v_now), advance(null, null, array[row(v_id, 0, 0, 0, 0, 0, 0, 0, 0)::run_delta], v_now);
  return v_id;
end
$$;
comment on function fencepost.restart_run(bigint, text) is 'Begins a new run that takes over the outputs of an old one up to a task, and returns its id. Raises JE002, JE003, JE004.';

-- The outermost run around a run, and the task of it that it is inside of; for an outermost run itself no task.
create function fencepost_private.outer_task(p_run_id bigint, out run_id bigint, out task text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  with recursive around as (
    select r.run_id, r.version_id, r.parent_task_id, null::text as task from run r where r.run_id = p_run_id
    union all
    select r.run_id, r.version_id, r.parent_task_id, d.name
    from around a
    join task t on t.task_id = a.parent_task_id
    join run r on r.run_id = t.run_id
    join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
  )
  select a.run_id, a.task into run_id, task from around a where a.parent_task_id is null;
end
$$;
comment on function fencepost_private.outer_task(bigint) is 'The outermost run around a run, and the task of it that this run is inside of.';
--! EndIncluded workflows/restart_run.sql
--! Included workflows/migrate_run.sql
-- Moves a run to another version of its workflow. Tasks are matched by name. Those that have begun must exist there with
-- the same kind and type; those that have not begun take the new definition, new ones are added, and ones that are gone
-- are dropped, with the gates that were put before them. Returns a row for each task that changes; with dry_run nothing
-- is done.
-- Locks: the root run. Errors: JE002; JE003 without a version, or when the run's input does not fit its schema; JE004 when the
-- run has ended or a task that has begun does not fit.
create function fencepost.migrate_run(run_id bigint, to_version int, dry_run boolean default false)
returns table (task text, change text)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now     timestamptz := fencepost_private.now();
  v_run     run := lock_run(migrate_run.run_id);
  v_version record;
  v_bad     record;
  v_problem text;
begin
  if migrate_run.to_version is null then
    perform raise_error('JE003', 'a version is needed', 'received to_version = null', 'Name the version: see fencepost.workflow_versions.');
  end if;
  select f.version_id, f.version, f.definition -> 'tasks' as tasks, f.definition -> 'input' as input into v_version from workflow w cross join lateral find_version(w.name, migrate_run.to_version) as f where w.workflow_id = v_run.workflow_id;
  if v_run.status in ('completed', 'cancelled', 'compensating', 'compensated') or v_run.compensating_at is not null then
    perform raise_error('JE004', format('run %s is %s and cannot change its version', v_run.run_id, v_run.status), format('received run_id = %s', v_run.run_id), 'Use restart_run() or start a new run.');
  end if;
  v_problem := schema_problem(v_version.input, v_run.input, 'input');
  if v_problem is not null then
    perform raise_error('JE003', format('the input of run %s does not fit the schema of version %s', v_run.run_id, v_version.version), v_problem, 'Start a new run with another input.');
  end if;
  select o.name, t.status, n.name is null as is_gone into v_bad
  from task t
  join workflow_task o on o.version_id = v_run.version_id and o.task_no = t.task_no
  left join workflow_task n on n.version_id = v_version.version_id and n.name = o.name
  where t.run_id = v_run.run_id and t.item is null and t.status <> 'pending'
    and (n.name is null or n.kind <> o.kind or n.type is distinct from o.type)
  limit 1;
  if found then
    perform raise_error('JE004', format('task %s is %s and %s in version %s', v_bad.name, v_bad.status, case when v_bad.is_gone then 'does not exist' else 'is another kind of task' end, migrate_run.to_version),
      format('run %s', v_run.run_id), 'Tasks that have begun must exist in the new version with the same kind and type.');
  end if;

  return query
  select coalesce(n.name, o.name), case when o.name is null then 'added' when n.name is null then 'dropped' else 'changed' end
  from (select t.key as name, t.value as spec from workflow_version v cross join lateral jsonb_each(v.definition -> 'tasks') as t where v.version_id = v_run.version_id) as o
  full join (select t.key as name, t.value as spec from jsonb_each(v_version.tasks) as t) as n on n.name = o.name
  where n.spec is distinct from o.spec
  order by 1;
  if migrate_run.dry_run or v_version.version_id = v_run.version_id then
    return;
  end if;

  with dropped as (
    delete from task t
    where t.run_id = v_run.run_id and t.status = 'pending' and t.item is null
      and not exists (select from workflow_task o join workflow_task n on n.version_id = v_version.version_id and n.name = o.name
                      where o.version_id = v_run.version_id and o.task_no = t.task_no)
    returning t.task_id
  )
  delete from approval a using dropped d where a.task_id = d.task_id;
  -- numbers change place: move them out of the way first, so that the unique index holds at every row
  update task t set task_no = -n.task_no - 1
  from workflow_task o join workflow_task n on n.version_id = v_version.version_id and n.name = o.name
  where t.run_id = v_run.run_id and o.version_id = v_run.version_id and o.task_no = t.task_no;
  update task t set task_no = -t.task_no - 1 where t.run_id = v_run.run_id and t.task_no < 0;
  update task t set kind = d.kind from workflow_task d
  where t.run_id = v_run.run_id and t.item is null and t.status = 'pending' and d.version_id = v_version.version_id and d.task_no = t.task_no;
  insert into task (run_id, task_no, kind, status)
  select v_run.run_id, d.task_no, d.kind, 'pending' from workflow_task d
  where d.version_id = v_version.version_id and not exists (select from task t where t.run_id = v_run.run_id and t.task_no = d.task_no and t.item is null)
  order by d.task_no;
  update task t
  set unmet = m.unmet + case when t.gate_id is null then 0 else 1 end, skipped_parents = m.skipped
  from workflow_task d
  cross join lateral (
    select count(*) filter (where not p.released)::int as unmet, count(*) filter (where p.status = 'skipped')::int as skipped
    from workflow_edge e join task p on p.run_id = v_run.run_id and p.task_no = e.parent_no and p.item is null
    where e.version_id = v_version.version_id and e.child_no = d.task_no
  ) as m
  where t.run_id = v_run.run_id and t.item is null and t.status = 'pending' and d.version_id = v_version.version_id and d.task_no = t.task_no;
  update run r set version_id = v_version.version_id, migrated_at = v_now, pending = (select count(*) from task t where t.run_id = v_run.run_id and t.status = 'pending' and t.item is null)
  where r.run_id = v_run.run_id;
  insert into event (xid, at, tenant, kind, run_id, actor, data)
  select xid(), v_now, v_run.tenant, 'run.migrated', v_run.run_id, actor(), jsonb_build_object('from', o.version, 'to', v_version.version)
  from workflow_version o where o.version_id = v_run.version_id;
  perform start_roots(array[v_run.run_id], v_now), advance(null, null, array[row(v_run.run_id, 0, 0, 0, 0, 0, 0, 0, 0)::run_delta], v_now);
end
$$;
comment on function fencepost.migrate_run(bigint, int, boolean) is 'Moves a run to another version of its workflow and returns what changes; dry_run only looks. Raises JE002, JE003, JE004.';
--! EndIncluded workflows/migrate_run.sql
--! Included workflows/settle_due.sql
-- Timers that fire, approvals and signals that expire. A step of maintain(); at most p_limit of each. In a paused run
-- nothing fires or expires. Runs that somebody holds are passed over until the next pass.
-- With p_window only what fell due within it: maintain() passes five minutes each second, so that under a held snapshot it
-- never walks the dead head of the indexes, and null once a minute, for what was held or committed late.
-- Locks: root runs, SKIP LOCKED.
create function fencepost_private.settle_due_runs(p_limit int default 500, p_window interval default null, p_now timestamptz default fencepost_private.now())
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set timezone = 'UTC'
set jit = off
as $$
declare
  v_from  timestamptz := coalesce(p_now - p_window, '-infinity');
  v_tasks bigint[];
  v_gates bigint[];
  v_due   bigint[];
  v_roots bigint[];
  v_held  bigint[] := left_alone('settle_due_runs', p_now);
begin
  for v_try in 1..5 loop
    v_tasks := array(
      select t.task_id
      from task t cross join lateral (select r.paused_at, r.root_run_id from run r where r.run_id = t.run_id offset 0) as r
      where t.due_at >= v_from and t.due_at <= p_now and r.paused_at is null and not r.root_run_id = any (v_held) order by t.due_at limit p_limit);
    v_gates := array(
      select a.approval_id
      from approval a cross join lateral (select r.paused_at, r.root_run_id from run r where r.run_id = a.run_id offset 0) as r
      where a.status = 'pending' and a.is_gate and a.expires_at >= v_from and a.expires_at <= p_now and r.paused_at is null and not r.root_run_id = any (v_held)
      order by a.expires_at limit p_limit);
    if cardinality(v_tasks) + cardinality(v_gates) = 0 then
      return 0;
    end if;
    v_due := array(
      select distinct r.root_run_id
      from (
        select t.run_id from unnest(v_tasks) as i(task_id) cross join lateral (select t.run_id from task t where t.task_id = i.task_id offset 0) as t
        union all
        select a.run_id from unnest(v_gates) as i(approval_id) cross join lateral (select a.run_id from approval a where a.approval_id = i.approval_id offset 0) as a
      ) as due
      cross join lateral (select r.root_run_id from run r where r.run_id = due.run_id offset 0) as r);
    v_roots := array(select r.run_id from run r where r.run_id = any (v_due) order by r.run_id for no key update skip locked);
    -- a run that is held does not keep others waiting behind all that is due in it
    exit when cardinality(v_roots) = cardinality(v_due) or cardinality(v_tasks) < p_limit and cardinality(v_gates) < p_limit;
    v_held := v_held || array(select i from unnest(v_due) as i where not i = any (v_roots));
  end loop;

  return isolated('settle_due_runs', 'settle_due_of($1, $2, $3, $4)', v_roots, p_now, v_tasks, v_gates);
end
$$;
comment on function fencepost_private.settle_due_runs(int, interval, timestamptz)
  is 'Fires timers and lets approvals and signals expire, at most p_limit of each; with p_window only what fell due within it. Returns how many.';

-- The same for these families, which are locked: of these tasks and gates those that are theirs, and still due.
create function fencepost_private.settle_due_of(p_roots bigint[], p_now timestamptz, p_tasks bigint[], p_gates bigint[])
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set timezone = 'UTC'
set jit = off
as $$
declare
  v_count bigint := 0;
  v       record;
begin
  for v in
    select a.approval_id
    from (
      select g.approval_id from unnest(p_gates) as g(approval_id)
      union all
      select a.approval_id
      from unnest(p_tasks) as i(task_id) cross join lateral (select a.* from approval a where a.task_id = i.task_id offset 0) as a where not a.is_gate
    ) as c
    cross join lateral (select a.* from approval a where a.approval_id = c.approval_id offset 0) as a
    cross join lateral (select r.root_run_id, r.paused_at from run r where r.run_id = a.run_id offset 0) as r
    where a.status = 'pending' and a.expires_at <= p_now and r.root_run_id = any (p_roots) and r.paused_at is null
    order by a.approval_id
  loop
    -- one that expired may have ended the task of the next
    continue when not exists (select from approval a where a.approval_id = v.approval_id and a.status = 'pending');
    perform decide(v.approval_id, 'expired', 'the clock', null, null, p_now);
    v_count := v_count + 1;
  end loop;
  select array_agg(row(t.task_id, case when t.kind = 'timer' then 'completed' else 'failed' end,
                       case when t.kind = 'timer' then to_jsonb(t.due_at) end,
                       case when t.kind <> 'timer' then 'it was waited for in vain' end)::task_end order by t.task_id) as ends, count(*) as n
    into v
  from unnest(p_tasks) as i(task_id)
  cross join lateral (select t.* from task t where t.task_id = i.task_id offset 0) as t
  cross join lateral (select r.root_run_id, r.paused_at from run r where r.run_id = t.run_id offset 0) as r
  where t.due_at <= p_now and t.status = 'waiting' and t.kind in ('timer', 'signal') and r.root_run_id = any (p_roots) and r.paused_at is null;
  perform advance(v.ends, null, null, p_now);
  return v_count + v.n;
end
$$;
comment on function fencepost_private.settle_due_of(bigint[], timestamptz, bigint[], bigint[]) is 'Fires and expires those of these tasks and gates that are due and of these families. Returns how many.';
--! EndIncluded workflows/settle_due.sql
--! Included workflows/retire_runs.sql
-- Removes runs that have ended, by families: an outermost run with its child runs, their tasks, approvals, signals and
-- idempotency keys, once the last of them ended longer ago than the keep_finished of its workflow. Jobs and events go by
-- rules of their own, before or after: neither needs the run.
--
-- Two things are kept until somebody decides, like dead letters:
--   a run that has failed: it can be retried, until it is cancelled
--   a run with a dead letter that can be replayed; one that cannot (its run was cancelled, or undone) is discarded with it
--
-- Walks the runs by id, p_limit a call, from where it stopped, up to the first that is too young to have ended long
-- enough ago; of what it finds it removes whole families until they had some p_tasks tasks, and goes on behind them at
-- the next call. At the end it rests for a hundredth of the shortest keep_finished, but from a minute to an hour: under a
-- held snapshot only the first call of a round meets what earlier rounds have removed.
-- Returns how many runs were removed.
-- Locks: the root runs, SKIP LOCKED; those that somebody holds wait for the next round.
create function fencepost_private.retire_runs(p_limit int default 1000, p_tasks int default 20000)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now    timestamptz := fencepost_private.now();
  v_least  interval := (select min(w.keep_finished) from workflow w);
  v_step   maintain_step;
  v_last   bigint;
  v_looked bigint;
  v_left   bigint[] := left_alone('retire_runs', v_now);
  v_due    bigint[];
  v_roots  bigint[];
begin
  select m.* into v_step from maintain_step m where m.step = 'retire_runs';
  if v_least is null or v_step.position = 0 and v_step.last_at > v_now - greatest(interval '1 minute', least(interval '1 hour', v_least / 100)) then
    return 0;      -- no workflow, hence no run; or it rests
  end if;
  with walked as materialized (
    select r.run_id, r.root_run_id, r.workflow_id, r.status, r.finished_at, r.created_at <= v_now - v_least as is_old
    from run r where r.run_id > v_step.position order by r.run_id limit p_limit
  )
  select max(w.run_id), count(*) filter (where w.is_old),
         coalesce(array_agg(w.run_id order by w.run_id) filter (
           where w.root_run_id = w.run_id and w.status in ('completed', 'cancelled', 'compensated') and not w.run_id = any (v_left)
             and w.finished_at <= v_now - (select k.keep_finished from workflow k where k.workflow_id = w.workflow_id)), '{}')
    into v_last, v_looked, v_due
  from walked w;

  v_roots := fitting_families(v_due, p_tasks);
  if cardinality(v_roots) < cardinality(v_due) then
    v_last := v_roots[cardinality(v_roots)];
    v_looked := p_limit;
  end if;
  update maintain_step m
  set position = case when v_looked = p_limit then v_last else 0 end, last_at = v_now
  where m.step = 'retire_runs';
  return isolated('retire_runs', 'retire_families($1, $2)', v_roots, v_now);
end
$$;
comment on function fencepost_private.retire_runs(int, int) is 'A step of maintain(): removes finished runs whose keep_finished has passed, with all that is theirs. Returns how many.';

-- These families from the first on, as long as those before have fewer than p_tasks tasks. At least one.
create function fencepost_private.fitting_families(p_roots bigint[], p_tasks int)
returns bigint[]
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_fit    bigint[] := '{}'::bigint[];
  v_before bigint := 0;
  v        record;
begin
  for v in
    select f.root_run_id, (select count(*) from (select from task t where t.run_id = any (f.runs) limit p_tasks) as t) as tasks
    from (select k.root_run_id, array_agg(k.run_id) as runs from families(p_roots) as k group by k.root_run_id) as f
    order by f.root_run_id
  loop
    exit when v_before >= p_tasks;
    v_fit := v_fit || v.root_run_id;
    v_before := v_before + v.tasks;
  end loop;
  return v_fit;
end
$$;
comment on function fencepost_private.fitting_families(bigint[], int) is 'As many of these families, from the first on, as have about this many tasks together.';

-- These root runs and the runs inside of them.
create function fencepost_private.families(p_roots bigint[])
returns table (run_id bigint, root_run_id bigint, finished_at timestamptz)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
begin
  return query
  select k.run_id, i.root_run_id, k.finished_at
  from unnest(p_roots) as i(root_run_id)
  cross join lateral (
    select r.run_id, r.finished_at from run r where r.run_id = i.root_run_id
    union all
    select c.run_id, c.finished_at from run c where c.root_run_id = i.root_run_id and c.root_run_id <> c.run_id
  ) as k;
end
$$;
comment on function fencepost_private.families(bigint[]) is 'These root runs and the runs inside of them.';

-- Removes those of these families that can go. Returns how many runs.
create function fencepost_private.retire_families(p_roots bigint[], p_now timestamptz)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_roots bigint[] := array(select r.run_id from run r where r.run_id = any (p_roots) order by r.run_id for update skip locked);
  v_runs  bigint[];
  v_dead  record;
begin
  -- under the locks, in new statements: one may have come back to life, or a child run may have ended later
  v_roots := array(
    select f.root_run_id
    from families(v_roots) as f
    cross join lateral (select r.status, r.workflow_id from run r where r.run_id = f.root_run_id offset 0) as r
    cross join lateral (select w.keep_finished from workflow w where w.workflow_id = r.workflow_id offset 0) as w
    group by f.root_run_id
    having bool_and(r.status in ('completed', 'cancelled', 'compensated') and f.finished_at is not null and f.finished_at <= p_now - w.keep_finished)
    order by f.root_run_id);
  with dead as materialized (
    select f.root_run_id, z.id
    from families(v_roots) as f
    cross join lateral (select t.job_id from task t where t.run_id = f.run_id and t.status = 'failed' and t.job_id is not null offset 0) as t
    cross join lateral (select z.id from dead_letter z where z.id = t.job_id offset 0) as z
  ), judged as (
    -- by grouping: to look each up among the others would take a time that grows with the square of a family
    select j.id, max(j.root_run_id) as root_run_id, bool_or(j.is_late) as is_late
    from (select d.id, d.root_run_id, false as is_late from dead d
          union all
          select l.job_id, null, true from late_replays(array(select d.id from dead d)) as l) as j
    group by j.id
  )
  select array_agg(j.id order by j.id) as ids, coalesce(array_agg(distinct j.root_run_id) filter (where not j.is_late), '{}') as kept,
         array_agg(j.root_run_id order by j.id) as roots
    into v_dead
  from judged j;
  v_roots := array(select r from unnest(v_roots) as r where not r = any (v_dead.kept));
  if cardinality(v_roots) = 0 then
    return 0;
  end if;
  if v_dead.ids is not null then
    perform discard_jobs(array(select d.id from unnest(v_dead.ids, v_dead.roots) as d(id, root) where d.root = any (v_roots)), 'its run is retired');
  end if;

  v_runs := array(select f.run_id from families(v_roots) as f);
  delete from signal s where s.run_id = any (v_runs);
  delete from approval a where a.run_id = any (v_runs);
  delete from task t where t.run_id = any (v_runs);
  delete from run r where r.run_id = any (v_runs);
  return cardinality(v_runs);
end
$$;
comment on function fencepost_private.retire_families(bigint[], timestamptz) is 'Removes those of these families of runs that have ended for good, with all that is theirs; returns how many runs.';
--! EndIncluded workflows/retire_runs.sql
--! Included workflows/explain_task.sql
-- Why a task is not running now, and what would let it go on. A row for each reason; of a task that is being undone, a row
-- more for its undoing.
-- Errors: JE002.
create function fencepost.explain_task(run_id bigint, task text)
returns table (reason text, detail text, release text)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v record;
begin
  select t.*, r.status as run_status, r.paused_at, r.version_id, r.reason as run_reason into v
  from run r
  join workflow_task d on d.version_id = r.version_id and d.name = explain_task.task
  join task t on t.run_id = r.run_id and t.task_no = d.task_no and t.item is null
  where r.run_id = explain_task.run_id;
  if not found then
    perform raise_error('JE002', format('run %s has no task %s', coalesce(explain_task.run_id::text, 'null'), coalesce(quote_literal(explain_task.task), 'null')),
      format('received run_id = %s, task = %s', coalesce(explain_task.run_id::text, 'null'), coalesce(explain_task.task, 'null')), 'See fencepost.tasks.');
  end if;

  if v.status in ('completed', 'skipped', 'cancelled', 'failed') then
    return query select 'it is ' || v.status, coalesce(v.error, 'since ' || v.finished_at),
      case v.status when 'failed' then remedy_of(v.task_id) end;
    return query select u.reason, u.detail, u.release from explain_undoing(v.task_id) as u;
    return;
  end if;
  if v.paused_at is not null then
    return query select 'its run is paused'::text, 'since ' || v.paused_at || coalesce(': ' || v.run_reason, ''), format('select fencepost.resume_run(%s)', v.run_id);
  end if;
  if v.gate_id is not null then
    return query select 'somebody must approve it first'::text, coalesce(a.reason, 'requested by ' || a.requested_by), format('select fencepost.approve(%s)', a.approval_id)
    from approval a where a.approval_id = v.gate_id;
  end if;
  if v.status = 'pending' then
    return query
    select 'it waits for ' || pd.name, 'which is ' || p.status || coalesce(': ' || p.error, ''),
           coalesce(case p.status when 'failed' then remedy_of(p.task_id) end, format('select * from fencepost.explain_task(%s, %L)', v.run_id, pd.name))
    from workflow_edge e
    join workflow_task pd on pd.version_id = e.version_id and pd.task_no = e.parent_no
    join task p on p.run_id = v.run_id and p.task_no = e.parent_no and p.item is null
    where e.version_id = v.version_id and e.child_no = v.task_no and not p.released
    order by e.parent_no;
  elsif v.status = 'waiting' then
    return query
    select case v.kind when 'approval' then 'it waits for a decision' when 'timer' then 'it waits for a time' when 'signal' then 'it waits for the signal ' || d.signal
                       when 'map' then 'its items are not done' else 'its child run has not ended' end,
           case v.kind when 'map' then format('%s of %s are open, %s failed', v.items_open, v.items, v.items_failed)
                       when 'workflow' then format('run %s is %s', v.child_run_id, (select c.status from run c where c.run_id = v.child_run_id))
                       else coalesce('until ' || v.due_at, 'without an end') end,
           case v.kind when 'approval' then (select format('select fencepost.approve(%s)', a.approval_id) from approval a where a.task_id = v.task_id and a.status = 'pending' and not a.is_gate)
                       when 'signal' then format('select fencepost.signal_run(%s, %L)', v.run_id, d.signal)
                       when 'map' then format('select * from fencepost.tasks where run_id = %s and item is not null and status <> ''completed''', v.run_id)
                       when 'workflow' then format('select * from fencepost.tasks where run_id = %s', v.child_run_id) end
    from workflow_task d where d.version_id = v.version_id and d.task_no = v.task_no;
  elsif v.status = 'queued' and v.gate_id is null and v.paused_at is null then
    return query select 'its job: ' || j.reason, j.detail, j.release from fencepost.explain_job(v.job_id) as j;
  end if;
end
$$;
comment on function fencepost.explain_task(bigint, text) is 'Why a task is not running now, and what would let it go on. Raises JE002.';

-- The call that tries a failed task again: of itself, or of the outermost run from there when it cannot be by itself; null
-- as long as neither is possible.
create function fencepost_private.remedy_of(p_task_id bigint)
returns text
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v record;
begin
  if exists (select from retryable(array[p_task_id])) then
    return format('select fencepost.replay_task(%s)', p_task_id);
  end if;
  select o.run_id, coalesce(o.task, d.name) as task into v
  from task t
  join run r on r.run_id = t.run_id
  join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
  cross join lateral outer_task(t.run_id) as o
  join run root on root.run_id = o.run_id
  where t.task_id = p_task_id and root.finished_at is not null;
  return case when found then format('select fencepost.restart_run(%s, %L)', v.run_id, v.task) end;
end
$$;
comment on function fencepost_private.remedy_of(bigint) is 'The call that tries a failed task again, or null.';

-- How it stands with the undoing of a task, if it is being undone or was.
create function fencepost_private.explain_undoing(p_task_id bigint)
returns table (reason text, detail text, release text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v record;
begin
  select u.task_id, u.status, u.error, u.finished_at, u.job_id, d.compensate, r.run_id, r.paused_at, r.reason as run_reason into v
  from task u
  join run r on r.run_id = u.run_id
  join workflow_task d on d.version_id = r.version_id and d.task_no = u.task_no
  where u.parent_task_id = p_task_id and u.kind = 'compensation';
  if not found then
    return;
  elsif v.status = 'completed' then
    return query select 'it was undone', format('by %s, since %s', v.compensate, v.finished_at), null::text;
  elsif v.status in ('failed', 'cancelled') then
    return query select format('its undoing by %s is %s', v.compensate, v.status), coalesce(v.error, 'since ' || v.finished_at),
      case when exists (select from retryable(array[v.task_id])) then format('select fencepost.replay_task(%s)', v.task_id) end;
  elsif v.paused_at is not null then
    return query select 'its run is paused'::text, 'since ' || v.paused_at || coalesce(': ' || v.run_reason, ''), format('select fencepost.resume_run(%s)', v.run_id);
  elsif v.status = 'queued' then
    return query select format('its undoing by %s: %s', v.compensate, j.reason), j.detail, j.release from fencepost.explain_job(v.job_id) as j;
  else
    return query
    select format('its undoing by %s waits', v.compensate), coalesce('for that of ' || o.name || ', which is ' || o.status || coalesce(': ' || o.error, ''), 'for runs inside of its run to end'),
           coalesce('select * from fencepost.explain_task(' || v.run_id || ', ' || quote_literal(o.name) || ')', format('select * from fencepost.runs where root_run_id = (select root_run_id from fencepost.runs where id = %s)', v.run_id))
    from (select) as nothing
    left join lateral (
      select d.name, u.status, u.error
      from task u join run r on r.run_id = u.run_id join workflow_task d on d.version_id = r.version_id and d.task_no = u.task_no
      where u.run_id = v.run_id and u.kind = 'compensation' and u.status in ('queued', 'failed', 'cancelled')
      order by u.task_no desc limit 1
    ) as o on true;
  end if;
end
$$;
comment on function fencepost_private.explain_undoing(bigint) is 'How it stands with the undoing of a task, and what would let it go on.';
--! EndIncluded workflows/explain_task.sql
--! Included workflows/workflow_diff.sql
-- What differs between two versions of a workflow: a row for each task and key. Errors: JE002.
create function fencepost.workflow_diff(name text, from_version int, to_version int)
returns table (task text, key text, before jsonb, after jsonb)
language plpgsql
stable
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_a jsonb := (select f.definition from find_version(workflow_diff.name, workflow_diff.from_version) as f);
  v_b jsonb := (select f.definition from find_version(workflow_diff.name, workflow_diff.to_version) as f);
begin
  return query
  with a as (
    select null::text as task, e.key, e.value from jsonb_each(v_a - 'tasks') as e
    union all select t.key, e.key, e.value from jsonb_each(v_a -> 'tasks') as t cross join lateral jsonb_each(t.value) as e
  ), b as (
    select null::text as task, e.key, e.value from jsonb_each(v_b - 'tasks') as e
    union all select t.key, e.key, e.value from jsonb_each(v_b -> 'tasks') as t cross join lateral jsonb_each(t.value) as e
  )
  select coalesce(a.task, b.task), coalesce(a.key, b.key), a.value, b.value
  from a full join b on b.task is not distinct from a.task and b.key = a.key
  where a.value is distinct from b.value
  order by 1 nulls first, 2;
end
$$;
comment on function fencepost.workflow_diff(text, int, int) is 'What differs between two versions of a workflow, by task and key. Raises JE002.';
--! EndIncluded workflows/workflow_diff.sql
--! Included workflows/filters.sql
-- Filters of runs, tasks and approvals, as list_runs, list_tasks and list_approvals take them.
create type fencepost_private.run_filter as (
  workflow        text,
  version         int,
  status          text,
  tag             text,
  tenant          text,
  idempotency_key text,
  created_after   timestamptz,
  created_before  timestamptz
);
comment on type fencepost_private.run_filter is 'A filter of runs; nulls do not filter.';

create type fencepost_private.task_filter as (
  status         text,
  parent_task_id bigint
);
comment on type fencepost_private.task_filter is 'A filter of tasks; nulls do not filter.';

create type fencepost_private.approval_filter as (
  status   text,
  run_id   bigint,
  workflow text,
  tenant   text
);
comment on type fencepost_private.approval_filter is 'A filter of approvals; nulls do not filter.';
--! EndIncluded workflows/filters.sql
--! Included workflows/list_runs.sql
-- Lists runs, newest first, at most `max` (1 to 1000), with ids below `after` (the id of the last row before).
--
-- The filter is a JSON object; each key narrows:
--   workflow, status, tag, tenant, created_after, created_before
--   version          of the given workflow
--   idempotency_key  of the given workflow, and of the given tenant, else the session's
--
-- It never looks at more than 10,000 runs. When that was not enough to fill the list, the last row says so: its `cut`
-- is true, its id is how far the look went, everything else in it is null; go on with after => that id.
-- Errors: JE003.
create function fencepost.list_runs(filter jsonb default '{}', after bigint default null, max int default 50)
returns table (id bigint, workflow text, version int, status text, input jsonb, created_at timestamptz, finished_at timestamptz,
               pending_tasks int, queued_tasks int, waiting_tasks int, ended_tasks int, failed_tasks int, total_tasks int,
               tags text[], priority int, tenant text, idempotency_key text, reason text, paused_at timestamptz, cancelled_at timestamptz,
               parent_run_id bigint, parent_task_id bigint, root_run_id bigint, restarted_from bigint, cut boolean)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  v_filter run_filter;
  v_look   record;
begin
  v_filter := read_filter(v_filter, list_runs.filter, array['workflow', 'version', 'status', 'tag', 'tenant', 'idempotency_key', 'created_after', 'created_before'],
    'version is a whole number; created_after and created_before are times such as 2030-01-31T12:00:00Z.');
  perform check_status(v_filter.status, array['running', 'waiting', 'paused', 'completed', 'failed', 'cancelled', 'compensating', 'compensated'], 'A run');
  perform check_max(list_runs.max);
  if v_filter.workflow is null and (v_filter.version is not null or v_filter.idempotency_key is not null) then
    perform raise_error('JE003', 'version and idempotency_key of the filter need a workflow', format('received %s', list_runs.filter), 'Versions and keys belong to a workflow: name it too.');
  end if;

  v_look := bounded_look(run_source(v_filter), $query$
      join run r on r.run_id = c.id
      join workflow w on w.workflow_id = r.workflow_id
      join workflow_version v on v.version_id = r.version_id
      where ($3.workflow is null or w.name = $3.workflow)
        and ($3.version is null or v.version = $3.version)
        and ($3.status is null or r.status = $3.status::run_status)
        and ($3.tag is null or $3.tag = any (r.tags))
        and ($3.tenant is null or r.tenant = $3.tenant)
        and ($3.created_after is null or r.created_at >= $3.created_after)
        and ($3.created_before is null or r.created_at < $3.created_before)
    $query$, v_filter, list_runs.after, list_runs.max);

  return query
  select r.id, r.workflow, r.version, r.status, r.input, r.created_at, r.finished_at,
         r.pending_tasks, r.queued_tasks, r.waiting_tasks, r.ended_tasks, r.failed_tasks, r.total_tasks,
         r.tags, r.priority, r.tenant, r.idempotency_key, r.reason, r.paused_at, r.cancelled_at,
         r.parent_run_id, r.parent_task_id, r.root_run_id, r.restarted_from, false
  from fencepost.runs r
  where r.id = any (v_look.ids)
  order by r.id desc;

  if v_look.cut_at is not null then
    id := v_look.cut_at;
    cut := true;
    return next;
  end if;
end
$$;
comment on function fencepost.list_runs(jsonb, bigint, int)
  is 'Lists runs that match a filter, newest first, from below the id `after`; looks at no more than 10,000 and says with a last row when that cut it short. Raises JE003.';

-- The narrowest index that holds all runs a filter can find, as a query of their ids (run_id + 0 is what they hold).
create function fencepost_private.run_source(p_filter fencepost_private.run_filter)
returns text
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select format('select r.run_id%s as id from run r', case when p_filter.idempotency_key is null and coalesce(p_filter.status, p_filter.workflow) is not null then ' + 0' end) || case
    when p_filter.idempotency_key is not null then
      ' where r.tenant = coalesce($3.tenant, current_tenant()) and r.idempotency_key = $3.idempotency_key'
      ' and r.workflow_id = (select w.workflow_id from workflow w where w.name = $3.workflow)'
    when p_filter.status is not null and (p_filter.status <> 'completed' or p_filter.workflow is null) then ' where r.status = $3.status::run_status'
    when p_filter.workflow is not null then ' where r.workflow_id = (select w.workflow_id from workflow w where w.name = $3.workflow)'
    else '' end
$$;
comment on function fencepost_private.run_source(fencepost_private.run_filter) is 'SQL of the narrowest index that holds all runs a filter can find.';
--! EndIncluded workflows/list_runs.sql
--! Included workflows/list_tasks.sql
-- Lists tasks of a run, parents before children, at most `max` (1 to 1000), from behind the task `after_task` (the id of
-- the last row before). Items of a map, and the compensation of a task, are listed with parent_task_id.
--
-- The filter is a JSON object; each key narrows:
--   status           pending, queued, running, waiting, completed, failed, skipped or cancelled
--   parent_task_id   the map whose items are listed, or the task whose compensation is
--
-- `compensation` is the status of the task that undoes this one; null when there is none.
--
-- With a status it looks at no more than 10,000 tasks. When that was not enough to fill the list, the last row says so:
-- its `cut` is true, its id is how far the look went, everything else in it is null; go on with after_task => that id.
-- Errors: JE002 (the run, or a task that is not of it), JE003.
create function fencepost.list_tasks(run_id bigint, filter jsonb default '{}', after_task bigint default null, max int default 50)
returns table (id bigint, name text, kind text, status text, attempts int, output jsonb, error text, type text, job_id bigint, child_run_id bigint,
               item int, parent_task_id bigint, approval_id bigint, due_at timestamptz, ready_at timestamptz, started_at timestamptz, finished_at timestamptz,
               unmet_parents int, after text[], items int, items_open int, items_failed int, compensation text, cut boolean)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  v_budget constant int := 10000;
  v_filter task_filter;
  v_from   int := -1;
  v_ids    bigint[];
  v_end    bigint;
begin
  v_filter := read_filter(v_filter, list_tasks.filter, array['status', 'parent_task_id'], 'parent_task_id is the whole number of a task.');
  perform check_status(v_filter.status, array['pending', 'queued', 'running', 'waiting', 'completed', 'failed', 'skipped', 'cancelled'], 'A task');
  perform check_max(list_tasks.max);
  if not exists (select from run r where r.run_id = list_tasks.run_id) then
    perform raise_error('JE002', format('run %s does not exist', coalesce(list_tasks.run_id::text, 'null')), format('received run_id = %s', coalesce(list_tasks.run_id::text, 'null')), 'See fencepost.runs.');
  end if;
  if v_filter.parent_task_id is not null then
    perform task_of_run(v_filter.parent_task_id, list_tasks.run_id);
  end if;
  if list_tasks.after_task is not null then
    v_from := (select coalesce(t.item, t.task_no) from task_of_run(list_tasks.after_task, list_tasks.run_id) as t);
  end if;

  with looked as materialized (
    (select t.task_id, t.task_no as place, t.status, t.job_id from task t
     where v_filter.parent_task_id is null and t.run_id = list_tasks.run_id and t.item is null and t.task_no > v_from
     order by t.task_no limit case when v_filter.status is null then list_tasks.max else v_budget end)
    union all
    (select t.task_id, t.item, t.status, t.job_id from task t
     where t.parent_task_id = v_filter.parent_task_id and t.item > v_from
     order by t.item limit case when v_filter.status is null then list_tasks.max else v_budget end)
  )
  select array(select l.task_id from looked l
               where v_filter.status is null
                  or v_filter.status = case when l.status = 'queued' and exists (select from lease h where h.id = l.job_id) then 'running' else l.status::text end
               order by l.place limit list_tasks.max),
         (select l.task_id from looked l where (select count(*) from looked) = v_budget order by l.place desc limit 1)
    into v_ids, v_end;

  return query
  select t.id, t.name, t.kind, t.status, t.attempts, t.output, t.error, t.type, t.job_id, t.child_run_id,
         t.item, t.parent_task_id, t.approval_id, t.due_at, t.ready_at, t.started_at, t.finished_at,
         t.unmet_parents, t.after, t.items, t.items_open, t.items_failed,
         (select u.status::text from task u where u.parent_task_id = t.id and u.item = 0 and u.kind = 'compensation'), false
  from unnest(v_ids) with ordinality as i(id, place)
  join fencepost.tasks t on t.id = i.id
  order by i.place;

  if cardinality(v_ids) < list_tasks.max and v_end is not null then
    id := v_end;
    cut := true;
    return next;
  end if;
end
$$;
comment on function fencepost.list_tasks(bigint, jsonb, bigint, int)
  is 'Lists tasks of a run, parents before children, from behind the task `after_task`; with parent_task_id the items of a map. Raises JE002, JE003.';

create function fencepost_private.task_of_run(p_task_id bigint, p_run_id bigint)
returns fencepost_private.task
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_task task;
begin
  select t.* into v_task from task t where t.task_id = p_task_id and t.run_id = p_run_id;
  if not found then
    perform raise_error('JE002', format('run %s has no task %s', p_run_id, p_task_id), format('received task %s', p_task_id), 'See fencepost.list_tasks().');
  end if;
  return v_task;
end
$$;
comment on function fencepost_private.task_of_run(bigint, bigint) is 'A task of a run. Raises JE002.';
--! EndIncluded workflows/list_tasks.sql
--! Included workflows/list_approvals.sql
-- Lists approvals, newest first, at most `max` (1 to 1000), with ids below `after` (the id of the last row before).
--
-- The filter is a JSON object; each key narrows:
--   status     pending, approved, rejected, expired or withdrawn
--   run_id, workflow, tenant
--
-- It never looks at more than 10,000 approvals. When that was not enough to fill the list, the last row says so: its
-- `cut` is true, its id is how far the look went, everything else in it is null; go on with after => that id.
-- Errors: JE003.
create function fencepost.list_approvals(filter jsonb default '{}', after bigint default null, max int default 50)
returns table (id bigint, run_id bigint, task text, status text, workflow text, task_id bigint, is_gate boolean, reason text,
               requested_at timestamptz, requested_by text, expires_at timestamptz, decided_at timestamptz, decided_by text,
               comment text, data jsonb, tenant text, cut boolean)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  v_filter approval_filter;
  v_look   record;
begin
  v_filter := read_filter(v_filter, list_approvals.filter, array['status', 'run_id', 'workflow', 'tenant'], 'run_id is the whole number of a run.');
  perform check_status(v_filter.status, array['pending', 'approved', 'rejected', 'expired', 'withdrawn'], 'An approval');
  perform check_max(list_approvals.max);

  v_look := bounded_look(
    'select a.approval_id as id from approval a' || case
      when v_filter.run_id is not null then ' where a.run_id = $3.run_id'
      when v_filter.status = 'pending' then ' where a.status = ''pending'''
      else '' end,
    $query$
      join approval a on a.approval_id = c.id
      join run r on r.run_id = a.run_id
      join workflow w on w.workflow_id = r.workflow_id
      where ($3.status is null or a.status = $3.status::approval_status)
        and ($3.workflow is null or w.name = $3.workflow)
        and ($3.tenant is null or r.tenant = $3.tenant)
    $query$, v_filter, list_approvals.after, list_approvals.max);

  return query
  select a.id, a.run_id, a.task, a.status, a.workflow, a.task_id, a.is_gate, a.reason, a.requested_at, a.requested_by,
         a.expires_at, a.decided_at, a.decided_by, a.comment, a.data, a.tenant, false
  from fencepost.approvals a
  where a.id = any (v_look.ids)
  order by a.id desc;

  if v_look.cut_at is not null then
    id := v_look.cut_at;
    cut := true;
    return next;
  end if;
end
$$;
comment on function fencepost.list_approvals(jsonb, bigint, int)
  is 'Lists approvals that match a filter, newest first, from below the id `after`; looks at no more than 10,000 and says with a last row when that cut it short. Raises JE003.';
--! EndIncluded workflows/list_approvals.sql
--! Included workflows/check_run_invariants.sql
-- What must always be true of runs and is not: no row is good news. Reads every run from p_first on, with its tasks, in
-- one snapshot; at most twenty rows for each invariant.
create function fencepost_private.check_run_invariants(p_first bigint default 0)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
set jit = off
as $$
begin
  return query select c.invariant, c.detail from check_run_numbers(p_first) as c;
  return query select c.invariant, c.detail from check_run_ends(p_first) as c;
  return query select c.invariant, c.detail from check_task_graph(p_first) as c;
  return query select c.invariant, c.detail from check_task_jobs(p_first) as c;
  return query select c.invariant, c.detail from check_task_waits(p_first) as c;
  return query select c.invariant, c.detail from check_maps(p_first) as c;
end
$$;
comment on function fencepost_private.check_run_invariants(bigint) is 'What must always be true of runs from this one on and is not: no row means healthy.';

-- The numbers and the status that a run carries are those that its tasks say.
create function fencepost_private.check_run_numbers(p_first bigint)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  with counted as materialized (
    select r.run_id,
           count(t.task_id) filter (where t.item is null and t.status = 'pending')::int as pending,
           count(t.task_id) filter (where t.status = 'queued')::int as queued,
           count(t.task_id) filter (where t.status = 'waiting')::int as waiting,
           count(t.task_id) filter (where t.item is null and (t.status in ('completed', 'skipped') or t.status = 'failed' and t.released))::int as ended_well,
           count(t.task_id) filter (where t.item is null and t.status = 'failed' and not t.released)::int as failed,
           count(t.task_id) filter (where t.item is null and t.status = 'cancelled')::int as cancelled,
           count(t.task_id) filter (where t.kind = 'compensation' and t.status <> 'completed')::int as undoing,
           count(t.task_id) filter (where t.kind = 'compensation' and t.status in ('failed', 'cancelled'))::int as undo_failed
    from run r left join task t on t.run_id = r.run_id
    where r.run_id >= p_first
    group by r.run_id
  )
  select 'the numbers of a run are those of its tasks', format('run %s says %s, its tasks say %s', r.run_id,
           row(r.pending, r.queued, r.waiting, r.ended_well, r.failed, r.cancelled, r.undoing, r.undo_failed),
           row(c.pending, c.queued, c.waiting, c.ended_well, c.failed, c.cancelled, c.undoing, c.undo_failed))
  from counted c join run r on r.run_id = c.run_id
  where (r.pending, r.queued, r.waiting, r.ended_well, r.failed, r.cancelled, r.undoing, r.undo_failed)
     <> (c.pending, c.queued, c.waiting, c.ended_well, c.failed, c.cancelled, c.undoing, c.undo_failed)
  order by r.run_id limit 20;

  return query
  select 'the status of a run follows its numbers', format('run %s is %s and should be %s', s.run_id, s.status, s.due)
  from (
    select r.run_id, r.status,
           run_status_of(r.cancelled_at, r.compensating_at, r.paused_at, r.pending, r.queued, r.waiting, r.failed, r.cancelled, r.undoing, r.undo_failed) as due
    from run r where r.run_id >= p_first
  ) as s
  where s.status <> s.due order by s.run_id limit 20;

  return query
  select 'a run has the tasks of its version', format('run %s has %s of %s', r.run_id, n.n, v.tasks)
  from run r
  join workflow_version v on v.version_id = r.version_id
  cross join lateral (
    select count(*) as n from task t join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no and d.kind = t.kind
    where t.run_id = r.run_id and t.item is null
  ) as n
  where r.run_id >= p_first and n.n <> v.tasks order by r.run_id limit 20;
end
$$;
comment on function fencepost_private.check_run_numbers(bigint) is 'check_run_invariants, of numbers and status.';

-- A run that has ended is at rest, and so are the runs inside of it. What is removed goes whole.
create function fencepost_private.check_run_ends(p_first bigint)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  select 'a run has ended when nothing of it can move', format('run %s is %s with %s queued and %s waiting tasks, and finished_at is %s', r.run_id, r.status, r.queued, r.waiting, coalesce(r.finished_at::text, 'null'))
  from run r
  where r.run_id >= p_first
    and (r.finished_at is not null) <> (r.status in ('completed', 'failed', 'cancelled', 'compensated') and r.queued + r.waiting = 0)
  order by r.run_id limit 20;

  return query
  select 'an ended run has no live task', format('task %s of run %s, which is %s, is %s', t.task_id, r.run_id, r.status, t.status)
  from run r join task t on t.run_id = r.run_id
  where r.run_id >= p_first
    and (r.finished_at is not null and t.status in ('queued', 'waiting') or r.status in ('completed', 'cancelled', 'compensated') and t.status in ('pending', 'waiting'))
  order by t.task_id limit 20;

  return query
  select 'a run inside another belongs to its family', format('run %s of task %s has root %s and depth %s; run %s around it has %s and %s', c.run_id, t.task_id, c.root_run_id, c.depth, r.run_id, r.root_run_id, r.depth)
  from run c left join task t on t.task_id = c.parent_task_id left join run r on r.run_id = t.run_id
  where c.run_id >= p_first
    and case when c.parent_task_id is null then c.root_run_id <> c.run_id or c.depth <> 0
             else t.child_run_id is distinct from c.run_id or c.root_run_id is distinct from r.root_run_id or c.depth is distinct from r.depth + 1 end
  order by c.run_id limit 20;

  return query
  select 'what belongs to a run has one', format('%s %s names run %s', o.kind, o.id, o.run_id)
  from (
    select 'task' as kind, t.task_id as id, t.run_id from task t
    union all select 'approval', a.approval_id, a.run_id from approval a
    union all select 'signal', s.signal_id, s.run_id from signal s
    union all select 'run', c.run_id, c.root_run_id from run c
  ) as o
  where o.run_id >= p_first and not exists (select from run r where r.run_id = o.run_id)
  order by o.run_id limit 20;

  return query
  select 'nothing lives in a cancelled run but what undoes itself', format('run %s inside run %s is %s', c.run_id, r.run_id, c.status)
  from run r join task t on t.run_id = r.run_id join run c on c.run_id = t.child_run_id join workflow_version v on v.version_id = c.version_id
  where r.run_id >= p_first and r.status = 'cancelled' and c.finished_at is null and c.status <> 'cancelled' and not v.compensates
  order by c.run_id limit 20;
end
$$;
comment on function fencepost_private.check_run_ends(bigint) is 'check_run_invariants, of runs that have ended.';
--! EndIncluded workflows/check_run_invariants.sql
--! Included workflows/check_task_invariants.sql
-- What check_run_invariants says of tasks: what they wait for, their jobs, and maps.

-- Pending tasks wait for exactly their parents that have not ended well, and for their gate.
create function fencepost_private.check_task_graph(p_first bigint)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  select 'a pending task waits for its parents', format('task %s of run %s says unmet %s, skipped %s; its parents say %s, %s', t.task_id, t.run_id, t.unmet, t.skipped_parents, p.unmet, p.skipped)
  from run r
  join task t on t.run_id = r.run_id and t.item is null and t.status = 'pending'
  cross join lateral (
    select (count(*) filter (where not o.released))::int + case when t.gate_id is null then 0 else 1 end as unmet, (count(*) filter (where o.status = 'skipped'))::int as skipped
    from (select e.parent_no from workflow_edge e where e.version_id = r.version_id and e.child_no = t.task_no offset 0) as e
    cross join lateral (select o.released, o.status from task o where o.run_id = t.run_id and o.task_no = e.parent_no and o.item is null offset 0) as o
  ) as p
  where r.run_id >= p_first and (t.unmet, t.skipped_parents) <> (p.unmet, p.skipped)
  order by t.task_id limit 20;

  return query
  select 'a task that can start has started', format('task %s of run %s, which is %s, waits for nothing', t.task_id, t.run_id, r.status)
  from run r join task t on t.run_id = r.run_id and t.item is null and t.status = 'pending' and t.unmet = 0
  where r.run_id >= p_first and r.paused_at is null and r.cancelled_at is null and r.compensating_at is null
  order by t.task_id limit 20;

  return query
  select 'a task that ended well released its children', format('task %s is %s', t.task_id, t.status)
  from task t
  where t.run_id >= p_first and t.item is null and t.status in ('completed', 'skipped') and not t.released
  order by t.task_id limit 20;

  return query
  select 'a task starts after its parents', format('task %s is %s while its parent %s is %s', t.task_id, t.status, o.task_id, o.status)
  from run r
  join task t on t.run_id = r.run_id and t.item is null and t.status in ('queued', 'waiting', 'completed')
  cross join lateral (select e.parent_no from workflow_edge e where e.version_id = r.version_id and e.child_no = t.task_no offset 0) as e
  cross join lateral (select o.* from task o where o.run_id = t.run_id and o.task_no = e.parent_no and o.item is null offset 0) as o
  where r.run_id >= p_first and r.migrated_at is null and not o.released
  order by t.task_id limit 20;
end
$$;
comment on function fencepost_private.check_task_graph(bigint) is 'check_run_invariants, of what tasks wait for.';

-- A queued task has a living job, and a living job of a run has a queued task.
create function fencepost_private.check_task_jobs(p_first bigint)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  select 'a queued task has a living job', format('task %s of run %s has job %s, which is in %s', t.task_id, t.run_id, coalesce(t.job_id::text, 'null'), coalesce(p.place, 'no place'))
  from task t left join held_places() p on p.id = t.job_id
  where t.run_id >= p_first and t.status = 'queued' and coalesce(p.place, 'dead_letter') = 'dead_letter'
  order by t.task_id limit 20;

  return query
  select 'a living job of a run has a queued task', format('job %s in %s names task %s, which is %s with job %s', b.id, p.place, b.task_id, coalesce(t.status::text, 'unknown'), coalesce(t.job_id::text, 'null'))
  from held_places() p join job b on b.id = p.id left join task t on t.task_id = b.task_id
  where b.run_id >= p_first and (t.job_id is distinct from b.id or t.run_id is distinct from b.run_id
    or t.status is distinct from case when p.place = 'dead_letter' then 'failed' else 'queued' end::task_status)
  order by b.id limit 20;

  return query
  select 'nothing of a paused run can be claimed', format('job %s of run %s is in %s', p.id, r.run_id, p.place)
  from run r join task t on t.run_id = r.run_id and t.status = 'queued' join held_places() p on p.id = t.job_id
  where r.run_id >= p_first and r.paused_at is not null and p.place in ('ready', 'delayed')
  order by p.id limit 20;

  return query
  select 'a cancelled run has no job that was not told', format('job %s of run %s is in %s', t.job_id, r.run_id, p.place)
  from run r join task t on t.run_id = r.run_id and t.status = 'queued' join held_places() p on p.id = t.job_id
  where r.run_id >= p_first and r.cancelled_at is not null and not exists (select from lease l where l.id = t.job_id and l.cancel_requested_at is not null)
  order by p.id limit 20;

  return query
  select 'a parked job of a run has a reason', format('job %s of run %s waits for %s', k.id, r.run_id, k.waits_for)
  from run r join task t on t.run_id = r.run_id and t.status = 'queued' join parked k on k.id = t.job_id
  where r.run_id >= p_first and r.paused_at is null and t.gate_id is null and k.waits_for is distinct from map_place(t.parent_task_id)
  order by k.id limit 20;

  return query
  select 'a task behind a gate is held', format('job %s of task %s is in %s', t.job_id, t.task_id, p.place)
  from task t join held_places() p on p.id = t.job_id
  where t.run_id >= p_first and t.status = 'queued' and t.gate_id is not null and p.place <> 'parked'
  order by t.task_id limit 20;
end
$$;
comment on function fencepost_private.check_task_jobs(bigint) is 'check_run_invariants, of tasks and their jobs.';

-- What waits, waits for something that can still come.
create function fencepost_private.check_task_waits(p_first bigint)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  select 'a waiting task waits for something', format('task %s is a %s', t.task_id, t.kind)
  from task t
  where t.run_id >= p_first and t.status = 'waiting'
    and case t.kind
          when 'approval' then 1 <> (select count(*) from approval a where a.task_id = t.task_id and a.status = 'pending' and not a.is_gate)
          when 'timer' then t.due_at is null
          when 'signal' then exists (select from run r join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
                                     join signal s on s.run_id = t.run_id and s.name = d.signal and s.task_id is null where r.run_id = t.run_id)
          when 'map' then t.items_open = 0
          when 'workflow' then not exists (select from run c where c.run_id = t.child_run_id and (c.queued > 0 or c.status not in ('completed', 'failed', 'cancelled', 'compensated')))
          else true end
  order by t.task_id limit 20;

  return query
  select 'what can fall due waits', format('task %s is %s and due at %s', t.task_id, t.status, t.due_at)
  from task t where t.run_id >= p_first and t.due_at is not null and t.status <> 'waiting'
  order by t.task_id limit 20;

  return query
  select 'an open approval belongs to a live task', format('approval %s of task %s, which is %s', a.approval_id, a.task_id, coalesce(t.status::text, 'unknown'))
  from approval a left join task t on t.task_id = a.task_id
  where a.run_id >= p_first and a.status = 'pending'
    and (t.run_id is distinct from a.run_id
         or case when a.is_gate then t.gate_id is distinct from a.approval_id or t.status not in ('pending', 'queued') else t.status <> 'waiting' or t.kind <> 'approval' end)
  order by a.approval_id limit 20;

  return query
  select 'a gate is an open approval', format('task %s names approval %s', t.task_id, t.gate_id)
  from task t where t.run_id >= p_first and t.gate_id is not null
    and not exists (select from approval a where a.approval_id = t.gate_id and a.status = 'pending' and a.is_gate and a.task_id = t.task_id)
  order by t.task_id limit 20;
end
$$;
comment on function fencepost_private.check_task_waits(bigint) is 'check_run_invariants, of what waits.';

-- The counters of maps that are alive, and their limits.
create function fencepost_private.check_maps(p_first bigint)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  with counted as materialized (
    select m.task_id, r.paused_at, m.items, m.items_started, m.items_open, m.items_failed, d.max_parallel,
           count(t.task_id)::int as all_items,
           count(t.task_id) filter (where t.status <> 'pending')::int as started,
           count(t.task_id) filter (where t.status in ('pending', 'queued'))::int as open,
           count(t.task_id) filter (where t.status in ('failed', 'cancelled'))::int as failed,
           count(t.task_id) filter (where t.status = 'queued' and not exists (select from parked p where p.id = t.job_id and p.waits_for = map_place(m.task_id)))::int as running
    from task m
    join run r on r.run_id = m.run_id
    join workflow_task d on d.version_id = r.version_id and d.task_no = m.task_no
    left join task t on t.parent_task_id = m.task_id
    where m.run_id >= p_first and m.kind = 'map' and m.status = 'waiting'
    group by m.task_id, r.run_id, d.version_id, d.task_no
  ), broken as (
    select c.task_id, 'a map counts its items' as invariant, format('map %s says %s; its items say %s', c.task_id, row(c.items, c.items_started, c.items_open, c.items_failed), row(c.all_items, c.started, c.open, c.failed)) as detail
    from counted c
    where (c.items, c.items_started, c.items_open, c.items_failed) is distinct from (c.all_items, c.started, c.open, c.failed)
    union all
    select c.task_id, 'a map keeps to max_parallel', format('map %s runs %s of at most %s', c.task_id, c.running, c.max_parallel)
    from counted c where c.running > c.max_parallel
    union all
    select c.task_id, 'a map uses its room', format('map %s runs %s of at most %s; %s are open', c.task_id, c.running, coalesce(c.max_parallel, c.items), c.open)
    from counted c where c.paused_at is null and c.running < least(c.open, coalesce(c.max_parallel, c.items))
  )
  select b.invariant, b.detail from broken b order by b.task_id limit 20;

  return query
  select 'what ended leaves no item behind', format('item %s of map %s, which is %s, is pending', t.task_id, m.task_id, m.status)
  from task t join task m on m.task_id = t.parent_task_id
  where t.run_id >= p_first and t.kind = 'item' and t.status = 'pending' and m.status <> 'waiting'
  order by t.task_id limit 20;
end
$$;
comment on function fencepost_private.check_maps(bigint) is 'check_run_invariants, of maps.';
--! EndIncluded workflows/check_task_invariants.sql

-- The event log as outbox: ticks, consumers, parked events
--! Included outbox/webhooks/webhook_words.sql
-- What the functions of webhooks share: names, checks, secrets.

create function fencepost_private.webhook_consumer(p_name text) returns text
language sql immutable
return 'webhook:' || p_name;
comment on function fencepost_private.webhook_consumer(text) is 'The name of the consumer of a webhook.';

create function fencepost_private.webhook_type(p_name text) returns text
language sql immutable
return 'fencepost.webhook.' || p_name;
comment on function fencepost_private.webhook_type(text) is 'The type of the jobs that deliver to a webhook.';

-- Errors: JE002.
create function fencepost_private.find_webhook(p_name text)
returns fencepost_private.webhook
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_webhook webhook;
begin
  select w.* into v_webhook from webhook w where w.name = p_name for no key update;
  if not found then
    perform raise_error('JE002', format('webhook %s does not exist', coalesce(quote_literal(left(p_name, 250)), 'null')), format('received name = %s', coalesce(left(p_name, 250), 'null')),
      coalesce(did_you_mean(p_name, array(select w.name from webhook w)), 'Make it with fencepost.create_webhook().'));
  end if;
  return v_webhook;
end
$$;
comment on function fencepost_private.find_webhook(text) is 'The webhook of a name, its row locked. Raises JE002.';

-- A host whose last label is a number is an IPv4 address to every URL parser, and in brackets stands an IPv6 one: what is
-- none can never be called. Other spellings of IPv4 than four numbers are refused with it.
create function fencepost_private.is_webhook_host(p_host text) returns boolean
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_host like '[%' then
    return family(trim(p_host, '[]')::inet) = 6;
  end if;
  return p_host !~* '(^|\.)([0-9]+|0x[0-9a-f]*)\.?$' or p_host ~ '^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(\.|$)){4}\.?$';
exception
  when invalid_text_representation then
    return false;
end
$$;
comment on function fencepost_private.is_webhook_host(text) is 'True for a host of a URL that can be one: an address that looks like one is one.';

-- ASCII, without credentials (lists show URLs), fragment or backslash, so that every parser reads the same host in it.
-- Where the host leads is checked when it is connected to. Errors: JE003.
create function fencepost_private.check_webhook_url(p_url text)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_url is null or length(p_url) > 2000
     or p_url !~* '^https?://([a-z0-9_-]+(\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?([/?][!-~]*)?$' or p_url ~ '[\\#]'
     or substring(p_url from '^[^/]+//[^/?]*:([0-9]+)([/?]|$)')::int not between 1 and 65535
     or not is_webhook_host(substring(p_url from '^[^/]+//(\[[^]]*\]|[^/?:]*)')) then
    perform raise_error('JE003', 'a webhook needs a URL such as https://example.com/hooks', format('received url = %s', coalesce(quote_literal(left(p_url, 100)), 'null')),
      'Give https:// and a host, at most 2000 characters of ASCII, without user, password and fragment.');
  end if;
end
$$;
comment on function fencepost_private.check_webhook_url(text) is 'Raises JE003 for what is no URL of an endpoint.';

-- The secret that was given, checked; a new one of 32 random bytes when there is none. Errors: JE003, without telling it.
create function fencepost_private.webhook_secret_of(p_secret text)
returns text
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_bytes int;
begin
  if p_secret is null then
    return 'whsec_' || encode(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'base64');
  end if;
  begin
    v_bytes := case when p_secret ~ '^whsec_[A-Za-z0-9+/]+={0,2}$' then length(decode(substr(p_secret, 7), 'base64')) end;
  exception
    when invalid_parameter_value then
      v_bytes := null;
  end;
  if v_bytes is null or v_bytes not between 24 and 64 then
    perform raise_error('JE003', 'a secret is whsec_ and the base64 of 24 to 64 random bytes', format('received a text of %s characters', length(p_secret)), 'Leave it out to have one made.');
  end if;
  return p_secret;
end
$$;
comment on function fencepost_private.webhook_secret_of(text) is 'A secret, checked, or a new one. Raises JE003.';

create function fencepost_private.tell_webhook(p_name text, p_change text, p_data jsonb default '{}')
returns void
language sql
volatile
set search_path = fencepost_private, pg_temp
as $$
  insert into event (xid, at, tenant, kind, actor, data)
  values (xid(), fencepost_private.now(), current_tenant(), 'operator.webhook_changed', actor(), jsonb_build_object('webhook', p_name, 'change', p_change) || p_data)
$$;
comment on function fencepost_private.tell_webhook(text, text, jsonb) is 'Writes the event of a change of a webhook.';

create function fencepost_private.utc_text(p_time timestamptz) returns text
language sql stable
return to_char(p_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
comment on function fencepost_private.utc_text(timestamptz) is 'A time as ISO 8601 in UTC.';
--! EndIncluded outbox/webhooks/webhook_words.sql
--! Included outbox/position.sql
-- A place within a batch, but for the id that follows: the same for all of the batch.
create function fencepost_private.place_text(p_position fencepost_private.log_position)
returns text
language sql
immutable
return (p_position).px || '.' || -(p_position).pflight || '-' || (p_position).tx || '.' || -(p_position).tflight || '-';
comment on function fencepost_private.place_text(fencepost_private.log_position) is 'A place within a batch as readers see it, but for the id that follows.';

-- Positions as texts. Readers treat them as opaque; a person sees in `7431.2` the tick below transaction 7431 with two
-- in flight, in `7431.2-7440.0-981` the event 981 of the batch from there to the tick 7440.0, and in `…~12` the token of
-- the lease under which it was read. `p981~12` is a parked event that is delivered again.
create function fencepost_private.position_text(p_position fencepost_private.log_position)
returns text
language sql
immutable
return case when (p_position).tx is null then (p_position).px || '.' || -(p_position).pflight
            else fencepost_private.place_text(p_position) || (p_position).last_id end;
comment on function fencepost_private.position_text(fencepost_private.log_position) is 'A position as readers see it.';

-- Errors: JE003.
create function fencepost_private.parse_position(p_text text)
returns fencepost_private.parsed_position
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_part text[] := regexp_match(p_text, '^(?:(\d{1,18})\.(\d{1,9})(?:-(\d{1,18})\.(\d{1,9})-(\d{1,18}))?|p(\d{1,18}))(?:~(\d{1,18}))?$');
  v_said parsed_position;
begin
  if v_part is null then
    perform raise_error('JE003', 'that is not a position in the event log', format('received position = %s', coalesce(quote_literal(left(p_text, 100)), 'null')),
      'Hand back a position exactly as read_events() or list_events() gave it.');
  end if;
  if v_part[6] is null then
    v_said.place := row(v_part[1]::bigint, -v_part[2]::int, v_part[3]::bigint, -v_part[4]::int, v_part[5]::bigint)::log_position;
  end if;
  v_said.parked_id := v_part[6]::bigint;
  v_said.token := v_part[7]::bigint;
  return v_said;
end
$$;
comment on function fencepost_private.parse_position(text) is 'A position from its text. Raises JE003.';

-- Whether the first comes after the second. Both must be places of the same reader: then batches do not overlap.
create function fencepost_private.is_after(p_one fencepost_private.log_position, p_other fencepost_private.log_position)
returns boolean
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select ((p_one).px, (p_one).pflight, coalesce((p_one).last_id, 0)) > ((p_other).px, (p_other).pflight, coalesce((p_other).last_id, 0))
$$;
comment on function fencepost_private.is_after(fencepost_private.log_position, fencepost_private.log_position) is 'Whether one position of a reader comes after another.';

-- The place right at a tick.
create function fencepost_private.place_of_tick(p_x bigint, p_flight int)
returns fencepost_private.log_position
language sql
immutable
return row(p_x, p_flight, null, null, null)::fencepost_private.log_position;
comment on function fencepost_private.place_of_tick(bigint, int) is 'The place right at a tick: all that it saw has been passed.';
--! EndIncluded outbox/position.sql
--! Included outbox/tick.sql
-- Takes a tick, unless the newest is younger than p_every or nothing became visible since. Readers take one when they
-- find the newest old, maintain() does about each second. Takes no lock, waits for nobody: two ticks may be equal.
-- What this transaction wrote itself is not in it. Returns how many were taken, 0 or 1.
create function fencepost_private.tick(p_every interval default '1 second')
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now    timestamptz := fencepost_private.now();
  v_newest event_tick;
  v_taken  bigint;
begin
  if current_setting('transaction_read_only')::boolean or current_setting('transaction_isolation') <> 'read committed' then
    return 0;       -- on a standby ticks come from the primary; an old snapshot makes none
  end if;
  select t.* into v_newest from event_tick t order by t.x desc, t.flight desc limit 1;
  if v_newest.at > v_now - p_every and v_newest.at <= v_now then
    return 0;
  end if;
  insert into event_tick (x, flight, xip, at, last_id)
  select f.xmax, -cardinality(f.xip), f.xip, v_now, s.last_value
  from in_flight() f cross join event_id_seq s
  where v_newest.x is null
     or exists (select from event e where e.xid >= v_newest.x and not e.xid = any (f.xip))
     or exists (select from unnest(v_newest.xip) as i(x) cross join lateral (select from event e where e.xid = i.x limit 1) as e where not i.x = any (f.xip));
  get diagnostics v_taken = row_count;
  return v_taken;
end
$$;
comment on function fencepost_private.tick(interval) is 'A step of maintain(): notes what is visible of the event log, when that is more than before. Returns 0 or 1.';

-- The newest place: all that was committed when the newest tick was taken.
create function fencepost_private.newest_position()
returns fencepost_private.log_position
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select coalesce((select place_of_tick(t.x, t.flight) from event_tick t order by t.x desc, t.flight desc limit 1),
                  place_of_tick(0, 0))
$$;
comment on function fencepost_private.newest_position() is 'The place of the newest tick.';

-- The place up to which everything had been committed before a time.
create function fencepost_private.position_at(p_time timestamptz)
returns fencepost_private.log_position
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select coalesce((select place_of_tick(t.x, t.flight) from event_tick t where t.at <= p_time order by t.at desc, t.x desc, t.flight desc limit 1),
                  place_of_tick(0, 0))
$$;
comment on function fencepost_private.position_at(timestamptz) is 'The place of the last tick at or before a time; the beginning when there is none.';

-- A place by what people write: beginning, now, a time, or a position; that may be of another log. A time that is to come
-- has no place yet; one within the next minute is taken for now, since clocks differ. Errors: JE003; JE004 after a restore.
create function fencepost_private.found_position(p_text text)
returns fencepost_private.log_position
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_at timestamptz;
begin
  perform check_not_restored('a place in the event log');
  if p_text = 'beginning' then
    return place_of_tick(0, 0);
  elsif p_text = 'now' then
    perform tick('0');
    return newest_position();
  elsif p_text ~ '^\d{4}-' then
    begin
      v_at := p_text::timestamptz;
    exception
      when datetime_field_overflow or invalid_datetime_format or invalid_parameter_value then
        perform raise_error('JE003', 'that is not a time', format('received %s', quote_literal(left(p_text, 100))), 'Write it like 2020-01-31T12:00:00Z.');
    end;
    if v_at > fencepost_private.now() + interval '1 minute' then
      perform raise_error('JE003', 'that time has not come yet', format('received %s; it is %s', quote_literal(left(p_text, 100)), fencepost_private.now()),
        'Give now, or a time that is past.');
    end if;
    return position_at(v_at);
  end if;
  if p_text is null or p_text !~ '^\d+\.\d' then
    perform raise_error('JE003', 'that is not a place in the event log', format('received %s', coalesce(quote_literal(left(p_text, 100)), 'null')),
      'Give beginning, now, a time such as 2020-01-31T12:00:00Z, or a position as read_events() and list_events() give it.');
  end if;
  return (parse_position(p_text)).place;
end
$$;
comment on function fencepost_private.found_position(text) is 'A place in the log: beginning, now, a time, or a position. Raises JE003, JE004.';

-- A place whose ticks are still there: itself, or the nearest before it, from which some events come a second time. One
-- that is beyond the newest tick is not of this log, or from before a restore: only the beginning is before it for sure.
create function fencepost_private.kept_position(p_position fencepost_private.log_position)
returns fencepost_private.log_position
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_near event_tick;
begin
  if is_beyond(p_position) then
    return place_of_tick(0, 0);
  end if;
  if (p_position).px > 0 then
    select t.* into v_near from event_tick t where (t.x, t.flight) <= ((p_position).px, (p_position).pflight) order by t.x desc, t.flight desc limit 1;
    if v_near.x is null then
      return place_of_tick(0, 0);
    elsif (v_near.x, v_near.flight) <> ((p_position).px, (p_position).pflight) then
      return place_of_tick(v_near.x, v_near.flight);
    end if;
  end if;
  if (p_position).tx is not null and not exists (select from event_tick t where t.x = (p_position).tx and t.flight = (p_position).tflight) then
    return place_of_tick((p_position).px, (p_position).pflight);
  end if;
  return p_position;
end
$$;
comment on function fencepost_private.kept_position(fencepost_private.log_position) is 'A place in the log, or the nearest before it of which the ticks are kept.';

-- Whether a place lies beyond the newest tick, where no place of this log can be.
create function fencepost_private.is_beyond(p_position fencepost_private.log_position)
returns boolean
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_newest log_position := newest_position();
begin
  return ((p_position).px, (p_position).pflight) > (v_newest.px, v_newest.pflight) or ((p_position).tx, (p_position).tflight) > (v_newest.px, v_newest.pflight);
end
$$;
comment on function fencepost_private.is_beyond(fencepost_private.log_position) is 'Whether a place lies beyond the newest tick.';

-- A place that somebody names for a consumer. Errors: JE003, also for one that is not of this log; JE004 after a restore.
create function fencepost_private.named_position(p_text text)
returns fencepost_private.log_position
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_place log_position := found_position(p_text);
begin
  if is_beyond(v_place) then
    perform raise_error('JE003', 'that position is not of this log', format('received %s; the newest is %s', quote_literal(p_text), position_text(newest_position())),
      'It is of another database, or from before a restore. Give beginning, now or a time.');
  end if;
  return kept_position(v_place);
end
$$;
comment on function fencepost_private.named_position(text) is 'A place that somebody names for a consumer. Raises JE003, JE004.';
--! EndIncluded outbox/tick.sql
--! Included outbox/unread.sql
-- Which events a reader gets: in the words of people, and as numbers.
create type fencepost_private.wanted_events as (kinds text[], types text[], tenant text, deliveries boolean);
comment on type fencepost_private.wanted_events is 'Which events a reader gets: kinds with stars, types, tenant, and whether those of deliveries to webhooks; a null narrows nothing.';

create type fencepost_private.event_filter as (kinds fencepost_private.event_kind[], lanes int[], tenant text, without int[]);
comment on type fencepost_private.event_filter is 'Which events a reader gets: of these kinds, lanes and tenant, and not of the lanes in without; a null narrows nothing.';

-- What is wanted as numbers, with the lanes that there are now. Without deliveries it holds back the events of all jobs
-- that deliver to webhooks.
create function fencepost_private.event_filter_of(p_wanted fencepost_private.wanted_events)
returns fencepost_private.event_filter
language sql
stable
set search_path = fencepost_private, pg_temp
as $$
  select row(
    case when (p_wanted).kinds is not null then array(
      select k from unnest(enum_range(null::event_kind)) as k
      where exists (select from unnest((p_wanted).kinds) as w where w = k::text or right(w, 1) = '*' and starts_with(k::text, left(w, -1)))) end,
    case when (p_wanted).types is not null then array(select l.lane_id from job_type t join lane l on l.type_id = t.type_id where t.type = any ((p_wanted).types)) end,
    (p_wanted).tenant,
    case when not (p_wanted).deliveries then array(select l.lane_id from job_type t join lane l on l.type_id = t.type_id where starts_with(t.type, webhook_type(''))) end)::event_filter
$$;
comment on function fencepost_private.event_filter_of(fencepost_private.wanted_events) is 'What is wanted as kinds and lanes.';

-- Errors: JE003 for a kind that does not exist, or a type that cannot.
create function fencepost_private.check_event_filter(p_kinds text[], p_types text[])
returns void
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v text;
begin
  foreach v in array coalesce(p_kinds, '{}') loop
    if v is null or not exists (select from unnest(enum_range(null::event_kind)) as k where v = k::text or right(v, 1) = '*' and starts_with(k::text, left(v, -1))) then
      perform raise_error('JE003', 'there is no such kind of event', format('received kind = %s', coalesce(quote_literal(left(v, 100)), 'null')),
        coalesce(did_you_mean(v, array(select k::text from unnest(enum_range(null::event_kind)) as k)), 'Kinds look like job.completed; run.* means all that begin with run.'));
    end if;
  end loop;
  foreach v in array coalesce(p_types, '{}') loop
    perform check_lane(v, 5);
  end loop;
end
$$;
comment on function fencepost_private.check_event_filter(text[], text[]) is 'Raises JE003 for kinds that do not exist and malformed types.';

create type fencepost_private.unread_events as (
  events fencepost_private.event[], starts bigint[], places text[], sent fencepost_private.log_position, reached fencepost_private.log_position);
comment on type fencepost_private.unread_events is
  'Events; for each batch of them, how many come before it and its place as a text, to which the id is added; the place of the last event; how far the look went.';

-- The next events after a place, at most p_max, batch after batch. `reached` is how far that goes: beyond the last
-- event when what follows it in its batch, or in later ones, is not for this reader.
--
-- A batch reaches as far as ticks allow within about p_max events, so that a reader that is behind takes them as fast
-- as one that is not, and what is read of a batch is most of it. A call passes at most 50 batches without an event for its reader.
create function fencepost_private.unread(p_from fencepost_private.log_position, p_max int, p_wanted fencepost_private.wanted_events)
returns fencepost_private.unread_events
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v_at    log_position := kept_position(p_from);
  v_found unread_events := row('{}', '{}', '{}', null, null);
  v_base  event_tick;
  v_next  event_tick;
  v_batch event[];
begin
  -- both ticks of the place; one that is removed while we look (nobody stands on it) leads back to those that are left
  for v_try in 1..10 loop
    select t.* into v_base from event_tick t where t.x = v_at.px and t.flight = v_at.pflight limit 1;
    select t.* into v_next from event_tick t where t.x = v_at.tx and t.flight = v_at.tflight limit 1;
    exit when (v_base.x is not null or v_at.px = 0) and (v_next.x is not null or v_at.tx is null);
    v_at := case when v_try < 9 then kept_position(v_at) else place_of_tick(0, 0) end;
  end loop;

  for v_try in 1..50 loop
    if v_at.tx is null then
      v_next := next_tick(v_at, coalesce(v_base.last_id, 0) + greatest(p_max, 500));
      exit when v_next.x is null;
      v_at := row(v_at.px, v_at.pflight, v_next.x, v_next.flight, 0);
    end if;

    -- lanes are looked up after the tick: those of all events that it saw are there
    v_batch := batch_events(v_at, coalesce(v_base.xip, '{}'), v_next.xip, v_next.last_id - coalesce(v_base.last_id, 0), p_max - cardinality(v_found.events),
      event_filter_of(p_wanted));
    if cardinality(v_batch) > 0 then
      v_found.starts := v_found.starts || cardinality(v_found.events)::bigint;
      v_found.places := v_found.places || place_text(v_at);
      v_found.events := v_found.events || v_batch;
      v_found.sent := row(v_at.px, v_at.pflight, v_at.tx, v_at.tflight, (v_batch[cardinality(v_batch)]).id)::log_position;
    end if;
    if cardinality(v_found.events) >= p_max then
      v_at := v_found.sent;
      exit;
    end if;
    v_at := place_of_tick(v_at.tx, v_at.tflight);
    v_base := v_next;
    exit when cardinality(v_found.events) > 0 and v_try >= 10;
  end loop;
  v_found.reached := v_at;
  return v_found;
end
$$;
comment on function fencepost_private.unread(fencepost_private.log_position, int, fencepost_private.wanted_events) is 'The next events after a place in the log, each with its place, and how far that goes.';

-- The farthest tick after a place that saw no event above p_upto; if none, the next one; null when there is none.
create function fencepost_private.next_tick(p_from fencepost_private.log_position, p_upto bigint)
returns fencepost_private.event_tick
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v_tick event_tick;
begin
  -- the first 100 after it are enough of a reach
  select t.* into v_tick
  from (select n.* from event_tick n where (n.x, n.flight) > ((p_from).px, (p_from).pflight) order by n.x, n.flight limit 100) as t
  order by t.last_id <= p_upto desc, case when t.last_id <= p_upto then -t.x else t.x end, case when t.last_id <= p_upto then -t.flight else t.flight end
  limit 1;
  return v_tick;
end
$$;
comment on function fencepost_private.next_tick(fencepost_private.log_position, bigint) is 'The tick to which the next batch reaches.';

-- The events that the second tick of a place saw and the first did not, after that place, in order of id. Those of the
-- transactions between the two, and of those that were in flight for the first.
--
-- There is no index by id alone. So that a large batch is not read whole each time, the first events by transaction give
-- a bound that the p_max-th by id cannot be above. Where few transactions wrote much, each is then looked up.
create function fencepost_private.batch_events(
  p_at fencepost_private.log_position, p_base_xip bigint[], p_next_xip bigint[], p_span bigint, p_max int, p_filter fencepost_private.event_filter)
returns fencepost_private.event[]
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_from  bigint := (p_at).px;
  v_upto  bigint := (p_at).tx;
  v_after bigint := (p_at).last_id;
  v_kinds event_kind[] := (p_filter).kinds;
  v_lanes int[] := (p_filter).lanes;
  v_of    text := (p_filter).tenant;
  v_not   int[] := (p_filter).without;
  v_late  bigint[] := array(select x from unnest(p_base_xip) as x where not x = any (p_next_xip));
  v_bound bigint;
begin
  if p_span > 8 * p_max then
    v_bound := (
      select f.id
      from (
        select e.id from event e
        where e.xid >= v_from and e.xid < v_upto and not e.xid = any (p_next_xip) and e.id > v_after
          and (v_kinds is null or e.kind = any (v_kinds)) and (v_lanes is null or e.lane_id = any (v_lanes)) and (v_of is null or e.tenant = v_of)
          and (v_not is null or (e.lane_id = any (v_not)) is not true)
        order by e.xid, e.id limit 2 * p_max) as f
      order by f.id offset p_max - 1 limit 1);
  end if;
  v_bound := coalesce(v_bound, 9223372036854775807);
  if p_span > 20 * (v_upto - v_from) then
    v_late := v_late || array(select x from generate_series(v_from, v_upto - 1) as x where not x = any (p_next_xip));
    v_upto := v_from;
  end if;
  return array(
    select o.e
    from (
      select e, e.id from event e
      where e.xid >= v_from and e.xid < v_upto and not e.xid = any (p_next_xip) and e.id > v_after and e.id <= v_bound
        and (v_kinds is null or e.kind = any (v_kinds)) and (v_lanes is null or e.lane_id = any (v_lanes)) and (v_of is null or e.tenant = v_of)
        and (v_not is null or (e.lane_id = any (v_not)) is not true)
      union all
      select l.e, l.id from unnest(v_late) as i(x) cross join lateral (
        select e, e.id from event e
        where e.xid = i.x and e.id > v_after and e.id <= v_bound
          and (v_kinds is null or e.kind = any (v_kinds)) and (v_lanes is null or e.lane_id = any (v_lanes)) and (v_of is null or e.tenant = v_of)
          and (v_not is null or (e.lane_id = any (v_not)) is not true)
        order by e.id limit p_max) as l
    ) as o
    order by o.id
    limit p_max);
end
$$;
comment on function fencepost_private.batch_events(fencepost_private.log_position, bigint[], bigint[], bigint, int, fencepost_private.event_filter) is 'Events that became visible between two ticks, in order of id.';

-- Events as readers see them: with names instead of numbers.
create type fencepost_private.told_event as (
  id bigint, kind text, at timestamptz, tenant text, type text, job_id bigint, run_id bigint, task_id bigint, workflow text, attempt int, outcome text,
  worker text, ready_at timestamptz, started_at timestamptz, actor text, data jsonb);
comment on type fencepost_private.told_event is 'An event as readers see it.';

create function fencepost_private.told(p_read fencepost_private.unread_events, p_token bigint default null)
returns table (
  "position" text, id bigint, kind text, at timestamptz, tenant text, type text, job_id bigint, run_id bigint, task_id bigint, workflow text,
  attempt int, outcome text, worker text, ready_at timestamptz, started_at timestamptz, actor text, data jsonb)
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  select (p_read).places[width_bucket(e.place - 1, (p_read).starts)] || e.id || coalesce('~' || p_token, ''),
         e.id, e.kind, e.at, e.tenant, t.type, e.job_id, e.run_id, e.task_id, f.name, e.attempt, e.outcome, w.name, e.ready_at, e.started_at, e.actor, shown(e.data)
  from unnest((p_read).events) with ordinality as e(id, xid, at, tenant, kind, outcome, lane_id, job_id, run_id, task_id, attempt, token, worker_id, ready_at, started_at, actor, data, place)
  left join lane l on l.lane_id = e.lane_id
  left join job_type t on t.type_id = l.type_id
  left join worker w on w.worker_id = e.worker_id
  left join run r on r.run_id = e.run_id
  left join workflow f on f.workflow_id = r.workflow_id
  order by e.place
$$;
comment on function fencepost_private.told(fencepost_private.unread_events, bigint) is 'Events with their positions and the names of their types, workers and workflows, in order.';
--! EndIncluded outbox/unread.sql
--! Included outbox/lag.sql
-- What comes after a place in the log, as ranges of transactions: in each all events above an id, but for those of the
-- transactions in `without`, which have a range of their own. All that asks what a consumer has not read asks this.
create function fencepost_private.ranges_after(p_position fencepost_private.log_position)
returns table (from_xid bigint, below_xid bigint, above_id bigint, without bigint[])
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  with ticks as materialized (
    select coalesce(b.xip, '{}') as base_xip, coalesce(n.xip, b.xip, '{}') as next_xip, coalesce((p_position).tx, (p_position).px) as upto
    from (select 1) as one
    left join lateral (select t.xip from event_tick t where t.x = (p_position).px and t.flight = (p_position).pflight limit 1) as b on true
    left join lateral (select t.xip from event_tick t where t.x = (p_position).tx and t.flight = (p_position).tflight limit 1) as n on true
  )
  select t.upto, 9223372036854775807, 0::bigint, '{}'::bigint[] from ticks t          -- after the batch
  union all
  select i.x, i.x + 1, 0, '{}' from ticks t cross join unnest(t.next_xip) as i(x)       -- in flight at its end
  union all
  select (p_position).px, t.upto, coalesce((p_position).last_id, 0), t.next_xip from ticks t where t.upto > (p_position).px
  union all
  select i.x, i.x + 1, coalesce((p_position).last_id, 0), '{}' from ticks t cross join unnest(t.base_xip) as i(x) where not i.x = any (t.next_xip)
$$;
comment on function fencepost_private.ranges_after(fencepost_private.log_position) is 'What comes after a place in the log, as ranges of transactions and ids.';

-- Since when a consumer has something to read, of all kinds: when the oldest event after its place could first be read.
-- An event may have happened long before, in a transaction that committed late; the first tick after the place saw
-- something that the place had not. So an event was not to be read before either, and nobody is behind before it is.
-- Until there is such a tick, the tick of the place is the latest time that is known. prune_ticks() keeps both.
create function fencepost_private.unread_since(p_position fencepost_private.log_position)
returns timestamptz
language sql
stable
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  select greatest(u.happened_at, coalesce(
           (select t.at from event_tick t where (t.x, t.flight) > ((p_position).px, (p_position).pflight) order by t.x, t.flight limit 1),
           (select t.at from event_tick t where t.x = (p_position).px and t.flight = (p_position).pflight limit 1)))
  from (
    select min(f.at) as happened_at
    from ranges_after(p_position) as r
    cross join lateral (
      select e.at from event e
      where e.xid >= r.from_xid and e.xid < r.below_xid and e.id > r.above_id and not e.xid = any (r.without)
      order by e.xid, e.id limit 1) as f) as u
  where u.happened_at is not null
$$;
comment on function fencepost_private.unread_since(fencepost_private.log_position) is 'Since when something after a place can be read; null when there is nothing.';

-- How many events that is, counted to a cap.
create function fencepost_private.unread_count(p_position fencepost_private.log_position, p_cap int default 100000)
returns bigint
language sql
stable
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  select count(*)
  from (
    select
    from ranges_after(p_position) as r
    cross join lateral (
      select from event e
      where e.xid >= r.from_xid and e.xid < r.below_xid and e.id > r.above_id and not e.xid = any (r.without)
      limit p_cap) as f
    limit p_cap) as c
$$;
comment on function fencepost_private.unread_count(fencepost_private.log_position, int) is 'How many events come after a place, counted to a cap.';
--! EndIncluded outbox/lag.sql
--! Included outbox/create_consumer.sql
-- Makes an independent reader of the event log. Returns true when it is new, false when it exists with the same settings.
--
-- The filter is a JSON object; each key narrows what it gets:
--   kinds    ["job.completed", "run.*"]     exact, or all that begin so
--   types    ["email.send"]                 of jobs of these types only, so not of runs, workers and operators
--   tenant   "acme"
-- `start` is where it begins: now, beginning (of what is kept), a time that is past, or a position.
-- The log is kept for it until it has had something to read for longer than `max_lag`, at most 100 years; null is no limit.
-- One that falls farther behind is marked (event consumer.expired), and reads again after seek_consumer().
--
-- Locks: none that anything else waits for. Errors: JE003; JE004 when it exists with other settings.
create function fencepost.create_consumer(name text, filter jsonb default '{}', start text default 'now', max_lag interval default '7 days')
returns boolean
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_kinds  text[];
  v_types  text[];
  v_tenant text;
  v_old    consumer;
  v_id     int;
begin
  if create_consumer.name is null or create_consumer.name !~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$' then
    perform raise_error('JE003', 'a consumer needs a name such as billing', format('received name = %s', coalesce(quote_literal(left(create_consumer.name, 250)), 'null')),
      'Use 1 to 200 letters, digits and any of _ . : / - and start with a letter, digit or underscore.');
  end if;
  if create_consumer.max_lag <= '0' or create_consumer.max_lag > '100 years' then
    perform raise_error('JE003', 'max_lag must be longer than nothing, and at most 100 years', format('received max_lag = %s', create_consumer.max_lag),
      'Give an interval such as 7 days, or null for no limit.');
  end if;
  select p.kinds, p.types, p.tenant into v_kinds, v_types, v_tenant from parsed_consumer_filter(create_consumer.filter) as p;

  insert into consumer as c (name, kinds, types, tenant, max_lag, created_at, deliveries)
  values (create_consumer.name, v_kinds, v_types, v_tenant, create_consumer.max_lag, fencepost_private.now(), not starts_with(create_consumer.name, webhook_consumer('')))
  on conflict on constraint consumer_name_unique do nothing
  returning c.consumer_id into v_id;
  if v_id is not null then
    insert into consumer_state (consumer_id, seq, position, at) values (v_id, 1, named_position(create_consumer.start), fencepost_private.now());
    return true;
  end if;

  select c.* into v_old from consumer c where c.name = create_consumer.name;
  if (v_old.kinds, v_old.types, v_old.tenant, v_old.max_lag) is distinct from (v_kinds, v_types, v_tenant, create_consumer.max_lag) then
    perform raise_error('JE004', format('consumer %L exists with other settings', create_consumer.name),
      format('received filter = %s, max_lag = %s; it has kinds %s, types %s, tenant %s, max_lag %s', create_consumer.filter, coalesce(create_consumer.max_lag::text, 'null'),
        coalesce(to_json(v_old.kinds)::text, 'all'), coalesce(to_json(v_old.types)::text, 'all'), coalesce(v_old.tenant, 'all'), coalesce(v_old.max_lag::text, 'null')),
      'Take another name, or drop_consumer() it first: its position is then lost.');
  end if;
  return false;
end
$$;
comment on function fencepost.create_consumer(text, jsonb, text, interval)
  is 'Makes a reader of the event log that gets what its filter lets through, from now or the beginning; true when it is new. Raises JE003, JE004.';

-- Errors: JE003.
create function fencepost_private.parsed_consumer_filter(p_filter jsonb, out kinds text[], out types text[], out tenant text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_key text;
begin
  if p_filter is null or jsonb_typeof(p_filter) <> 'object' then
    perform raise_error('JE003', 'filter must be a JSON object', format('received %s', coalesce(left(p_filter::text, 100), 'null')), 'For example {"kinds": ["job.completed"]}; {} is everything.');
  end if;
  for v_key in select k from jsonb_object_keys(p_filter) as k where k not in ('kinds', 'types', 'tenant') loop
    perform raise_error('JE003', 'the filter of a consumer has no such key', format('received %s', quote_literal(v_key)),
      coalesce(did_you_mean(v_key, array['kinds', 'types', 'tenant']), 'Keys are kinds, types and tenant.'));
  end loop;
  kinds := words_of(p_filter -> 'kinds', 'kinds');
  types := words_of(p_filter -> 'types', 'types');
  if jsonb_typeof(p_filter -> 'tenant') not in ('string', 'null') then
    perform raise_error('JE003', 'tenant must be a text', format('received %s', p_filter -> 'tenant'), 'Leave it out to get the events of all tenants.');
  end if;
  tenant := p_filter ->> 'tenant';
  perform check_event_filter(kinds, types);
end
$$;
comment on function fencepost_private.parsed_consumer_filter(jsonb) is 'The filter of a consumer, checked. Raises JE003.';

-- A JSON array of texts, sorted; null for none. Errors: JE003.
create function fencepost_private.words_of(p_value jsonb, p_name text)
returns text[]
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_value is null or p_value = 'null' then
    return null;
  end if;
  if jsonb_typeof(p_value) <> 'array' or p_value = '[]' or jsonb_path_exists(p_value, '$[*] ? (@.type() != "string")') then
    perform raise_error('JE003', format('%s must be a list of texts', p_name), format('received %s', left(p_value::text, 100)), 'Give an array with at least one text, or leave it out.');
  end if;
  return array(select distinct w from jsonb_array_elements_text(p_value) as w order by w);
end
$$;
comment on function fencepost_private.words_of(jsonb, text) is 'A JSON array of texts as an array, sorted; null for none. Raises JE003.';

-- The consumer of a name. Errors: JE002.
create function fencepost_private.find_consumer(p_name text)
returns fencepost_private.consumer
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_consumer consumer;
begin
  select c.* into v_consumer from consumer c where c.name = p_name;
  if not found then
    perform raise_no_consumer(p_name);
  end if;
  return v_consumer;
end
$$;
comment on function fencepost_private.find_consumer(text) is 'The consumer of a name. Raises JE002.';

-- Errors: JE002, always.
create function fencepost_private.raise_no_consumer(p_name text)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  perform raise_error('JE002', format('consumer %s does not exist', coalesce(quote_literal(left(p_name, 250)), 'null')), format('received consumer = %s', coalesce(left(p_name, 250), 'null')),
    coalesce(did_you_mean(p_name, array(select c.name from consumer c)), 'Make it with fencepost.create_consumer().'));
end
$$;
comment on function fencepost_private.raise_no_consumer(text) is 'Raises JE002 for the name of a consumer.';

-- Where a consumer stands now.
create function fencepost_private.newest_state(p_consumer_id int)
returns fencepost_private.consumer_state
language sql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select s from consumer_state s where s.consumer_id = p_consumer_id order by s.seq desc limit 1
$$;
comment on function fencepost_private.newest_state(int) is 'Where a consumer stands.';

-- Writes where a consumer stands from now on; the caller has locked the consumer.
create function fencepost_private.put_state(p_state fencepost_private.consumer_state)
returns void
language sql
volatile
set search_path = fencepost_private, pg_temp
as $$
  insert into consumer_state
  select p_state.consumer_id, p_state.seq + 1, p_state.position, p_state.sent, p_state.after_sent, p_state.token, p_state.reader, p_state.leased_until, fencepost_private.now()
$$;
comment on function fencepost_private.put_state(fencepost_private.consumer_state) is 'Writes where a consumer stands from now on.';

-- One session at a time moves a consumer, seeing where it stands now. Errors: JE001 when another one holds it for longer
-- than two seconds; JE003 outside READ COMMITTED.
create function fencepost_private.lock_one_consumer(p_consumer_id int, p_name text)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set lock_timeout = '2s'
as $$
begin
  perform check_read_committed('what moves a consumer');
  perform pg_advisory_xact_lock(lock_consumer(), p_consumer_id);
exception
  when lock_not_available then
    perform raise_error('JE001', format('another session is reading consumer %L in a transaction', p_name), format('received a call from backend %s', pg_backend_pid()),
      'Wait for it to commit, then read again.');
end
$$;
comment on function fencepost_private.lock_one_consumer(int, text) is 'Locks a consumer until commit; waits two seconds at most. Raises JE001, JE003.';

-- Where a consumer stands, for whoever moves it: it is locked until commit.
-- Errors: JE001 and JE003 as lock_one_consumer(); JE002 when it was dropped since it was found.
create function fencepost_private.locked_state(p_consumer fencepost_private.consumer)
returns fencepost_private.consumer_state
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_state consumer_state;
begin
  perform lock_one_consumer(p_consumer.consumer_id, p_consumer.name);
  v_state := newest_state(p_consumer.consumer_id);
  if v_state.consumer_id is null then
    perform raise_no_consumer(p_consumer.name);
  end if;
  return v_state;
end
$$;
comment on function fencepost_private.locked_state(fencepost_private.consumer) is 'Where a consumer stands, locked until commit. Raises JE001, JE002, JE003.';
--! EndIncluded outbox/create_consumer.sql
--! Included outbox/read_events.sql
-- The next events of a consumer, in commit order: at most `max` (1 to 10,000), oldest first. Nothing moves until
-- ack_events(): reading again gives the same events again. Events whose transaction has not committed are not there;
-- they come, once, after their commit, however late that is, and hold up nobody.
--
-- Reading takes a lease for `reader` (default: this session; behind a pooler name one) when there is something to read: until it ends or all is
-- acknowledged another reader gets nothing. Within one transaction with the work and ack_events() the consumer is
-- exactly-once. `position` names the place behind its event and carries the token of the lease.
--
-- No row means that there is nothing to read, or that another reader has the lease. Where a narrow filter holds back more
-- than a second of looking passes, it may also mean that the look goes on from there with the next call: `lag_events` of
-- the view `consumers` is 0 only at the end.
--
-- Parked events that are to be delivered again come first, by themselves.
-- Locks: the consumer, tried: none while another session reads it.
-- Errors: JE002; JE003, also outside READ COMMITTED; JE004 when it fell behind max_lag, or after a logical restore until
-- after_restore() was called.
create function fencepost.read_events(consumer text, max int default 100, reader text default null, lease interval default '30 seconds')
returns table ("position" text, id bigint, kind text, at timestamptz, tenant text, type text, job_id bigint, run_id bigint, task_id bigint, workflow text,
               attempt int, outcome text, worker text, ready_at timestamptz, started_at timestamptz, actor text, data jsonb)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_now      timestamptz := fencepost_private.now();
  v_reader   text := coalesce(read_events.reader, 'session ' || pg_backend_pid());
  v_consumer consumer := find_consumer(read_events.consumer);
  v_state    consumer_state;
  v_wanted   wanted_events;
  v_read     unread_events;
begin
  perform check_read(read_events.max, read_events.lease);
  perform check_read_committed('read_events()');
  perform check_not_restored('read_events()');
  if v_consumer.expired_at is not null then
    perform raise_expired(v_consumer);
  end if;
  if is_held_by_another(newest_state(v_consumer.consumer_id), v_reader, v_now) or not pg_try_advisory_xact_lock(lock_consumer(), v_consumer.consumer_id) then
    return;
  end if;
  v_state := newest_state(v_consumer.consumer_id);
  if v_state.consumer_id is null then
    perform raise_no_consumer(v_consumer.name);      -- it was dropped a moment ago
  end if;
  if is_held_by_another(v_state, v_reader, v_now) then
    return;
  end if;

  if v_state.leased_until is null or v_state.leased_until <= v_now or v_state.reader is distinct from v_reader then
    v_state.token := v_state.token + 1;
    v_state.sent := null;
    v_state.after_sent := null;
  end if;
  v_state.reader := v_reader;
  v_state.leased_until := v_now + read_events.lease;

  if exists (select from parked_event p where p.consumer_id = v_consumer.consumer_id and p.again) then
    perform put_state(v_state);
    return query
      with given as (
        update parked_event p set given = v_state.token
        where p.consumer_id = v_consumer.consumer_id and p.event_id = any (array(
          select o.event_id from parked_event o where o.consumer_id = v_consumer.consumer_id and o.again order by o.event_id limit read_events.max for update skip locked))
        returning p.event_id, p.event
      )
      select 'p' || g.event_id || '~' || v_state.token, (e.e).*
      from given g
      cross join lateral (select jsonb_populate_record(null::told_event, g.event) as e) as e
      order by g.event_id;
    return;
  end if;

  perform tick('100 milliseconds');
  v_state.position := kept_position(v_state.position);
  v_wanted := row(v_consumer.kinds, v_consumer.types, v_consumer.tenant, v_consumer.deliveries);
  v_read := unread(v_state.position, read_events.max, v_wanted);
  for v_try in 1..1000 loop
    -- farther when all of that was for others, for about a second; or committed a moment ago
    exit when cardinality(v_read.events) > 0 or v_try > 4 and fencepost_private.now() > v_now + interval '1 second';
    exit when v_read.reached = newest_position() and (v_try > 4 or tick('0') = 0);
    v_read := unread(v_read.reached, read_events.max, v_wanted);
  end loop;
  if cardinality(v_read.events) > 0 then
    v_state.sent := v_read.sent;
    v_state.after_sent := v_read.reached;
    perform put_state(v_state);
    return query select * from told(v_read, v_state.token);
  elsif is_after(v_read.reached, v_state.position) and (v_state.at < v_now - interval '1 second' or v_state.at > v_now or v_read.reached <> newest_position()) then
    -- what was passed is for others: we need not look at it again, nor must it be kept for us
    v_state.position := v_read.reached;
    v_state.sent := null;
    v_state.after_sent := null;
    v_state.leased_until := null;
    perform put_state(v_state);
  end if;
end
$$;
comment on function fencepost.read_events(text, int, text, interval)
  is 'The next events of a consumer, in commit order, under a lease; they come again until ack_events(). No row when there is nothing new or another reader has the lease. Raises JE002, JE003, JE004.';

create function fencepost_private.is_held_by_another(p_state fencepost_private.consumer_state, p_reader text, p_now timestamptz)
returns boolean
language sql
immutable
return (p_state).leased_until is not null and (p_state).leased_until > p_now and (p_state).reader is distinct from p_reader;
comment on function fencepost_private.is_held_by_another(fencepost_private.consumer_state, text, timestamptz) is 'Whether another reader has the lease of a consumer.';

-- Errors: JE003.
create function fencepost_private.check_read(p_max int, p_lease interval default '30 seconds')
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_max is null or p_max not between 1 and 10000 then
    perform raise_error('JE003', 'max must be between 1 and 10000', format('received max = %s', coalesce(p_max::text, 'null')), 'Read the rest with the next call.');
  end if;
  if p_lease is null or p_lease not between interval '1 second' and interval '1 day' then
    perform raise_error('JE003', 'lease must be between 1 second and 1 day', format('received lease = %s', coalesce(p_lease::text, 'null')), 'Give the time that one batch may take.');
  end if;
end
$$;
comment on function fencepost_private.check_read(int, interval) is 'Raises JE003 for limits that cannot be.';

-- Errors: JE004, always.
create function fencepost_private.raise_expired(p_consumer fencepost_private.consumer)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  perform raise_error('JE004', format('consumer %L fell behind its max_lag of %s: events may be missing', p_consumer.name, p_consumer.max_lag), format('it expired at %s', p_consumer.expired_at),
    'Decide what the gap means for you, then go on with fencepost.seek_consumer(): beginning gives all that is kept.');
end
$$;
comment on function fencepost_private.raise_expired(fencepost_private.consumer) is 'Raises JE004 for a consumer that has expired.';
--! EndIncluded outbox/read_events.sql
--! Included outbox/ack_events.sql
-- Everything up to and with the position `upto` is done: it does not come again. Returns true when that moved the consumer,
-- false when the position had been passed before, so that an acknowledgement may be repeated until another reader comes.
--
-- The lease ends when the last event that was read is acknowledged; until then it stays, so that a reader may do so
-- event by event.
-- Locks: the consumer, until commit; waits two seconds at most.
-- Errors: JE001 when the lease went to another reader, or another session holds the consumer; JE002; JE003, also outside
-- READ COMMITTED; JE004 when it has expired.
create function fencepost.ack_events(consumer text, upto text)
returns boolean
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_consumer consumer := find_consumer(ack_events.consumer);
  v_given    parsed_position;
  v_state    consumer_state;
  v_gone     bigint;
begin
  v_given := parse_position(ack_events.upto);
  v_state := leased_state(v_consumer, v_given.token);
  if v_given.parked_id is null and not is_after(v_given.place, v_state.position) then
    return false;
  end if;
  if v_consumer.expired_at is not null then
    perform raise_expired(v_consumer);
  end if;

  if v_given.parked_id is not null then
    delete from parked_event p where p.consumer_id = v_consumer.consumer_id and p.again and p.given = v_given.token and p.event_id <= v_given.parked_id;
    get diagnostics v_gone = row_count;
    if v_state.leased_until is not null and not exists (
      select from parked_event p where p.consumer_id = v_consumer.consumer_id and p.again and p.given = v_given.token) then
      v_state.leased_until := null;
      perform put_state(v_state);
    end if;
    return v_gone > 0;
  end if;

  if v_state.sent is null or is_after(v_given.place, v_state.sent) then
    perform raise_error('JE003', 'that position was not read yet', format('received upto = %L', ack_events.upto), 'Acknowledge positions that read_events() gave.');
  end if;
  if v_given.place = v_state.sent then
    v_state.position := v_state.after_sent;
    v_state.sent := null;
    v_state.after_sent := null;
    v_state.leased_until := null;
  else
    v_state.position := v_given.place;
  end if;
  perform put_state(v_state);
  return true;
end
$$;
comment on function fencepost.ack_events(text, text)
  is 'Everything up to and with this position is done. True when that moved the consumer, false when it had been passed. Raises JE001, JE002, JE003, JE004.';

-- Where a consumer stands, for whoever holds its lease: it is locked until commit.
-- Errors: JE001 when the lease went to another reader, or another session holds the consumer; JE002; JE003.
create function fencepost_private.leased_state(p_consumer fencepost_private.consumer, p_token bigint)
returns fencepost_private.consumer_state
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_state consumer_state := locked_state(p_consumer);
begin
  if p_token is distinct from v_state.token then
    perform raise_error('JE001', format('the lease of consumer %L was lost', p_consumer.name), format('received token %s; the newest is %s', coalesce(p_token::text, 'none'), v_state.token),
      'Another reader took over, or the consumer was moved: what was read is read again. Undo what can be undone, and read.');
  end if;
  return v_state;
end
$$;
comment on function fencepost_private.leased_state(fencepost_private.consumer, bigint) is 'Where a consumer stands, locked, for whoever holds its lease. Raises JE001, JE002, JE003.';
--! EndIncluded outbox/ack_events.sql
--! Included outbox/seek_consumer.sql
-- Moves a consumer: to beginning (of what is kept), now, a past time such as 2020-01-31T12:00:00Z, or a position. Whoever
-- reads it loses the lease. One that had expired reads again. Returns the new position.
--
-- A time means: all that was committed before it is passed, up to about a second, or five thousand events, before.
-- Locks: the consumer, until commit; waits two seconds at most. Errors: JE001 when another session holds it; JE002; JE003;
-- JE004 after a logical restore, until after_restore() was called.
create function fencepost.seek_consumer(consumer text, to_position text)
returns text
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_consumer consumer := find_consumer(seek_consumer.consumer);
  v_position log_position := named_position(seek_consumer.to_position);
  v_state    consumer_state;
begin
  v_state := locked_state(v_consumer);
  v_state.position := v_position;
  v_state.sent := null;
  v_state.after_sent := null;
  v_state.token := v_state.token + 1;
  v_state.reader := null;
  v_state.leased_until := null;
  perform put_state(v_state);
  update consumer c set expired_at = null where c.consumer_id = v_consumer.consumer_id and c.expired_at is not null;
  return position_text(v_position);
end
$$;
comment on function fencepost.seek_consumer(text, text) is 'Moves a consumer to beginning, now, a time or a position; returns the new position. Raises JE001, JE002, JE003, JE004.';
--! EndIncluded outbox/seek_consumer.sql
--! Included outbox/drop_consumer.sql
-- Removes a consumer with its position and its parked events. Returns whether there was one.
-- Locks: the consumer, until commit; waits two seconds at most.
-- Errors: JE001 when another session holds it; JE003 outside READ COMMITTED; JE004 for the consumer of a webhook.
create function fencepost.drop_consumer(consumer text)
returns boolean
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  if exists (select from webhook w where webhook_consumer(w.name) = drop_consumer.consumer) then
    perform raise_error('JE004', format('consumer %L belongs to a webhook', drop_consumer.consumer), format('received consumer = %s', drop_consumer.consumer), 'Remove both with fencepost.drop_webhook().');
  end if;
  return remove_consumer(drop_consumer.consumer);
end
$$;
comment on function fencepost.drop_consumer(text) is 'Removes a consumer, its position and its parked events; false when there was none. Raises JE001, JE003, JE004.';

create function fencepost_private.remove_consumer(p_name text)
returns boolean
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_id int := (select c.consumer_id from consumer c where c.name = p_name);
begin
  if v_id is null then
    return false;
  end if;
  perform lock_one_consumer(v_id, p_name);
  delete from parked_event p where p.consumer_id = v_id;
  delete from consumer_state s where s.consumer_id = v_id;
  delete from consumer c where c.consumer_id = v_id;
  return found;
end
$$;
comment on function fencepost_private.remove_consumer(text) is 'Removes a consumer with all that is its own; false when there was none. Raises JE001, JE003.';
--! EndIncluded outbox/drop_consumer.sql
--! Included outbox/event_position.sql
-- A place in the event log, to begin list_events() from: now (the default), beginning, or a time.
-- Locks: none. Errors: JE003; JE004 after a logical restore, until after_restore() was called.
create function fencepost.event_position(at text default 'now')
returns text
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  return position_text(kept_position(found_position(event_position.at)));
end
$$;
comment on function fencepost.event_position(text) is 'A place in the event log: now, beginning, or a time. Raises JE003, JE004.';
--! EndIncluded outbox/event_position.sql
--! Included outbox/list_events.sql
-- Reads the event log without a consumer: the next events after a position, in commit order, at most `max` (1 to
-- 10,000), oldest first. `after` is a position that this function or event_position() gave, or beginning; who keeps the
-- last one goes on without a gap. Filters are those of create_consumer().
--
-- The last row may hold a position only: the look went so far, and found nothing more that matches.
-- A position is good for as long as its events are kept; an old one may give some events a second time.
-- Locks: none. Errors: JE003; JE004 after a logical restore, until after_restore() was called.
create function fencepost.list_events(after text default 'beginning', max int default 100, filter jsonb default '{}')
returns table ("position" text, id bigint, kind text, at timestamptz, tenant text, type text, job_id bigint, run_id bigint, task_id bigint, workflow text,
               attempt int, outcome text, worker text, ready_at timestamptz, started_at timestamptz, actor text, data jsonb)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_from   log_position;
  v_filter record;
  v_wanted wanted_events;
  v_read   unread_events;
begin
  perform check_read(list_events.max);
  select p.* into v_filter from parsed_consumer_filter(list_events.filter) as p;
  v_from := found_position(list_events.after);
  perform tick('100 milliseconds');
  v_wanted := row(v_filter.kinds, v_filter.types, v_filter.tenant, true);
  v_read := unread(v_from, list_events.max, v_wanted);
  if cardinality(v_read.events) = 0 and v_read.reached = newest_position() and tick('0') > 0 then
    v_read := unread(v_read.reached, list_events.max, v_wanted);     -- what was committed a moment ago
  end if;
  return query select * from told(v_read);
  if v_read.reached is distinct from coalesce(v_read.sent, v_from) then
    position := position_text(v_read.reached);
    return next;
  end if;
end
$$;
comment on function fencepost.list_events(text, int, jsonb)
  is 'The next events after a position, in commit order, without a consumer; the last row may hold only the position that was reached. Raises JE003, JE004.';
--! EndIncluded outbox/list_events.sql
--! Included outbox/park_event.sql
-- Sets one event aside because it cannot be delivered, with the reason: the reader then acknowledges it like any other
-- and goes on. It is kept whole, is seen in `parked_events`, and comes again after replay_parked(). One that comes again
-- and is set aside again stays, with the new reason.
-- `event_position` is the one that read_events() gave with the event.
-- Locks: the consumer, until commit; waits two seconds at most.
-- Errors: JE001 when the lease was lost; JE002 when there is no such consumer, or no such event under this lease; JE003.
create function fencepost.park_event(consumer text, event_position text, reason text)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_consumer consumer := find_consumer(park_event.consumer);
  v_given    parsed_position;
  v_state    consumer_state;
  v_event    told_event;
begin
  if coalesce(btrim(park_event.reason), '') = '' then
    perform raise_error('JE003', 'an event is set aside with a reason', format('received reason = %s', coalesce(quote_literal(park_event.reason), 'null')), 'Say why it cannot be delivered.');
  end if;
  v_given := parse_position(park_event.event_position);
  v_state := leased_state(v_consumer, v_given.token);

  if v_given.parked_id is not null then
    update parked_event p
    set again = false, given = null, times = p.times + 1, reason = clipped(park_event.reason, 4096), parked_at = fencepost_private.now()
    where p.consumer_id = v_consumer.consumer_id and p.event_id = v_given.parked_id;
  else
    select t.id, t.kind, t.at, t.tenant, t.type, t.job_id, t.run_id, t.task_id, t.workflow, t.attempt, t.outcome, t.worker, t.ready_at, t.started_at, t.actor, t.data
      into v_event
    from told(unread(row((v_given.place).px, (v_given.place).pflight, (v_given.place).tx, (v_given.place).tflight, (v_given.place).last_id - 1), 1,
                     row(v_consumer.kinds, v_consumer.types, v_consumer.tenant, v_consumer.deliveries)::wanted_events)) as t
    where t.id = (v_given.place).last_id and not is_after(v_given.place, v_state.sent) and is_after(v_given.place, v_state.position);
    insert into parked_event as p (consumer_id, event_id, event, reason, parked_at)
    select v_consumer.consumer_id, v_event.id, to_jsonb(v_event), clipped(park_event.reason, 4096), fencepost_private.now()
    where v_event.id is not null
    on conflict on constraint parked_event_pkey do update set reason = excluded.reason, parked_at = excluded.parked_at;
  end if;
  if not found then
    perform raise_error('JE002', 'there is no such event', format('received event_position = %L', park_event.event_position), 'Give the position that read_events() gave with the event, before it is acknowledged.');
  end if;
end
$$;
comment on function fencepost.park_event(text, text, text) is 'Sets an event aside that cannot be delivered, with the reason. Raises JE001, JE002, JE003.';
--! EndIncluded outbox/park_event.sql
--! Included outbox/replay_parked.sql
-- Parked events of a consumer (all, or these) are read again, before anything else. Returns how many.
-- Locks: those rows, until commit. Errors: JE002 when there is no such consumer.
create function fencepost.replay_parked(consumer text, event_ids bigint[] default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_consumer consumer := find_consumer(replay_parked.consumer);
  v_count    bigint;
begin
  update parked_event p set again = true, given = null
  where p.consumer_id = v_consumer.consumer_id and not p.again and (replay_parked.event_ids is null or p.event_id = any (replay_parked.event_ids));
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
comment on function fencepost.replay_parked(text, bigint[]) is 'Parked events of a consumer, all or these, are read again; returns how many. Raises JE002.';
--! EndIncluded outbox/replay_parked.sql
--! Included outbox/discard_parked.sql
-- Parked events of a consumer (all, or these) are removed for good. Returns how many.
-- Locks: those rows, until commit. Errors: JE002 when there is no such consumer.
create function fencepost.discard_parked(consumer text, event_ids bigint[] default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_consumer consumer := find_consumer(discard_parked.consumer);
  v_count    bigint;
begin
  delete from parked_event p
  where p.consumer_id = v_consumer.consumer_id and (discard_parked.event_ids is null or p.event_id = any (discard_parked.event_ids));
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
comment on function fencepost.discard_parked(text, bigint[]) is 'Parked events of a consumer, all or these, are removed for good; returns how many. Raises JE002.';
--! EndIncluded outbox/discard_parked.sql
--! Included outbox/prune_outbox.sql
-- Marks consumers that have had something to read for longer than their max_lag: the log is no longer kept for them. A step
-- of maintain(). Returns how many. Locks: the consumers that it marks, and their rows, tried: one that is being moved or
-- configured is looked at the next time.
create function fencepost_private.expire_consumers()
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now     timestamptz := fencepost_private.now();
  v         record;
  v_since   timestamptz;
  v_expired bigint := 0;
begin
  for v in
    select c.consumer_id, c.name, c.max_lag from consumer c
    where c.expired_at is null and v_now - unread_since((newest_state(c.consumer_id)).position) > c.max_lag
    order by c.consumer_id
  loop
    continue when not pg_try_advisory_xact_lock(lock_consumer(), v.consumer_id);
    perform tick('0');       -- what was committed a moment ago counts from now
    v_since := unread_since((newest_state(v.consumer_id)).position);      -- it may have moved
    continue when (v_now - v_since > v.max_lag) is not true;
    perform from consumer c where c.consumer_id = v.consumer_id for no key update skip locked;
    continue when not found;
    update consumer c set expired_at = v_now where c.consumer_id = v.consumer_id;
    insert into event (xid, at, kind, data)
    values (xid(), v_now, 'consumer.expired', jsonb_build_object('consumer', v.name, 'unread_since', v_since, 'max_lag', v.max_lag));
    v_expired := v_expired + 1;
  end loop;
  return v_expired;
end
$$;
comment on function fencepost_private.expire_consumers() is 'A step of maintain(): marks consumers that fell behind their max_lag. Returns how many.';

-- Removes where consumers stood before. A step of maintain(). Each pass reads only what is new since the last one: what
-- was removed before is dead, and under a held snapshot would be walked for nothing. Returns how many rows. Locks: the rows
-- of the consumers that have moved, tried: one that is being configured comes the next time.
create function fencepost_private.prune_consumers()
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v        record;
  v_rows   bigint;
  v_pruned bigint := 0;
begin
  for v in
    select c.consumer_id, c.pruned_seq, (newest_state(c.consumer_id)).seq as newest from consumer c order by c.consumer_id
  loop
    continue when v.newest - 1 <= v.pruned_seq;
    perform from consumer c where c.consumer_id = v.consumer_id for no key update skip locked;
    continue when not found;
    delete from consumer_state s where s.consumer_id = v.consumer_id and s.seq > v.pruned_seq and s.seq < v.newest;
    get diagnostics v_rows = row_count;
    update consumer c set pruned_seq = v.newest - 1 where c.consumer_id = v.consumer_id;
    v_pruned := v_pruned + v_rows;
  end loop;
  return v_pruned;
end
$$;
comment on function fencepost_private.prune_consumers() is 'A step of maintain(): removes old places of consumers. Returns how many.';

-- Thins ticks: of those older than a minute one a second stays, or one in 1,000 events; of those older than an hour one in 5,000 events, and all
-- that a consumer stands on, or that comes next: see unread_since(). It removes those that lead to events that are gone. A step of maintain(), 20,000 ticks a pass, which goes on where
-- the last one ended (maintain_step.position, an x here); once an hour from the beginning. Returns how many.
--
-- A reader only moves forward: whoever stands behind all that is to go cannot come to stand on it. The others are kept
-- where they are, so that they take none of it as their place meanwhile. This is the last step, and they are free again
-- once it is done.
-- Locks: the consumers that stand before the last of these ticks, tried.
create function fencepost_private.prune_ticks(p_limit int default 20000)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v_now    timestamptz := fencepost_private.now();
  v_from   bigint := coalesce((select m.position from maintain_step m where m.step = 'prune_ticks' and date_trunc('hour', m.last_at) = date_trunc('hour', v_now)), 0);
  v_first  bigint := coalesce((select min(p.first_id) from partitions('event') p), 0);
  v_spare  record;
  v_pruned bigint;
begin
  with looked as materialized (
    select t.ctid as place, t.x, t.flight, t.at, t.last_id, t.last_id / 5000 = lag(t.last_id / 5000) over w as is_near, (date_trunc('second', t.at), t.last_id / 1000) = (lag(date_trunc('second', t.at)) over w, lag(t.last_id / 1000) over w) as is_soon
    from (select i.ctid, i.* from event_tick i where i.x >= v_from order by i.x, i.flight limit p_limit) as t
    window w as (order by t.x, t.flight)
  ), spare as materialized (
    select l.place, l.x, l.flight from looked l
    where l.at < v_now - interval '1 hour' and (l.is_near or l.last_id < v_first) or l.at < v_now - interval '1 minute' and l.is_soon
  )
  select array(select s.place from spare s) as places, l.x as last_x, l.flight as last_flight,
         (select max(i.x) from looked i where i.at < v_now - interval '1 minute') as upto
    into v_spare
  from (select 1) as one left join (select s.x, s.flight from spare s order by s.x desc, s.flight desc limit 1) as l on true;
  update maintain_step m set position = v_spare.upto where m.step = 'prune_ticks' and m.position <> v_spare.upto;

  with stood_on as materialized (
    -- from where a consumer stands to the end of what its reader was given; without an end while somebody moves it
    select (s.position).px as from_x, (s.position).pflight as from_flight,
           case when l.free then coalesce((s.after_sent).tx, (s.after_sent).px, (s.position).tx, (s.position).px) else 9223372036854775807 end as upto_x,
           case when l.free then coalesce((s.after_sent).tflight, (s.after_sent).pflight, (s.position).tflight, (s.position).pflight) else 0 end as upto_flight
    from consumer c
    cross join lateral (select n.position from newest_state(c.consumer_id) as n offset 0) as b
    cross join lateral (
      select pg_try_advisory_xact_lock(lock_consumer(), c.consumer_id) as free
      where ((b.position).px, (b.position).pflight) <= (v_spare.last_x, v_spare.last_flight) offset 0) as l
    cross join lateral (select n.position, n.after_sent from newest_state(c.consumer_id) as n offset 0) as s
  ), comes_next as materialized (
    select n.x, n.flight
    from stood_on o
    cross join lateral (
      select t.x, t.flight from event_tick t where (t.x, t.flight) > (o.from_x, o.from_flight) order by t.x, t.flight limit 1) as n
  )
  delete from event_tick t
  where t.ctid = any (v_spare.places)
    and not exists (select from stood_on o where (t.x, t.flight) between (o.from_x, o.from_flight) and (o.upto_x, o.upto_flight))
    and not exists (select from comes_next n where (t.x, t.flight) = (n.x, n.flight));
  get diagnostics v_pruned = row_count;
  return v_pruned;
end
$$;
comment on function fencepost_private.prune_ticks(int) is 'A step of maintain(): thins old ticks. Returns how many.';

-- Whether a consumer has events of this range of ids still to read. One that has expired is not waited for.
create function fencepost_private.is_unread(p_first bigint, p_end bigint)
returns boolean
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  select exists (
    select
    from consumer c
    cross join lateral ranges_after((newest_state(c.consumer_id)).position) as r
    cross join lateral (
      select from event e
      where e.id >= p_first and e.id < p_end and e.xid >= r.from_xid and e.xid < r.below_xid and e.id > r.above_id and not e.xid = any (r.without)
      limit 1) as f
    where c.expired_at is null)
$$;
comment on function fencepost_private.is_unread(bigint, bigint) is 'Whether a consumer that has not expired has still to read events of this range.';
--! EndIncluded outbox/prune_outbox.sql
--! Included outbox/webhooks/create_webhook.sql
-- Makes an endpoint that gets events by HTTP: each event is one job of the type fencepost.webhook.NAME, which is tried,
-- dead-lettered and replayed like any other. Returns the secret that its messages are signed with: it is shown this once.
--
-- `filter`, `start` and `max_lag` are those of create_consumer(): its consumer is webhook:NAME. Without kinds it gets
-- all, but never events of jobs that deliver to webhooks. `secret` is whsec_ and base64 of 24 to 64 bytes; one is made
-- when it is left out.
--
-- A message is tried 12 times over about two days (waits of 5 s, 20 s, 80 s … 12 h), each 20 s at most, ten at once:
-- see configure_webhook(). Deliveries that have ended are kept for a day, so that they lengthen nothing: the whole log is kept
-- as long as any type keeps its finished jobs.
-- Locks: none that anything else waits for. Errors: JE003; JE004 when there is one of this name.
create function fencepost.create_webhook(name text, url text, filter jsonb default '{}', secret text default null, start text default 'now', max_lag interval default '7 days')
returns text
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now    timestamptz := fencepost_private.now();
  v_secret text := webhook_secret_of(create_webhook.secret);
  v_type   text := webhook_type(create_webhook.name);
  v_id     int;
begin
  if create_webhook.name is null or create_webhook.name !~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,99}$' then
    perform raise_error('JE003', 'a webhook needs a name such as billing', format('received name = %s', coalesce(quote_literal(left(create_webhook.name, 250)), 'null')),
      'Use 1 to 100 letters, digits and any of _ . : / - and start with a letter, digit or underscore.');
  end if;
  perform check_webhook_url(create_webhook.url);
  insert into webhook as w (name, url, created_at, updated_at) values (create_webhook.name, create_webhook.url, v_now, v_now)
  on conflict on constraint webhook_name_unique do nothing
  returning w.webhook_id into v_id;
  if v_id is null or not fencepost.create_consumer(webhook_consumer(create_webhook.name), create_webhook.filter, create_webhook.start, create_webhook.max_lag) then
    perform raise_error('JE004', format('webhook %L exists', create_webhook.name), format('received name = %s; it or its consumer %s is there', create_webhook.name, webhook_consumer(create_webhook.name)),
      'Change it with configure_webhook(), or drop_webhook() it first.');
  end if;
  update consumer c set deliveries = false where c.name = webhook_consumer(create_webhook.name);
  insert into webhook_secret (webhook_id, secret, created_at) values (v_id, v_secret, v_now);

  perform fencepost.configure_type(v_type, max_attempts => 12, timeout => '20 seconds', max_running => 10, keep_finished => '1 day',
    backoff_base => '5 seconds', backoff_factor => 4, backoff_cap => '12 hours', backoff_jitter => 0.2);
  perform ensure_lane(v_type, 5);
  perform set_paused(v_type, false, null);
  perform tell_webhook(create_webhook.name, 'created', jsonb_build_object('url', create_webhook.url, 'filter', create_webhook.filter));
  return v_secret;
end
$$;
comment on function fencepost.create_webhook(text, text, jsonb, text, text, interval)
  is 'Makes an endpoint that gets events by HTTP, and returns the secret of its signatures, this once. Raises JE003, JE004.';
revoke execute on function fencepost.create_webhook(text, text, jsonb, text, text, interval) from public;
--! EndIncluded outbox/webhooks/create_webhook.sql
--! Included outbox/webhooks/configure_webhook.sql
-- Changes a webhook; null leaves a setting as it is.
--   url, filter    where messages go; which events (see create_consumer). Deliveries that wait go to the new URL
--   paused         true: nothing is sent; events wait in the log, as long as max_lag of its consumer allows
--   reason         why it is paused
--   max_attempts, timeout, max_running, backoff_base, backoff_cap
--                  those of its type of job; timeout from 1 second to 5 minutes, max_running from 1 to 1000
-- What else is a setting of a type is set with configure_type('fencepost.webhook.NAME', …).
-- Locks: the rows of the webhook and its type. Errors: JE002; JE003, naming the setting.
create function fencepost.configure_webhook(
  name text, url text default null, filter jsonb default null, paused boolean default null, reason text default null,
  max_attempts int default null, timeout interval default null, max_running int default null,
  backoff_base interval default null, backoff_cap interval default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_webhook webhook := find_webhook(configure_webhook.name);
  v_type    text := webhook_type(v_webhook.name);
  v_filter  record;
begin
  if configure_webhook.timeout not between interval '1 second' and interval '5 minutes' then
    perform raise_error('JE003', 'timeout must be from 1 second to 5 minutes', format('received timeout = %s', configure_webhook.timeout), 'An endpoint that needs longer should answer first and work then.');
  end if;
  if configure_webhook.max_running not between 1 and 1000 then
    perform raise_error('JE003', 'max_running must be from 1 to 1000', format('received max_running = %s', configure_webhook.max_running), 'It says how many messages are on their way to the endpoint at once.');
  end if;

  if configure_webhook.url is not null then
    perform check_webhook_url(configure_webhook.url);
    update webhook w set url = configure_webhook.url, updated_at = fencepost_private.now() where w.webhook_id = v_webhook.webhook_id and w.url <> configure_webhook.url;
  end if;
  if configure_webhook.filter is not null then
    select p.kinds, p.types, p.tenant into v_filter from parsed_consumer_filter(configure_webhook.filter) as p;
    update consumer c set kinds = v_filter.kinds, types = v_filter.types, tenant = v_filter.tenant where c.name = webhook_consumer(v_webhook.name);
    update webhook w set updated_at = fencepost_private.now() where w.webhook_id = v_webhook.webhook_id;
  end if;
  if configure_webhook.url <> v_webhook.url or configure_webhook.filter is not null then
    perform tell_webhook(v_webhook.name, 'configured', jsonb_strip_nulls(jsonb_build_object('url', nullif(configure_webhook.url, v_webhook.url), 'filter', configure_webhook.filter)));
  end if;

  perform fencepost.configure_type(v_type, max_attempts => configure_webhook.max_attempts, timeout => configure_webhook.timeout, max_running => configure_webhook.max_running,
    backoff_base => configure_webhook.backoff_base, backoff_cap => configure_webhook.backoff_cap);
  if configure_webhook.paused is not null then
    perform set_paused(v_type, configure_webhook.paused, configure_webhook.reason);
  end if;
end
$$;
comment on function fencepost.configure_webhook(text, text, jsonb, boolean, text, int, interval, int, interval, interval)
  is 'Changes the URL, filter or settings of a webhook, pauses it or lets it go on; null leaves a setting as it is. Raises JE002, JE003.';
revoke execute on function fencepost.configure_webhook(text, text, jsonb, boolean, text, int, interval, int, interval, interval) from public;
--! EndIncluded outbox/webhooks/configure_webhook.sql
--! Included outbox/webhooks/rotate_webhook_secret.sql
-- Gives a webhook a new secret and returns it: it is shown this once. Messages carry signatures by the new and by all
-- older ones until `keep_old` has passed, so that the receiver may change over in between; 0 ends the old ones at once.
-- Locks: the row of the webhook. Errors: JE002; JE003; JE004 when it is one that it has already.
create function fencepost.rotate_webhook_secret(name text, keep_old interval default '1 day', secret text default null)
returns text
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now     timestamptz := fencepost_private.now();
  v_webhook webhook := find_webhook(rotate_webhook_secret.name);
  v_secret  text := webhook_secret_of(rotate_webhook_secret.secret);
begin
  if rotate_webhook_secret.keep_old is null or rotate_webhook_secret.keep_old not between interval '0' and interval '1 year' then
    perform raise_error('JE003', 'keep_old must be from 0 to 1 year', format('received keep_old = %s', coalesce(rotate_webhook_secret.keep_old::text, 'null')), 'Give the time that the receiver needs to change over.');
  end if;
  if exists (select from webhook_secret s where s.webhook_id = v_webhook.webhook_id and s.secret = v_secret) then
    perform raise_error('JE004', format('webhook %L has that secret already', v_webhook.name), 'received the same secret again', 'Leave it out to have one made.');
  end if;
  delete from webhook_secret s where s.webhook_id = v_webhook.webhook_id and s.expires_at <= v_now;
  update webhook_secret s set expires_at = least(s.expires_at, v_now + rotate_webhook_secret.keep_old) where s.webhook_id = v_webhook.webhook_id;
  insert into webhook_secret (webhook_id, secret, created_at) values (v_webhook.webhook_id, v_secret, v_now);
  update webhook w set updated_at = v_now where w.webhook_id = v_webhook.webhook_id;
  perform tell_webhook(v_webhook.name, 'secret_rotated', jsonb_build_object('keep_old', rotate_webhook_secret.keep_old));
  return v_secret;
end
$$;
comment on function fencepost.rotate_webhook_secret(text, interval, text)
  is 'Gives a webhook a new secret and returns it, this once; old ones sign too until keep_old has passed. Raises JE002, JE003, JE004.';
revoke execute on function fencepost.rotate_webhook_secret(text, interval, text) from public;
--! EndIncluded outbox/webhooks/rotate_webhook_secret.sql
--! Included outbox/webhooks/drop_webhook.sql
-- Removes a webhook with its secrets and its consumer, and cancels the deliveries that wait; those on their way are told
-- to stop. Its dead letters and the history of its deliveries stay. Returns whether there was one.
-- Locks: the row of the webhook, its consumer, the places of its jobs, until commit. Errors: JE001 when a session reads its consumer.
create function fencepost.drop_webhook(name text)
returns boolean
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_id    int;
  v_lanes int[] := array(select l.lane_id from job_type t join lane l on l.type_id = t.type_id where t.type = webhook_type(drop_webhook.name));
begin
  select w.webhook_id into v_id from webhook w where w.name = drop_webhook.name for update;
  if not found then
    return false;
  end if;
  perform remove_consumer(webhook_consumer(drop_webhook.name));
  perform cancel_jobs(array(
    select r.id from ready r where r.lane_id = any (v_lanes)
    union all select d.id from delayed d where d.lane_id = any (v_lanes)
    union all select l.id from lease l where l.lane_id = any (v_lanes)), 'its webhook was removed', fencepost_private.now());
  delete from webhook_secret s where s.webhook_id = v_id;
  delete from webhook w where w.webhook_id = v_id;
  perform tell_webhook(drop_webhook.name, 'dropped');
  return true;
end
$$;
comment on function fencepost.drop_webhook(text) is 'Removes a webhook with its secrets and consumer, and cancels its deliveries; false when there was none. Raises JE001.';
--! EndIncluded outbox/webhooks/drop_webhook.sql
--! Included outbox/webhooks/relay_webhooks.sql
-- Makes jobs of events: for each webhook that is not paused it reads the next events of its consumer, at most `max`,
-- enqueues a delivery for each and acknowledges them, in one transaction: exactly once, whatever crashes. A step of
-- maintain(), so that it happens wherever a worker runs; the relay calls it, too, to be quicker.
--
-- Of one webhook at most max_pending deliveries wait (10,000 unless its type says otherwise): behind a dead endpoint
-- events stay in the log. All of a call is held in memory, and events may be large: call it often rather than with a high
-- max. A webhook that cannot be served is noted in `webhooks`, and stops no other.
-- Returns how many events were taken. Locks: consumers, tried. Errors: JE003; JE004 after a logical restore.
create function fencepost.relay_webhooks(max int default 200)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform check_read(relay_webhooks.max);
  perform check_not_restored('relay_webhooks()');
  return serve_webhooks(relay_webhooks.max);
end
$$;
comment on function fencepost.relay_webhooks(int) is 'Makes deliveries of the next events of each webhook, exactly once; returns how many events were taken. Raises JE003, JE004.';

create function fencepost_private.serve_webhooks(p_max int default 100)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now   timestamptz := fencepost_private.now();
  v       record;
  v_error text;
  v_taken bigint := 0;
begin
  for v in
    select w, w.error, t.type_id, t.max_pending
    from webhook w join job_type t on t.type = webhook_type(w.name)
    where t.accept and not t.paused
    order by w.webhook_id
  loop
    v_error := null;
    begin
      v_taken := v_taken + serve_webhook(v.w, least(p_max, coalesce(v.max_pending, 10000) - pending(v.type_id))::int);
    exception
      when others then
        v_error := format('%s: %s', sqlstate, sqlerrm);
    end;
    if v_error is distinct from v.error then
      -- an operator who holds the row keeps nobody waiting: it is noted at the next pass
      update webhook w set error = v_error, error_at = case when v_error is not null then v_now end
      where w.webhook_id = (select h.webhook_id from webhook h where h.webhook_id = (v.w).webhook_id for no key update skip locked);
    end if;
  end loop;
  delete from webhook_secret s
  where s.ctid = any (array(select o.ctid from webhook_secret o where o.expires_at <= v_now for update skip locked));
  return v_taken;
end
$$;
comment on function fencepost_private.serve_webhooks(int) is 'A step of maintain(): makes deliveries of the next events of each webhook. Returns how many events were taken.';

-- The same for one webhook. An event whose delivery is there already is passed over: its consumer may have been moved back.
-- Limits of the type were looked at by the caller; a large event is delivered as it is.
create function fencepost_private.serve_webhook(p_webhook fencepost_private.webhook, p_max int)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_lane  record;
  v_jobs  new_job[];
  v_taken bigint;
  v_last  text;
begin
  if p_max < 1 then
    return 0;
  end if;
  select l.lane_id, l.type_id into v_lane from ensure_lane(webhook_type(p_webhook.name), 5) as l;
  with told as materialized (
    select r.*, p_webhook.webhook_id || '-' || r.id as key, row_number() over () as place
    from fencepost.read_events(webhook_consumer(p_webhook.name), p_max, 'relay_webhooks') as r
  ), wanted as (
    select t.* from told t
    where not exists (select from idempotency_key k where k.tenant = t.tenant and k.type_id = v_lane.type_id and k.key = t.key)
    order by t.place
  )
  select count(*), (array_agg(t.position order by t.place desc))[1],
         (select array_agg(
            row(nextval('job_id_seq'), w.place, v_lane.type_id, v_lane.lane_id, w.tenant, jsonb_build_object('webhook', p_webhook.name, 'message', webhook_message(
                  row(w.id, w.kind, w.at, w.tenant, w.type, w.job_id, w.run_id, w.task_id, w.workflow, w.attempt, w.outcome, w.worker, w.ready_at, w.started_at, w.actor, w.data)::told_event)),
                null, w.key, null, null, null, null, null, null)::new_job)
          from wanted w)
    into v_taken, v_last, v_jobs
  from told t;
  if v_taken = 0 then
    return 0;
  end if;
  if v_jobs is not null then
    perform enqueue_rows(v_jobs, fencepost_private.now(), p_trusted => true);
  end if;
  perform fencepost.ack_events(webhook_consumer(p_webhook.name), v_last);
  return v_taken;
end
$$;
comment on function fencepost_private.serve_webhook(fencepost_private.webhook, int) is 'Makes deliveries of the next events of a webhook. Returns how many events were taken.';

-- An event as the body of a message, in the form of Standard Webhooks; times in UTC.
create function fencepost_private.webhook_message(p_event fencepost_private.told_event)
returns jsonb
language sql
stable
set search_path = fencepost_private, pg_temp
as $$
  select jsonb_build_object('type', (p_event).kind, 'timestamp', utc_text((p_event).at), 'data',
    to_jsonb(p_event) || jsonb_build_object('at', utc_text((p_event).at), 'ready_at', utc_text((p_event).ready_at), 'started_at', utc_text((p_event).started_at)))
$$;
comment on function fencepost_private.webhook_message(fencepost_private.told_event) is 'An event as the body of a message.';
--! EndIncluded outbox/webhooks/relay_webhooks.sql
--! Included outbox/webhooks/webhook_delivery.sql
-- What an attempt needs to deliver: where to, the body as it is to be sent, the id of the message (the same at each
-- attempt), and the secrets to sign with, newest first. Only whoever holds the lease of the delivery gets it.
-- Locks: none. Errors: JE001 (stale token); JE002 when the job is no delivery, or its webhook was removed.
create function fencepost.webhook_delivery(job_id bigint, token int)
returns table (url text, message_id text, body text, secrets text[])
language plpgsql
stable
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_job job;
begin
  if not exists (select from lease l where l.id = webhook_delivery.job_id and l.token = webhook_delivery.token) then
    perform raise_lease_lost(webhook_delivery.job_id, webhook_delivery.token);
  end if;
  select j.* into v_job from job j where j.id = webhook_delivery.job_id;
  return query
    select w.url, coalesce(v_job.idempotency_key, v_job.id::text), (v_job.payload -> 'message')::text,
           array(select s.secret from webhook_secret s
                 where s.webhook_id = w.webhook_id and (s.expires_at is null or s.expires_at > fencepost_private.now())
                 order by s.expires_at desc nulls first, s.created_at desc)
    from webhook w join job_type t on t.type = webhook_type(w.name) join lane l on l.type_id = t.type_id
    where l.lane_id = v_job.lane_id and v_job.payload ? 'message';
  if not found then
    perform raise_error('JE002', format('the webhook of job %s does not exist', webhook_delivery.job_id), format('received job_id = %s', webhook_delivery.job_id),
      'It was removed, or the job is no delivery of an event: discard it.');
  end if;
end
$$;
comment on function fencepost.webhook_delivery(bigint, int) is 'Where a delivery goes, its body, and the secrets to sign it with, for who holds its lease. Raises JE001, JE002.';
revoke execute on function fencepost.webhook_delivery(bigint, int) from public;
--! EndIncluded outbox/webhooks/webhook_delivery.sql

-- What people read
--! Included views/leases.sql
-- Running attempts. leased_until is the earliest time at which the engine may take the attempt back: its worker has
-- been silent for its ttl (in two looks), or has spoken for three ttls without naming the job, or the attempt times out. Every
-- heartbeat moves it on. A lease that is late but not yet taken is still good.
create view fencepost.leases as
select l.id as job_id, l.worker_id, w.name as worker, l.attempts as attempt, l.token, l.started_at,
       least(greatest(w.heartbeat_at + w.ttl, w.suspect_at + w.ttl / 2),
             greatest(l.started_at, l.seen_at, w.returned_at) + 3 * coalesce(w.ttl, interval '30 seconds'),
             l.deadline,
             w.ended_at) as leased_until,
       l.deadline, t.type, n.priority::int as priority, l.tenant, l.ready_at, l.cancel_requested_at, l.cancel_reason
from fencepost_private.lease l
join fencepost_private.lane n on n.lane_id = l.lane_id
join fencepost_private.job_type t on t.type_id = n.type_id
left join fencepost_private.worker w on w.worker_id = l.worker_id;

comment on view fencepost.leases is 'Running attempts: who holds which job, under which token, until when.';
comment on column fencepost.leases.job_id is 'The job.';
comment on column fencepost.leases.worker_id is 'The worker that holds it.';
comment on column fencepost.leases.worker is 'Name of that worker.';
comment on column fencepost.leases.attempt is 'Number of the attempt.';
comment on column fencepost.leases.token is 'Fencing token of the attempt.';
comment on column fencepost.leases.started_at is 'When it was claimed.';
comment on column fencepost.leases.leased_until is 'Before this the attempt cannot be taken back; every heartbeat moves it on.';
comment on column fencepost.leases.deadline is 'When the attempt times out; null without a timeout.';
comment on column fencepost.leases.type is 'Type of the job.';
comment on column fencepost.leases.priority is 'Priority of the job.';
comment on column fencepost.leases.tenant is 'Whose job it is.';
comment on column fencepost.leases.ready_at is 'Since when the job could have been claimed.';
comment on column fencepost.leases.cancel_requested_at is 'When its cancellation was asked for.';
comment on column fencepost.leases.cancel_reason is 'Why.';
--! EndIncluded views/leases.sql
--! Included views/jobs.sql
-- Where every job stands: one arm for each place, each with a constant status, so that a question about one status
-- or one job reads one small table or one index entry, never all of them.
create view fencepost_private.job_place as
select r.id, 'pending'::text as status, r.lane_id, r.attempts, r.token, r.ready_at as since, r.ready_at as available_at,
       null::int as worker_id, null::timestamptz as started_at, null::timestamptz as finished_at, null::text as waits_for
from fencepost_private.ready r
union all
select d.id, 'pending', d.lane_id, d.attempts, d.token, null, d.available_at, null, null, null, null
from fencepost_private.delayed d
union all
select p.id, 'pending', p.lane_id, p.attempts, p.token, p.parked_at, p.due_at, null, null, null, p.waits_for
from fencepost_private.parked p
union all
select l.id, 'running', l.lane_id, l.attempts, l.token, l.started_at, null, l.worker_id, l.started_at, null, null
from fencepost_private.lease l
union all
select s.id, 'waiting', s.lane_id, s.attempts, s.token, s.suspended_at, s.wake_at, null, null, null, s.waits_for
from fencepost_private.suspended s
union all
select z.id, 'dead_letter', z.lane_id, z.attempts, z.token, z.failed_at, null, null, null, z.failed_at, null
from fencepost_private.dead_letter z
union all
select e.job_id, 'completed', e.lane_id, e.attempt, e.token, e.at, null, e.worker_id, e.started_at, e.at, null
from fencepost_private.event e where e.job_id is not null and e.kind = 'job.completed'
union all
select e.job_id, 'cancelled', e.lane_id, e.attempt, e.token, e.at, null, e.worker_id, e.started_at, e.at, null
from fencepost_private.event e where e.job_id is not null and e.kind = 'job.cancelled'
union all
select e.job_id, 'discarded', e.lane_id, e.attempt, e.token, e.at, null, e.worker_id, e.started_at, e.at, null
from fencepost_private.event e where e.job_id is not null and e.kind = 'job.discarded';

comment on view fencepost_private.job_place is 'Every job and the place that holds it, or the event that ended it.';
comment on column fencepost_private.job_place.id is 'The job.';
comment on column fencepost_private.job_place.status is 'pending, running, waiting, dead_letter, completed, cancelled or discarded.';
comment on column fencepost_private.job_place.lane_id is 'The lane it stands in, or stood in when it ended.';
comment on column fencepost_private.job_place.attempts is 'Attempts that count.';
comment on column fencepost_private.job_place.token is 'Fencing token of its last claim; 0 before the first.';
comment on column fencepost_private.job_place.since is 'Since when it stands there; null for a delayed job.';
comment on column fencepost_private.job_place.available_at is 'When it could or can be claimed, or when it resumes.';
comment on column fencepost_private.job_place.worker_id is 'The worker that runs it or ended it.';
comment on column fencepost_private.job_place.started_at is 'When its last attempt was claimed.';
comment on column fencepost_private.job_place.finished_at is 'When it ended or was dead-lettered.';
comment on column fencepost_private.job_place.waits_for is 'The signal, key or pool that it waits for.';

-- The jobs as people see them. What is not selected is not looked up: result, last_error and the like are
-- subqueries that only a query which names them pays for.
create view fencepost.jobs as
select p.id, t.type, p.status, p.attempts, coalesce(b.max_attempts, t.max_attempts) as max_attempts, n.priority::int as priority,
       fencepost_private.shown(b.payload) as payload,
       case p.status when 'completed' then (
         select fencepost_private.shown(e.data) from fencepost_private.event e
         where e.job_id = p.id and e.kind = 'job.completed' order by e.id desc limit 1
       ) end as result,
       (select fencepost_private.shown(e.data) ->> 'error' from fencepost_private.event e
        where e.job_id = p.id and e.outcome in ('failed', 'timed_out', 'lease_expired') order by e.id desc limit 1) as last_error,
       p.available_at,
       case p.status when 'running' then (select l.leased_until from fencepost.leases l where l.job_id = p.id) end as leased_until,
       (select w.name from fencepost_private.worker w where w.worker_id = p.worker_id) as worker,
       b.idempotency_key, b.tenant, b.created_at,
       greatest(b.created_at, p.since, (
         select e.at from fencepost_private.event e where e.job_id = p.id order by e.id desc limit 1
       )) as updated_at,
       p.started_at, p.finished_at, p.waits_for, b.headers, b.timeout, p.token,
       (select fencepost_private.shown(g.value) from fencepost_private.progress g where g.job_id = p.id) as progress,
       b.run_id, b.task_id
from fencepost_private.job_place p
join fencepost_private.lane n on n.lane_id = p.lane_id
join fencepost_private.job_type t on t.type_id = n.type_id
join fencepost_private.job b on b.id = p.id;

comment on view fencepost.jobs is 'Every job, with its status. Ask by id or by status: each reads one small table or one index entry.';
comment on column fencepost.jobs.id is 'The job''s number.';
comment on column fencepost.jobs.type is 'What kind of work.';
comment on column fencepost.jobs.status is 'pending, running, waiting, dead_letter, completed, cancelled or discarded.';
comment on column fencepost.jobs.attempts is 'Attempts that count against max_attempts; reset by replay.';
comment on column fencepost.jobs.max_attempts is 'Attempts before it is dead-lettered: its own limit or its type''s.';
comment on column fencepost.jobs.priority is '0 to 9, higher is claimed first.';
comment on column fencepost.jobs.payload is 'What its handler is given.';
comment on column fencepost.jobs.result is 'What its handler returned, once completed.';
comment on column fencepost.jobs.last_error is 'Message of the last attempt that failed, if any did.';
comment on column fencepost.jobs.available_at is 'Pending: when it could or can be claimed. Waiting: when it resumes by itself.';
comment on column fencepost.jobs.leased_until is 'Running: before this it cannot be taken back from its worker.';
comment on column fencepost.jobs.worker is 'Name of the worker that runs it or that ended it.';
comment on column fencepost.jobs.idempotency_key is 'The key under which it was enqueued once.';
comment on column fencepost.jobs.tenant is 'Whose job it is.';
comment on column fencepost.jobs.created_at is 'When it was enqueued.';
comment on column fencepost.jobs.updated_at is 'When it last changed.';
comment on column fencepost.jobs.started_at is 'When its present or final attempt was claimed.';
comment on column fencepost.jobs.finished_at is 'When it ended or was dead-lettered.';
comment on column fencepost.jobs.waits_for is 'The signal, key or pool that it waits for.';
comment on column fencepost.jobs.headers is 'Its metadata.';
comment on column fencepost.jobs.timeout is 'Its own limit for one attempt; null takes the type''s.';
comment on column fencepost.jobs.token is 'Fencing token of its last claim; 0 before the first.';
comment on column fencepost.jobs.progress is 'What its handler last said of its progress.';
comment on column fencepost.jobs.run_id is 'The workflow run it belongs to.';
comment on column fencepost.jobs.task_id is 'The task of that run.';
--! EndIncluded views/jobs.sql
--! Included views/attempts.sql
-- Every attempt: those that ended, from the event that ended them, and those that run, from their lease. The key is
-- (job_id, token): attempt starts again at 1 after a replay, the token never does.
create view fencepost.attempts as
select a.job_id, a.attempt, a.token, w.name as worker, a.outcome, a.error, a.started_at, a.finished_at, a.ready_at, a.details, a.result, a.worker_id
from (
  select e.job_id, e.attempt, e.token, e.worker_id, e.outcome::text as outcome,
         case when e.outcome in ('failed', 'timed_out', 'lease_expired', 'cancelled') then fencepost_private.shown(e.data) ->> 'error' end as error,
         e.started_at, e.at as finished_at, e.ready_at,
         case when e.outcome in ('failed', 'timed_out', 'lease_expired', 'cancelled') then fencepost_private.shown(e.data) -> 'details' end as details,
         case e.outcome when 'completed' then fencepost_private.shown(e.data) end as result
  from fencepost_private.event e
  where e.job_id is not null and e.outcome is not null
  union all
  select l.id, l.attempts, l.token, l.worker_id, null, null, l.started_at, null, l.ready_at, null, null
  from fencepost_private.lease l
) as a
left join fencepost_private.worker w on w.worker_id = a.worker_id;

comment on view fencepost.attempts is 'Every attempt of every job, ended or running. Ask by job_id.';
comment on column fencepost.attempts.job_id is 'The job.';
comment on column fencepost.attempts.attempt is 'Its number; starts again at 1 after a replay.';
comment on column fencepost.attempts.token is 'Its fencing token: unique in the job for ever.';
comment on column fencepost.attempts.worker is 'Name of the worker that ran it.';
comment on column fencepost.attempts.outcome is 'completed, failed, lease_expired, timed_out, released, cancelled or suspended; null while it runs.';
comment on column fencepost.attempts.error is 'What went wrong.';
comment on column fencepost.attempts.started_at is 'When it was claimed.';
comment on column fencepost.attempts.finished_at is 'When it ended; null while it runs.';
comment on column fencepost.attempts.ready_at is 'Since when the job could have been claimed: started_at less this is the wait.';
comment on column fencepost.attempts.details is 'What else the worker said of the error.';
comment on column fencepost.attempts.result is 'What the handler returned.';
comment on column fencepost.attempts.worker_id is 'The worker (its incarnation).';
--! EndIncluded views/attempts.sql
--! Included views/job_events.sql
-- The history of a job. job.enqueued and job.started are shown also where they are not stored (a type stores them
-- only when it publishes them): the first from the body, the second from each attempt. Those rows have no id.
create view fencepost.job_events as
select h.id, h.job_id, h.kind, h.attempt, w.name as worker, h.data, h.created_at, h.token, h.outcome, h.actor, h.tenant
from (
  select e.id, e.job_id, e.kind::text as kind, e.attempt, e.worker_id, fencepost_private.shown(e.data) as data, e.at as created_at,
         e.token, e.outcome::text as outcome, e.actor, e.tenant
  from fencepost_private.event e
  where e.job_id is not null
  union all
  select null, b.id, 'job.enqueued', null, null, null, b.created_at, null, null, null, b.tenant
  from fencepost_private.job b
  where not exists (select from fencepost_private.event s where s.job_id = b.id and s.kind = 'job.enqueued')
  union all
  select null, e.job_id, 'job.started', e.attempt, e.worker_id, null, e.started_at, e.token, null, null, e.tenant
  from fencepost_private.event e
  where e.job_id is not null and e.outcome is not null
    and not exists (select from fencepost_private.event s where s.job_id = e.job_id and s.kind = 'job.started' and s.token = e.token)
  union all
  select null, l.id, 'job.started', l.attempts, l.worker_id, null, l.started_at, l.token, null, null, l.tenant
  from fencepost_private.lease l
  where not exists (select from fencepost_private.event s where s.job_id = l.id and s.kind = 'job.started' and s.token = l.token)
) as h
left join fencepost_private.worker w on w.worker_id = h.worker_id;

comment on view fencepost.job_events is 'The history of jobs. Ask by job_id, and order by id: that is the order in which things happened to a job.';
comment on column fencepost.job_events.id is 'The event''s number; null for an enqueue or a start that is not stored as an event.';
comment on column fencepost.job_events.job_id is 'The job.';
comment on column fencepost.job_events.kind is 'What happened, such as job.completed.';
comment on column fencepost.job_events.attempt is 'Number of the attempt.';
comment on column fencepost.job_events.worker is 'Name of the worker.';
comment on column fencepost.job_events.data is 'The result, the error, or what else belongs to the event.';
comment on column fencepost.job_events.created_at is 'When it happened.';
comment on column fencepost.job_events.token is 'Fencing token of the attempt.';
comment on column fencepost.job_events.outcome is 'How the attempt ended, when the event ends one.';
comment on column fencepost.job_events.actor is 'Who did it, for what people do.';
comment on column fencepost.job_events.tenant is 'Whose job it is.';
--! EndIncluded views/job_events.sql
--! Included views/dead_letter.sql
-- Jobs that failed for good and wait for a decision: replay or discard.
create view fencepost.dead_letter as
select z.id as job_id, t.type,
       fencepost_private.shown(to_jsonb(z.final_error)) #>> '{}' as final_error,
       z.attempts, z.failed_at, n.priority::int as priority, z.tenant,
       fencepost_private.shown(z.details) as details, fencepost_private.shown(b.payload) as payload,
       b.idempotency_key, b.created_at, z.token, b.run_id, b.task_id
from fencepost_private.dead_letter z
join fencepost_private.lane n on n.lane_id = z.lane_id
join fencepost_private.job_type t on t.type_id = n.type_id
left join fencepost_private.job b on b.id = z.id;

comment on view fencepost.dead_letter is 'Jobs that failed for good, kept until fencepost.replay() or fencepost.discard().';
comment on column fencepost.dead_letter.job_id is 'The job.';
comment on column fencepost.dead_letter.type is 'Its type.';
comment on column fencepost.dead_letter.final_error is 'Message of its last error.';
comment on column fencepost.dead_letter.attempts is 'Attempts that counted.';
comment on column fencepost.dead_letter.failed_at is 'When it was dead-lettered.';
comment on column fencepost.dead_letter.priority is 'Its priority.';
comment on column fencepost.dead_letter.tenant is 'Whose job it is.';
comment on column fencepost.dead_letter.details is 'What else the worker said of the error: name, stack, cause.';
comment on column fencepost.dead_letter.payload is 'What its handler was given.';
comment on column fencepost.dead_letter.idempotency_key is 'The key under which it was enqueued once.';
comment on column fencepost.dead_letter.created_at is 'When it was enqueued.';
comment on column fencepost.dead_letter.token is 'Fencing token of its last attempt.';
comment on column fencepost.dead_letter.run_id is 'The workflow run it belongs to.';
comment on column fencepost.dead_letter.task_id is 'The task of that run.';
--! EndIncluded views/dead_letter.sql
--! Included views/workers.sql
-- Worker processes, one row an incarnation: a restart is a new row. The status is what the clock says: one that was
-- silent for its ttl is lost, also before housekeeping has noticed.
create view fencepost.workers as
select w.worker_id as id, w.name, w.hostname,
       case when w.status in ('active', 'draining') and w.heartbeat_at < fencepost_private.now() - w.ttl then 'lost' else w.status::text end as status,
       w.types, w.heartbeat_at as last_heartbeat,
       coalesce(a.jobs, 0) as active_jobs, w.slot, w.ttl, w.started_at, w.suspect_at, w.ended_at, w.info, w.tenant
from fencepost_private.worker w
left join (select l.worker_id, count(*) as jobs from fencepost_private.lease l group by l.worker_id) as a on a.worker_id = w.worker_id;

comment on view fencepost.workers is 'Worker processes, present and past, and how many jobs each runs.';
comment on column fencepost.workers.id is 'Number of the incarnation; never reused.';
comment on column fencepost.workers.name is 'Name that the process gave itself.';
comment on column fencepost.workers.hostname is 'Where it runs.';
comment on column fencepost.workers.status is 'active, draining, lost (silent for longer than its ttl) or stopped.';
comment on column fencepost.workers.types is 'Types that it last claimed or declared.';
comment on column fencepost.workers.last_heartbeat is 'Its last sign of life.';
comment on column fencepost.workers.active_jobs is 'Jobs that it runs now.';
comment on column fencepost.workers.slot is 'Tells processes of one name on one host apart.';
comment on column fencepost.workers.ttl is 'How long it may be silent before it is lost.';
comment on column fencepost.workers.started_at is 'When it registered.';
comment on column fencepost.workers.suspect_at is 'When its silence was first noticed; null while it speaks.';
comment on column fencepost.workers.ended_at is 'When it was found lost, or stopped.';
comment on column fencepost.workers.info is 'What it tells of itself: version, pid, slots, language.';
comment on column fencepost.workers.tenant is 'The tenant it works for; empty works for all.';
--! EndIncluded views/workers.sql
--! Included views/types.sql
-- Types of work and their settings. Depths are in fencepost.stats().
create view fencepost.types as
select t.type, t.paused, t.max_attempts, t.timeout, t.max_running, t.max_pending, t.accept,
       t.backoff_base, t.backoff_factor, t.backoff_cap, t.backoff_jitter, t.max_payload_bytes, t.payload_check::text as payload_check,
       t.publish_enqueued, t.publish_started, t.dead_letter_alert, t.keep_finished, t.overridden, t.created_at, t.updated_at, t.type_id
from fencepost_private.job_type t;

comment on view fencepost.types is 'Types of work and their settings; change them with fencepost.configure_type().';
comment on column fencepost.types.type is 'Its name.';
comment on column fencepost.types.paused is 'True stops claims; enqueues go on.';
comment on column fencepost.types.max_attempts is 'Attempts that count before a job is dead-lettered.';
comment on column fencepost.types.timeout is 'How long one attempt may run; null is no limit.';
comment on column fencepost.types.max_running is 'How many jobs may run at once; null is no limit.';
comment on column fencepost.types.max_pending is 'How many jobs may wait before enqueues are refused; null is no limit.';
comment on column fencepost.types.accept is 'False refuses enqueues.';
comment on column fencepost.types.backoff_base is 'Wait before the second attempt, before jitter.';
comment on column fencepost.types.backoff_factor is 'Growth of the wait with each further attempt.';
comment on column fencepost.types.backoff_cap is 'The longest wait between attempts.';
comment on column fencepost.types.backoff_jitter is 'Share of the wait that is drawn at random.';
comment on column fencepost.types.max_payload_bytes is 'Largest payload, and largest result, in bytes of JSON text.';
comment on column fencepost.types.payload_check is 'SQL/JSON path predicate that a payload must satisfy; null is none.';
comment on column fencepost.types.publish_enqueued is 'True stores a job.enqueued event for each job.';
comment on column fencepost.types.publish_started is 'True stores a job.started event for each attempt.';
comment on column fencepost.types.dead_letter_alert is 'Dead letters at which the shipped alert fires.';
comment on column fencepost.types.keep_finished is 'How long finished jobs are kept.';
comment on column fencepost.types.overridden is 'Settings that an operator has set: code leaves these alone.';
comment on column fencepost.types.created_at is 'When the type was first seen.';
comment on column fencepost.types.updated_at is 'When a setting last changed.';
comment on column fencepost.types.type_id is 'Internal number of the type.';
--! EndIncluded views/types.sql
--! Included views/throughput.sql
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
--! EndIncluded views/throughput.sql
--! Included views/steps.sql
-- What handlers have recorded on their way, for the attempts that come after.
create view fencepost.steps as
select s.job_id, s.name, fencepost_private.shown(s.value) as value, s.token, s.at
from fencepost_private.step s;

comment on view fencepost.steps is 'Checkpoints of jobs: recorded once by step(), given back to every later attempt.';
comment on column fencepost.steps.job_id is 'The job.';
comment on column fencepost.steps.name is 'The step, unique in the job.';
comment on column fencepost.steps.value is 'What was recorded.';
comment on column fencepost.steps.token is 'The attempt that recorded it.';
comment on column fencepost.steps.at is 'When.';
--! EndIncluded views/steps.sql
--! Included views/workflows.sql
-- What people read of workflows, runs, tasks and approvals.

create view fencepost.workflows as
select w.name, w.latest_version, v.tasks, w.keep_finished, w.created_at, v.created_at as updated_at, v.created_by as updated_by
from fencepost_private.workflow w
join fencepost_private.workflow_version v on v.workflow_id = w.workflow_id and v.version = w.latest_version;
comment on view fencepost.workflows is 'Workflows by name, with their latest version.';
comment on column fencepost.workflows.name is 'Name of the workflow.';
comment on column fencepost.workflows.latest_version is 'The version that new runs take.';
comment on column fencepost.workflows.tasks is 'Number of tasks of the latest version.';
comment on column fencepost.workflows.keep_finished is 'How long its finished runs are kept.';
comment on column fencepost.workflows.created_at is 'When its first version was published.';
comment on column fencepost.workflows.updated_at is 'When the latest version was published.';
comment on column fencepost.workflows.updated_by is 'By whom.';

create view fencepost.workflow_versions as
select w.name as workflow, v.version, v.definition, v.checksum, v.tasks, v.created_at, v.created_by
from fencepost_private.workflow_version v
join fencepost_private.workflow w on w.workflow_id = v.workflow_id;
comment on view fencepost.workflow_versions is 'Published definitions. They never change.';
comment on column fencepost.workflow_versions.workflow is 'Name of the workflow.';
comment on column fencepost.workflow_versions.version is '1, 2, 3 … within the workflow.';
comment on column fencepost.workflow_versions.definition is 'The definition, as it was published.';
comment on column fencepost.workflow_versions.checksum is 'Of the definition; publishing an equal one finds it.';
comment on column fencepost.workflow_versions.tasks is 'Number of its tasks.';
comment on column fencepost.workflow_versions.created_at is 'When it was published.';
comment on column fencepost.workflow_versions.created_by is 'By whom.';

create view fencepost.runs as
select r.run_id as id, w.name as workflow, v.version, r.status::text, fencepost_private.shown(r.input) as input, r.created_at, r.finished_at,
       r.pending as pending_tasks, r.queued as queued_tasks, r.waiting as waiting_tasks, r.ended_well as ended_tasks, r.failed as failed_tasks, v.tasks as total_tasks,
       case when r.status = 'completed' then fencepost_private.shown(fencepost_private.run_output(r.run_id)) end as output,
       r.tags, coalesce(r.priority, 5) as priority, nullif(r.tenant, '') as tenant, r.idempotency_key, r.reason, r.paused_at, r.cancelled_at,
       t.run_id as parent_run_id, r.parent_task_id, r.root_run_id, r.restarted_from
from fencepost_private.run r
join fencepost_private.workflow w on w.workflow_id = r.workflow_id
join fencepost_private.workflow_version v on v.version_id = r.version_id
left join fencepost_private.task t on t.task_id = r.parent_task_id;
comment on view fencepost.runs is 'Runs of workflows, with the version each is pinned to and how far it is.';
comment on column fencepost.runs.id is 'The run.';
comment on column fencepost.runs.workflow is 'Its workflow.';
comment on column fencepost.runs.version is 'The version it is pinned to.';
comment on column fencepost.runs.status is 'running, waiting, paused, completed, failed, cancelled, compensating or compensated: derived from its tasks.';
comment on column fencepost.runs.input is 'What it was started with.';
comment on column fencepost.runs.output is 'Outputs of the tasks that no other waits for, by name, once it has completed.';
comment on column fencepost.runs.created_at is 'When it was started.';
comment on column fencepost.runs.finished_at is 'When it reached its end; null while anything of it can still move.';
comment on column fencepost.runs.pending_tasks is 'Tasks that wait for others.';
comment on column fencepost.runs.queued_tasks is 'Tasks that have a job, items of maps among them.';
comment on column fencepost.runs.waiting_tasks is 'Tasks that wait for a decision, a time, a signal, items or a child run.';
comment on column fencepost.runs.ended_tasks is 'Tasks that ended well.';
comment on column fencepost.runs.failed_tasks is 'Tasks that failed.';
comment on column fencepost.runs.total_tasks is 'Tasks of its version.';
comment on column fencepost.runs.tags is 'Words for finding it.';
comment on column fencepost.runs.priority is 'Priority of its jobs, unless a task says otherwise.';
comment on column fencepost.runs.tenant is 'Whose it is.';
comment on column fencepost.runs.idempotency_key is 'The key under which it was started once.';
comment on column fencepost.runs.reason is 'Why it was paused or cancelled.';
comment on column fencepost.runs.paused_at is 'Since when somebody holds it.';
comment on column fencepost.runs.cancelled_at is 'When it was cancelled.';
comment on column fencepost.runs.parent_run_id is 'The run that started it as a task.';
comment on column fencepost.runs.parent_task_id is 'The task that it carries out.';
comment on column fencepost.runs.root_run_id is 'The outermost run of its family.';
comment on column fencepost.runs.restarted_from is 'The run whose outputs it took over.';

create view fencepost.tasks as
select t.task_id as id, t.run_id, d.name, t.kind::text,
       case when t.status = 'queued' and l.id is not null then 'running' else t.status::text end as status,
       coalesce(l.attempts, a.attempts, 0) as attempts, fencepost_private.shown(t.output) as output, t.error,
       case when t.kind = 'compensation' then d.compensate else coalesce(d.type, d.child) end as type,
       t.job_id, t.child_run_id, t.item, t.parent_task_id, t.gate_id as approval_id, t.due_at, t.ready_at, l.started_at, t.finished_at, t.unmet as unmet_parents,
       array(select p.name from fencepost_private.workflow_edge e
             join fencepost_private.workflow_task p on p.version_id = e.version_id and p.task_no = e.parent_no
             where e.version_id = d.version_id and e.child_no = d.task_no order by e.parent_no) as after,
       t.items, t.items_open, t.items_failed
from fencepost_private.task t
join fencepost_private.run r on r.run_id = t.run_id
join fencepost_private.workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
left join fencepost_private.lease l on l.id = t.job_id
left join lateral (
  select max(e.attempt) as attempts from fencepost_private.event e where e.job_id = t.job_id and e.outcome is not null
) as a on t.job_id is not null;
comment on view fencepost.tasks is 'Tasks of runs: what each is, where it stands, what it returned. Items of maps and compensations have a parent_task_id.';
comment on column fencepost.tasks.id is 'The task, over all runs.';
comment on column fencepost.tasks.run_id is 'Its run.';
comment on column fencepost.tasks.name is 'Its name in the definition.';
comment on column fencepost.tasks.kind is 'job, approval, timer, signal, map, workflow, item (of a map) or compensation.';
comment on column fencepost.tasks.status is 'pending, queued, running, waiting, completed, failed, skipped or cancelled.';
comment on column fencepost.tasks.attempts is 'Attempts of its job that counted.';
comment on column fencepost.tasks.output is 'What it returned.';
comment on column fencepost.tasks.error is 'Why it failed or was skipped.';
comment on column fencepost.tasks.type is 'Type of its job, or the workflow that it runs.';
comment on column fencepost.tasks.job_id is 'Its job.';
comment on column fencepost.tasks.child_run_id is 'The run that carries it out.';
comment on column fencepost.tasks.item is 'Index of an item, from 0.';
comment on column fencepost.tasks.parent_task_id is 'The map of an item, or the task that a compensation undoes.';
comment on column fencepost.tasks.approval_id is 'The open gate before it.';
comment on column fencepost.tasks.due_at is 'When a timer fires or a wait expires.';
comment on column fencepost.tasks.ready_at is 'When its parents were done.';
comment on column fencepost.tasks.started_at is 'When the running attempt was claimed.';
comment on column fencepost.tasks.finished_at is 'When it ended.';
comment on column fencepost.tasks.unmet_parents is 'Parents, and gates, that it still waits for.';
comment on column fencepost.tasks.after is 'The tasks that it waits for, by name.';
comment on column fencepost.tasks.items is 'Items of a map.';
comment on column fencepost.tasks.items_open is 'Items that have not ended.';
comment on column fencepost.tasks.items_failed is 'Items that failed.';

create view fencepost.approvals as
select a.approval_id as id, a.run_id, d.name as task, a.status::text, w.name as workflow, a.task_id, a.is_gate, a.reason, a.requested_at, a.requested_by, a.expires_at,
       a.decided_at, a.decided_by, a.comment, fencepost_private.shown(a.data) as data, nullif(r.tenant, '') as tenant
from fencepost_private.approval a
join fencepost_private.run r on r.run_id = a.run_id
join fencepost_private.workflow w on w.workflow_id = r.workflow_id
join fencepost_private.task t on t.task_id = a.task_id
join fencepost_private.workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no;
comment on view fencepost.approvals is 'Decisions that people are asked for, and those that were made.';
comment on column fencepost.approvals.id is 'The approval.';
comment on column fencepost.approvals.run_id is 'Its run.';
comment on column fencepost.approvals.task is 'The task that waits for it.';
comment on column fencepost.approvals.status is 'pending, approved, rejected, expired or withdrawn.';
comment on column fencepost.approvals.workflow is 'The workflow of its run.';
comment on column fencepost.approvals.task_id is 'The task, over all runs.';
comment on column fencepost.approvals.is_gate is 'True when it was put before a task by request_approval.';
comment on column fencepost.approvals.reason is 'Why it is asked for.';
comment on column fencepost.approvals.requested_at is 'Since when.';
comment on column fencepost.approvals.requested_by is 'By whom.';
comment on column fencepost.approvals.expires_at is 'When it expires undecided.';
comment on column fencepost.approvals.decided_at is 'When it was decided.';
comment on column fencepost.approvals.decided_by is 'By whom.';
comment on column fencepost.approvals.comment is 'What they said.';
comment on column fencepost.approvals.data is 'What else they gave.';
comment on column fencepost.approvals.tenant is 'Whose run it is.';

create view fencepost.signals as
select s.signal_id as id, s.run_id, s.name, fencepost_private.shown(s.payload) as payload, s.received_at, s.sent_by, s.task_id
from fencepost_private.signal s;
comment on view fencepost.signals is 'Signals that runs received, and which task took each.';
comment on column fencepost.signals.id is 'The signal.';
comment on column fencepost.signals.run_id is 'The run that received it.';
comment on column fencepost.signals.name is 'Its name.';
comment on column fencepost.signals.payload is 'What it carries.';
comment on column fencepost.signals.received_at is 'When it came.';
comment on column fencepost.signals.sent_by is 'From whom.';
comment on column fencepost.signals.task_id is 'The task that took it; null while none has.';
--! EndIncluded views/workflows.sql
--! Included views/consumers.sql
-- Consumers: where each stands, how far behind, and who reads it.
create view fencepost.consumers as
select c.name, fencepost_private.position_text(s.position) as position,
       fencepost_private.unread_count(s.position) as lag_events,
       coalesce(greatest(extract(epoch from fencepost_private.now() - fencepost_private.unread_since(s.position)), 0), 0)::float8 as lag_seconds,
       case when s.leased_until > fencepost_private.now() then s.reader end as reader,
       case when s.leased_until > fencepost_private.now() then s.leased_until end as leased_until,
       (select count(*) from fencepost_private.parked_event p where p.consumer_id = c.consumer_id) as parked,
       c.kinds, c.types, c.tenant, c.max_lag, c.created_at, s.at as moved_at, c.expired_at
from fencepost_private.consumer c
cross join lateral (select n.* from fencepost_private.newest_state(c.consumer_id) as n offset 0) as s;

comment on view fencepost.consumers is 'Readers of the event log: where they stand and how far behind.';
comment on column fencepost.consumers.name is 'Its name.';
comment on column fencepost.consumers.position is 'Everything up to here is acknowledged.';
comment on column fencepost.consumers.lag_events is 'Events after that, of all kinds, also those that its filter holds back; counted to 100,000.';
comment on column fencepost.consumers.lag_seconds is 'For how long the oldest of them has been there to read; 0 when there is none.';
comment on column fencepost.consumers.reader is 'Who holds the lease; null when nobody does.';
comment on column fencepost.consumers.leased_until is 'Until when.';
comment on column fencepost.consumers.parked is 'Events that were set aside.';
comment on column fencepost.consumers.kinds is 'Kinds of events that it gets; null is all.';
comment on column fencepost.consumers.types is 'Types of jobs whose events it gets; null is all.';
comment on column fencepost.consumers.tenant is 'The tenant whose events it gets; null is all.';
comment on column fencepost.consumers.max_lag is 'For how long it may have something to read; null is no limit.';
comment on column fencepost.consumers.created_at is 'When it was created.';
comment on column fencepost.consumers.moved_at is 'When it last read or acknowledged.';
comment on column fencepost.consumers.expired_at is 'Since when it is beyond max_lag: it reads again after seek_consumer().';

-- Events that consumers set aside.
create view fencepost.parked_events as
select c.name as consumer, p.event_id, p.event ->> 'kind' as kind, p.event ->> 'type' as type, (p.event ->> 'job_id')::bigint as job_id,
       (p.event ->> 'run_id')::bigint as run_id, p.reason, p.times, p.parked_at, p.again, p.event
from fencepost_private.parked_event p
join fencepost_private.consumer c on c.consumer_id = p.consumer_id;

comment on view fencepost.parked_events is 'Events that consumers set aside because they could not be delivered; see replay_parked() and discard_parked().';
comment on column fencepost.parked_events.consumer is 'The consumer.';
comment on column fencepost.parked_events.event_id is 'The event.';
comment on column fencepost.parked_events.kind is 'Its kind.';
comment on column fencepost.parked_events.type is 'Type of its job.';
comment on column fencepost.parked_events.job_id is 'Its job.';
comment on column fencepost.parked_events.run_id is 'Its run.';
comment on column fencepost.parked_events.reason is 'Why it was set aside.';
comment on column fencepost.parked_events.times is 'How often it was.';
comment on column fencepost.parked_events.parked_at is 'When it last was.';
comment on column fencepost.parked_events.again is 'True when it is to be delivered again.';
comment on column fencepost.parked_events.event is 'The event as read_events() gives it.';
--! EndIncluded views/consumers.sql

-- Operating: counters, housekeeping, settings, answers to "why"
--! Included operate/depth.sql
-- How many jobs stand where, exact in the reader's snapshot and without counting them: the newest folded base of a
-- type, plus the deltas that it has not counted: those of transactions at or above its x, and of those in its xip.
-- Deltas that are folded leave dead index entries below x; no reader ever walks them: "offset 0" makes the look-up of a
-- late transaction a probe by type and transaction.

-- By type and place; with a type, that one alone.
create function fencepost_private.depth(p_type_id int default null)
returns table (type_id int, ready bigint, delayed bigint, parked bigint, running bigint, waiting bigint, dead_letter bigint, enqueued bigint)
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  select t.type_id,
         coalesce(b.ready, 0) + d.ready, coalesce(b.delayed, 0) + d.delayed, coalesce(b.parked, 0) + d.parked,
         coalesce(b.running, 0) + d.running, coalesce(b.waiting, 0) + d.waiting,
         coalesce(b.dead_letter, 0) + d.dead_letter, coalesce(b.enqueued, 0) + d.enqueued
  from job_type t
  left join lateral (select n.* from depth_base n where n.type_id = t.type_id order by n.seq desc limit 1) as b on true
  cross join lateral (
    select coalesce(sum(u.ready), 0) as ready, coalesce(sum(u.delayed), 0) as delayed, coalesce(sum(u.parked), 0) as parked,
           coalesce(sum(u.running), 0) as running, coalesce(sum(u.waiting), 0) as waiting,
           coalesce(sum(u.dead_letter), 0) as dead_letter, coalesce(sum(u.enqueued), 0) as enqueued
    from (
      select n.* from depth_delta n where n.type_id = t.type_id and n.xid >= coalesce(b.x, 0)
      union all
      select late.*
      from unnest(b.xip) as e(x)
      cross join lateral (select n.* from depth_delta n where n.type_id = t.type_id and n.xid = e.x offset 0) as late
      where e.x < b.x
    ) as u
  ) as d
  where p_type_id is null or t.type_id = p_type_id
$$;
comment on function fencepost_private.depth(int) is 'Jobs by type and place, exact in this snapshot, from counters.';

-- The two that the hot path asks for one type, own uncommitted changes included. In PL/pgSQL, which keeps their plans.
create function fencepost_private.running(p_type_id int)
returns bigint
language plpgsql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_base  depth_base;
  v_fresh bigint;
  v_late  bigint := 0;
begin
  select b.* into v_base from depth_base b where b.type_id = p_type_id order by b.seq desc limit 1;
  select sum(d.running) into v_fresh from depth_delta d where d.type_id = p_type_id and d.xid >= coalesce(v_base.x, 0);
  if cardinality(v_base.xip) > 0 then
    select sum(late.jobs) into v_late
    from unnest(v_base.xip) as e(x)
    cross join lateral (select d.running as jobs from depth_delta d where d.type_id = p_type_id and d.xid = e.x offset 0) as late
    where e.x < v_base.x;
  end if;
  return coalesce(v_base.running, 0) + coalesce(v_fresh, 0) + coalesce(v_late, 0);
end
$$;
comment on function fencepost_private.running(int) is 'How many jobs of a type are running, exact in this snapshot, from counters.';

create function fencepost_private.pending(p_type_id int)
returns bigint
language plpgsql
stable
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_base  depth_base;
  v_fresh bigint;
  v_late  bigint := 0;
begin
  select b.* into v_base from depth_base b where b.type_id = p_type_id order by b.seq desc limit 1;
  select sum(d.ready + d.delayed + d.parked) into v_fresh from depth_delta d where d.type_id = p_type_id and d.xid >= coalesce(v_base.x, 0);
  if cardinality(v_base.xip) > 0 then
    select sum(late.jobs) into v_late
    from unnest(v_base.xip) as e(x)
    cross join lateral (select d.ready + d.delayed + d.parked as jobs from depth_delta d where d.type_id = p_type_id and d.xid = e.x offset 0) as late
    where e.x < v_base.x;
  end if;
  return coalesce(v_base.ready + v_base.delayed + v_base.parked, 0) + coalesce(v_fresh, 0) + coalesce(v_late, 0);
end
$$;
comment on function fencepost_private.pending(int) is 'How many jobs of a type wait (ready, delayed or parked), exact in this snapshot, from counters.';
--! EndIncluded operate/depth.sql
--! Included views/webhooks.sql
-- Endpoints that get events by HTTP: their settings, and how they stand. Secrets are never shown.
create view fencepost.webhooks as
select w.name, w.url, c.kinds, c.types, c.tenant, coalesce(t.paused, false) as paused, p.reason as paused_reason,
       t.max_attempts, t.timeout, t.max_running, t.backoff_base, t.backoff_cap,
       fencepost_private.pending(t.type_id) as waiting,
       (select count(*) from fencepost_private.dead_letter d join fencepost_private.lane l on l.lane_id = d.lane_id where l.type_id = t.type_id) as dead_letters,
       fencepost_private.unread_count(s.position) as lag_events,
       (select max(o.expires_at) from fencepost_private.webhook_secret o where o.webhook_id = w.webhook_id and o.expires_at > fencepost_private.now()) as old_secret_until,
       w.error, w.error_at, fencepost_private.webhook_consumer(w.name) as consumer, fencepost_private.webhook_type(w.name) as type,
       w.created_at, w.updated_at
from fencepost_private.webhook w
left join fencepost_private.job_type t on t.type = fencepost_private.webhook_type(w.name)
left join fencepost_private.type_pause p on p.type_id = t.type_id
left join fencepost_private.consumer c on c.name = fencepost_private.webhook_consumer(w.name)
left join lateral (select n.* from fencepost_private.newest_state(c.consumer_id) as n offset 0) as s on true;

comment on view fencepost.webhooks is 'Endpoints that get events by HTTP, and how they stand.';
comment on column fencepost.webhooks.name is 'Its name.';
comment on column fencepost.webhooks.url is 'Where messages go.';
comment on column fencepost.webhooks.kinds is 'Kinds of events that it gets; null is all.';
comment on column fencepost.webhooks.types is 'Types of jobs whose events it gets; null is all.';
comment on column fencepost.webhooks.tenant is 'The tenant whose events it gets; null is all.';
comment on column fencepost.webhooks.paused is 'True: nothing is sent, events wait in the log.';
comment on column fencepost.webhooks.paused_reason is 'Why it was paused.';
comment on column fencepost.webhooks.max_attempts is 'How often a message is tried before it is dead-lettered.';
comment on column fencepost.webhooks.timeout is 'How long one attempt may take.';
comment on column fencepost.webhooks.max_running is 'How many messages are on their way at once.';
comment on column fencepost.webhooks.backoff_base is 'Wait before the second attempt.';
comment on column fencepost.webhooks.backoff_cap is 'The longest wait between attempts.';
comment on column fencepost.webhooks.waiting is 'Deliveries that wait for their first or next attempt.';
comment on column fencepost.webhooks.dead_letters is 'Messages that were given up; replay() tries them again.';
comment on column fencepost.webhooks.lag_events is 'Events in the log that are no deliveries yet, of all kinds; counted to 100,000.';
comment on column fencepost.webhooks.old_secret_until is 'Until when messages are signed with an old secret, too; null when there is none.';
comment on column fencepost.webhooks.error is 'Why events could not be made deliveries at the last try; null when they were.';
comment on column fencepost.webhooks.error_at is 'Since when.';
comment on column fencepost.webhooks.consumer is 'Its consumer of the event log.';
comment on column fencepost.webhooks.type is 'The type of its deliveries.';
comment on column fencepost.webhooks.created_at is 'When it was created.';
comment on column fencepost.webhooks.updated_at is 'When its URL, filter or secret last changed.';
--! EndIncluded views/webhooks.sql
--! Included operate/ensure_partitions.sql
-- Partitions of job and event, by ranges of id: made ahead of need, dropped whole when all in them is old.
--
-- A partition is made as a plain table and then attached, which lets everybody read and write meanwhile; CREATE
-- TABLE … PARTITION OF would lock the parent against all of them. The catalog itself is the register.

create function fencepost_private.partitions(p_parent text)
returns table (name text, first_id bigint, end_id bigint)
language sql
stable
set search_path = fencepost_private, pg_temp
as $$
  select c.relname::text, b.bound[1]::bigint, b.bound[2]::bigint
  from pg_inherits i
  join pg_class c on c.oid = i.inhrelid
  cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''?(\d+)''?\) TO \(''?(\d+)''?\)') as b(bound)
  where i.inhparent = format('fencepost_private.%I', p_parent)::regclass and b.bound is not null
$$;
comment on function fencepost_private.partitions(text) is 'The partitions of job or event with their ranges of ids: from first_id to below end_id.';

-- How far the ids of a parent have come.
create function fencepost_private.last_id(p_parent text) returns bigint
language sql volatile
return (select case p_parent when 'job' then (select s.last_value from fencepost_private.job_id_seq s)
                             when 'event' then (select s.last_value from fencepost_private.event_id_seq s) end);
comment on function fencepost_private.last_id(text) is 'The last id drawn for job or event.';

-- Keeps p_ahead ranges ready beyond the ids in use, when fewer than p_least are left. Returns how many were made.
-- A range holds a million ids at first. It doubles when eight or more are in use and halves when two or fewer are, so
-- that their number stays about that at any rate of work and any retention: a plan looks at each of them.
--
-- It never fails its caller: when a lock is busy or the transaction may not do it, it returns 0, and the next one tries.
-- Locks, to the end of the transaction: the advisory lock (housekeeping, 2); SHARE UPDATE EXCLUSIVE on the parent.
create function fencepost_private.make_partitions(p_parent text, p_least int, p_ahead int)
returns int
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set lock_timeout = '50ms'
as $$
declare
  v_last  bigint := last_id(p_parent);
  v_known record;
  v_width bigint;
  v_from  bigint;
  v_name  text;
  v_made  int := 0;
begin
  select coalesce(max(p.end_id), 0) as end_id, count(*) filter (where p.first_id <= v_last) as used,
         coalesce((array_agg(p.end_id - p.first_id order by p.end_id desc))[1], 1000000) as width
    into v_known
  from partitions(p_parent) p;
  if v_known.end_id - v_last > p_least * v_known.width
     or not pg_try_advisory_xact_lock(lock_housekeeping(), 2) then
    return 0;
  end if;

  v_width := case when v_known.used >= 8 then least(v_known.width * 2, 1024000000)
                  when v_known.used <= 2 then greatest(v_known.width / 2, 1000000)
                  else v_known.width end;
  v_from := greatest(v_known.end_id, v_last - v_last % 1000000);
  while v_from - v_last <= p_ahead * v_width loop
    v_name := format('%s_%s', p_parent, v_from);
    execute format('create table fencepost_private.%I (like fencepost_private.%I including defaults including constraints including indexes including storage)', v_name, p_parent);
    execute format('alter table fencepost_private.%I set (autovacuum_freeze_min_age = 0)', v_name);
    if p_parent = 'event' then
      execute format('alter table fencepost_private.%I replica identity full', v_name);
    end if;
    execute format('comment on table fencepost_private.%I is %L', v_name, format('Rows of %s with ids from %s to %s.', p_parent, v_from, v_from + v_width - 1));
    execute format('alter table fencepost_private.%I attach partition fencepost_private.%I for values from (%s) to (%s)', p_parent, v_name, v_from, v_from + v_width);
    v_from := v_from + v_width;
    v_made := v_made + 1;
  end loop;
  return v_made;
exception
  when others then
    return 0;
end
$$;
comment on function fencepost_private.make_partitions(text, int, int) is 'Makes partitions ahead of the ids in use when too few are left; returns how many. Never fails its caller.';

-- For enqueues, which call it now and then: only when less than one range is left, since what it does to the tables
-- stays locked until the caller's transaction ends. So an engine whose maintain() has not run for a month takes work.
create function fencepost_private.ensure_partitions()
returns int
language sql
volatile
set search_path = fencepost_private, pg_temp
as $$
  select make_partitions('job', 1, 3) + make_partitions('event', 1, 3)
$$;
comment on function fencepost_private.ensure_partitions() is 'Makes partitions of job and event when they are about to run out; returns how many. Never fails its caller.';

-- For maintain(): keeps three ranges ahead.
create function fencepost_private.create_partitions()
returns bigint
language sql
volatile
set search_path = fencepost_private, pg_temp
as $$
  select make_partitions('job', 3, 3) + make_partitions('event', 3, 3)
$$;
comment on function fencepost_private.create_partitions() is 'A step of maintain(): keeps partitions of job and event ahead of the ids in use. Returns how many were made.';

-- The first ones.
do $$ begin perform fencepost_private.ensure_partitions(); end $$;
--! EndIncluded operate/ensure_partitions.sql
--! Included operate/fold_depth.sql
-- Folds depth deltas into the base of their type, and removes them: the new base is the old one plus exactly the rows
-- that are deleted, in one statement, so that the sum is the same before and after in any snapshot.
--
-- Counted are the deltas of transactions that had ended for our snapshot. Those in flight stay, and so do our own:
-- this transaction may write more. Both are named in the new base: x is where the uncounted begin, xip the exceptions
-- below it. Only the range between the old base and the new is read, since below it lie dead index entries.
--
-- At most about p_limit deltas of a type are folded at once. Returns how many were.
-- Call it under maintain()'s lock and in READ COMMITTED: one at a time, each seeing the one before.
create function fencepost_private.fold_depth(p_limit int default 20000)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_minute timestamptz := date_trunc('minute', fencepost_private.now());
  v_folded bigint;
begin
  with flight as materialized (
    select f.xmax, f.xip from in_flight() f
  ), base as materialized (
    select t.type_id, b.seq, coalesce(b.x, 0) as x, coalesce(b.xip, '{}') as xip
    from job_type t
    left join lateral (select n.seq, n.x, n.xip from depth_base n where n.type_id = t.type_id order by n.seq desc limit 1) as b on true
  ), reach as materialized (
    select b.type_id, b.seq, b.x as old_x, b.xip as old_xip, least(f.xmax, far.xid + 1) as x
    from base b
    cross join flight f
    left join lateral (select d.xid from depth_delta d where d.type_id = b.type_id and d.xid >= b.x order by d.xid offset p_limit limit 1) as far on true
  ), seen as materialized (
    select d.place
    from reach r
    cross join flight f
    cross join lateral (
      select n.ctid as place from depth_delta n
      where n.type_id = r.type_id and n.xid >= r.old_x and n.xid < r.x and not n.xid = any (f.xip)
      union all
      select late.place
      from unnest(r.old_xip) as e(x)
      cross join lateral (select n.ctid as place from depth_delta n where n.type_id = r.type_id and n.xid = e.x offset 0) as late
      where e.x < r.old_x and not e.x = any (f.xip)
    ) as d
  ), folded as (
    delete from depth_delta d where d.ctid = any (array(select s.place from seen s)) returning d.*
  ), summed as (
    select d.type_id, count(*) as deltas, sum(d.ready) as ready, sum(d.delayed) as delayed, sum(d.parked) as parked, sum(d.running) as running,
           sum(d.waiting) as waiting, sum(d.dead_letter) as dead_letter, sum(d.enqueued) as enqueued
    from folded d group by d.type_id
  ), replaced as (
    delete from depth_base o using summed s, reach r
    where r.type_id = s.type_id and o.type_id = r.type_id and o.seq = r.seq
    returning o.*
  ), put as (
    insert into depth_base (type_id, x, xip, ready, delayed, parked, running, waiting, dead_letter, enqueued)
    select s.type_id, r.x, array(select i.x from unnest(f.xip) as i(x) where i.x < r.x),
           coalesce(o.ready, 0) + s.ready, coalesce(o.delayed, 0) + s.delayed, coalesce(o.parked, 0) + s.parked,
           coalesce(o.running, 0) + s.running, coalesce(o.waiting, 0) + s.waiting, coalesce(o.dead_letter, 0) + s.dead_letter,
           coalesce(o.enqueued, 0) + s.enqueued
    from summed s
    join reach r on r.type_id = s.type_id
    cross join flight f
    left join replaced o on o.type_id = s.type_id
  ), noted as (
    insert into type_minute as m (type_id, minute, enqueued)
    select s.type_id, v_minute, s.enqueued from summed s where s.enqueued > 0
    on conflict on constraint type_minute_pkey do update set enqueued = m.enqueued + excluded.enqueued
  )
  select sum(s.deltas) into v_folded from summed s;
  return coalesce(v_folded, 0);
end
$$;
comment on function fencepost_private.fold_depth(int) is 'A step of maintain(): folds depth deltas into the base of their type. Returns how many.';

-- The transactions that a register must leave uncounted, seen from the calling statement's snapshot: all at or above
-- xmax, and those of xip; our own counts as in flight, though it is not in its own snapshot's list. It must be stable:
-- a volatile function would look with a snapshot of its own.
create function fencepost_private.in_flight(out xmax bigint, out xip bigint[])
language sql
stable
set search_path = fencepost_private, pg_temp
as $$
  select s.xmax, array(select x::text::bigint from pg_snapshot_xip(s.snap) as x union select s.own where s.own < s.xmax)
  from (select snap, pg_snapshot_xmax(snap)::text::bigint as xmax, pg_current_xact_id_if_assigned()::text::bigint as own
        from pg_current_snapshot() as snap offset 0) as s
$$;
comment on function fencepost_private.in_flight() is 'What the present snapshot does not see: transactions at or above xmax, and those in xip, our own among them.';
--! EndIncluded operate/fold_depth.sql
--! Included operate/fold_outcomes.sql
-- Counts the events of the log, each once, into totals by type, kind and outcome, with how long attempts waited and
-- ran. The same technique as fold_depth: what had ended for our snapshot and was not counted before, read by the
-- log's index on xid, at most about p_limit events at once. Returns how many were counted.
-- Call it under maintain()'s lock and in READ COMMITTED.
create function fencepost_private.fold_outcomes(p_limit int default 100000)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v_base   outcome_base;
  v_flight record;
  v_far    bigint;
  v_count  bigint;
begin
  select b.* into v_base from outcome_base b order by b.seq desc limit 1;
  v_base.x := coalesce(v_base.x, 0);
  v_base.xip := coalesce(v_base.xip, '{}');
  -- bounds from one snapshot, the count from a later one: what that sees more is at or above xmax, or in xip
  select f.xmax, f.xip into v_flight from in_flight() f;
  select e.xid into v_far from event e where e.xid >= v_base.x order by e.xid offset p_limit limit 1;
  v_flight.xmax := least(v_flight.xmax, v_far + 1);

  v_count := count_outcomes(v_base.x, v_base.xip, v_flight.xmax, v_flight.xip);
  if v_count > 0 or v_far is not null then
    insert into outcome_base (x, xip) values (v_flight.xmax, array(select i.x from unnest(v_flight.xip) as i(x) where i.x < v_flight.xmax));
    delete from outcome_base b where b.seq = v_base.seq;
  end if;
  return v_count;
end
$$;
comment on function fencepost_private.fold_outcomes(int) is 'A step of maintain(): counts new events into totals and minutes. Returns how many.';

-- Adds events to the totals and minutes: those of transactions from p_from_x (and in p_from_xip, below it) to below
-- p_to_x, but for those in p_to_xip. Returns how many.
create function fencepost_private.count_outcomes(p_from_x bigint, p_from_xip bigint[], p_to_x bigint, p_to_xip bigint[])
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_count bigint;
begin
  -- one pass over the events; what follows works on its few groups
  with grouped as materialized (
    select n.type_id, g.*
    from (
      select e.lane_id, e.kind, e.outcome, date_bin('1 minute', e.at, '2000-01-01 00:00:00+00') as minute,
             width_bucket(e.wait, duration_bounds()) as wait_bucket, width_bucket(e.run, duration_bounds()) as run_bucket,
             count(*) as events, coalesce(sum(e.wait), 0) as wait_seconds, coalesce(sum(e.run), 0) as run_seconds
      from (
        select u.lane_id, u.kind, u.outcome, u.at,
               case when u.outcome is not null then date_part('epoch', u.started_at - u.ready_at) end as wait,
               case when u.outcome is not null then date_part('epoch', u.at - u.started_at) end as run
        from (
          select i.* from event i where i.xid >= p_from_x and i.xid < p_to_x and not i.xid = any (p_to_xip)
          union all
          select i.* from event i where i.xid = any (p_from_xip) and i.xid < p_from_x and not i.xid = any (p_to_xip)
        ) as u
        where u.job_id is not null and u.kind not in ('job.enqueued', 'job.started')
      ) as e
      group by 1, 2, 3, 4, 5, 6
    ) as g
    join lane n on n.lane_id = g.lane_id
  ), summed as materialized (
    select g.type_id, g.kind, g.outcome, sum(g.events)::bigint as events, sum(g.wait_seconds) as wait_seconds, sum(g.run_seconds) as run_seconds
    from grouped g group by g.type_id, g.kind, g.outcome
  ), waits as materialized (
    select g.type_id, g.kind, g.outcome, g.wait_bucket as bucket, sum(g.events)::bigint as attempts
    from grouped g where g.outcome is not null group by g.type_id, g.kind, g.outcome, g.wait_bucket
  ), runs as materialized (
    select g.type_id, g.kind, g.outcome, g.run_bucket as bucket, sum(g.events)::bigint as attempts
    from grouped g where g.outcome is not null group by g.type_id, g.kind, g.outcome, g.run_bucket
  ), older as materialized (
    select o.*
    from summed s
    cross join lateral (
      select t.* from outcome_total t
      where t.type_id = s.type_id and t.kind = s.kind and t.outcome is not distinct from s.outcome
      order by t.seq desc limit 1
    ) as o
  ), replaced as (
    delete from outcome_total t using older o
    where t.type_id = o.type_id and t.kind = o.kind and t.seq = o.seq
  ), put as (
    insert into outcome_total (type_id, kind, outcome, events, wait_seconds, wait_counts, run_seconds, run_counts)
    select s.type_id, s.kind, s.outcome, coalesce(o.events, 0) + s.events,
           coalesce(o.wait_seconds, 0) + s.wait_seconds,
           array(select coalesce(o.wait_counts[i + 1], 0) + coalesce(w.attempts, 0)
                 from generate_series(0, cardinality(duration_bounds())) as i
                 left join waits w on w.type_id = s.type_id and w.kind = s.kind and w.outcome = s.outcome and w.bucket = i order by i),
           coalesce(o.run_seconds, 0) + s.run_seconds,
           array(select coalesce(o.run_counts[i + 1], 0) + coalesce(r.attempts, 0)
                 from generate_series(0, cardinality(duration_bounds())) as i
                 left join runs r on r.type_id = s.type_id and r.kind = s.kind and r.outcome = s.outcome and r.bucket = i order by i)
    from summed s
    left join older o on o.type_id = s.type_id and o.kind = s.kind and o.outcome is not distinct from s.outcome
  ), noted as (
    insert into type_minute as m (type_id, minute, completed, failed, dead_lettered)
    select g.type_id, g.minute, coalesce(sum(g.events) filter (where g.kind = 'job.completed'), 0),
           coalesce(sum(g.events) filter (where g.outcome in ('failed', 'timed_out', 'lease_expired')), 0),
           coalesce(sum(g.events) filter (where g.kind = 'job.dead_lettered'), 0)
    from grouped g
    where g.kind in ('job.completed', 'job.dead_lettered') or g.outcome in ('failed', 'timed_out', 'lease_expired')
    group by g.type_id, g.minute
    on conflict on constraint type_minute_pkey do update
    set completed = m.completed + excluded.completed, failed = m.failed + excluded.failed, dead_lettered = m.dead_lettered + excluded.dead_lettered
  )
  select sum(s.events) into v_count from summed s;
  return coalesce(v_count, 0);
end
$$;
comment on function fencepost_private.count_outcomes(bigint, bigint[], bigint, bigint[]) is 'Adds the events of a range of transactions to totals and minutes. Returns how many.';

-- The buckets of wait and run times, in seconds: upper bounds. They never change, since counts are kept by them.
create function fencepost_private.duration_bounds() returns double precision[]
language sql immutable parallel safe
return array[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600]::double precision[];
comment on function fencepost_private.duration_bounds() is 'Upper bounds, in seconds, of the buckets in which wait and run times are counted.';

-- Minutes older than three hours: rates and charts look no further back.
create function fencepost_private.prune_minutes()
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_pruned bigint;
begin
  delete from type_minute m where m.minute < fencepost_private.now() - interval '3 hours';
  get diagnostics v_pruned = row_count;
  return v_pruned;
end
$$;
comment on function fencepost_private.prune_minutes() is 'A step of maintain(): forgets minutes older than three hours. Returns how many.';
--! EndIncluded operate/fold_outcomes.sql
--! Included operate/prune_hints.sql
-- Removes watermarks that a newer one of their lane has replaced.
--
-- It reads only what is new since the last pass (maintain_step.position) and, for a lane with a newer watermark, the
-- one that was kept then: whatever was pruned before is dead, and under a held snapshot would be walked for nothing.
-- Once an hour it looks at all. Returns how many were removed.
create function fencepost_private.prune_hints()
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now    timestamptz := fencepost_private.now();
  v_from   bigint := (select m.position from maintain_step m where m.step = 'prune_hints' and date_trunc('hour', m.last_at) = date_trunc('hour', v_now));
  v_upto   bigint;
  v_pruned bigint;
begin
  with newest as materialized (
    select l.lane_id, h.seq
    from lane l
    cross join lateral (select i.seq from lane_hint i where i.lane_id = l.lane_id order by i.seq desc limit 1) as h
    where h.seq > coalesce(v_from, 0)
  ), replaced as materialized (
    select o.place
    from newest n
    cross join lateral (
      select i.ctid as place from lane_hint i where i.lane_id = n.lane_id and i.seq > coalesce(v_from, 0) and i.seq < n.seq
      union all
      (select i.ctid from lane_hint i where i.lane_id = n.lane_id and i.seq <= v_from order by i.seq desc limit 1)
    ) as o
  ), pruned as (
    delete from lane_hint h where h.ctid = any (array(select r.place from replaced r)) returning h.seq
  )
  select (select count(*) from pruned), (select max(n.seq) from newest n) into v_pruned, v_upto;

  update maintain_step m set position = v_upto where m.step = 'prune_hints' and m.position < v_upto;
  return v_pruned;
end
$$;
comment on function fencepost_private.prune_hints() is 'A step of maintain(): removes replaced watermarks. Returns how many.';
--! EndIncluded operate/prune_hints.sql
--! Included operate/retire.sql
-- Removing what has ended. Finished jobs are kept for keep_finished of their type, then their body goes, and with it
-- their idempotency key, steps and progress; events go by whole partitions, once no body is left that they tell of.
--
-- A partition of job in which every job ended long enough ago is dropped whole, which costs nothing. That is what
-- happens at high rates. The others (low rates; partitions that a few dead letters or delayed jobs hold) lose their
-- ended jobs row by row, in small batches.

-- The longest time for which any type keeps its finished jobs.
create function fencepost_private.longest_keep() returns interval
language sql stable
return (select coalesce(max(t.keep_finished), interval '7 days') from fencepost_private.job_type t);
comment on function fencepost_private.longest_keep() is 'The longest keep_finished of all types.';

-- Whether a job with an id in this range is alive, in any place.
create function fencepost_private.is_inhabited(p_first bigint, p_end bigint)
returns boolean
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
  select exists (select from dead_letter z where z.id >= p_first and z.id < p_end)
      or exists (select from delayed d where d.id >= p_first and d.id < p_end)
      or exists (select from suspended s where s.id >= p_first and s.id < p_end)
      or exists (select from parked p where p.id >= p_first and p.id < p_end)
      or exists (select from lease l where l.id >= p_first and l.id < p_end)
      or exists (select from ready r where r.id >= p_first and r.id < p_end)
$$;
comment on function fencepost_private.is_inhabited(bigint, bigint) is 'Whether any job with an id from p_first to below p_end is alive (or dead-lettered).';

-- Notes the partitions of job in which nothing is alive any more: they can be dropped when the longest keep_finished
-- has passed since. Looks at one partition a call, the oldest first, and at the next when that one is still inhabited.
create function fencepost_private.drain_partitions()
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now  timestamptz := fencepost_private.now();
  v_from bigint := (select m.position from maintain_step m where m.step = 'drain_partitions');
  v_next record;
begin
  select p.name, p.first_id, p.end_id into v_next
  from partitions('job') p
  where p.end_id <= last_id('job') and not exists (select from partition_fate f where f.partition = p.name)
  order by p.first_id < v_from, p.first_id
  limit 1;
  if not found then
    return 0;
  end if;
  update maintain_step m set position = v_next.end_id where m.step = 'drain_partitions';
  if is_inhabited(v_next.first_id, v_next.end_id) then
    return 0;
  end if;
  insert into partition_fate (partition, drained_at) values (v_next.name, v_now);
  return 1;
end
$$;
comment on function fencepost_private.drain_partitions() is 'A step of maintain(): notes a partition of job in which nothing is alive any more. Returns how many.';

-- Removes finished jobs, one by one, whose keep_finished has passed: walks the bodies by id, p_limit a call, from
-- where it stopped, up to the first that is too young to have ended long enough ago. Then it rests for a hundredth of
-- the shortest keep_finished, at most an hour. Partitions that will soon be dropped whole are passed over.
-- Returns how many jobs it removed.
create function fencepost_private.retire_jobs(p_limit int default 1000)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now     timestamptz := fencepost_private.now();
  v_step    maintain_step;
  v_from    bigint;
  v_least   interval := (select min(t.keep_finished) from job_type t);
  v_most    interval := longest_keep();
  v_skipped int8multirange;
  v_last    bigint;
  v_looked  bigint;
  v_retired bigint;
begin
  select m.* into v_step from maintain_step m where m.step = 'retire_jobs';
  v_from := v_step.position;
  if v_least is null or v_from = 0 and v_step.last_at > v_now - least(interval '1 hour', v_least / 100) then
    return 0;      -- no type, hence no job; or it rests
  end if;
  select coalesce(range_agg(int8range(p.first_id, p.end_id)), '{}') into v_skipped
  from partitions('job') p
  join partition_fate f on f.partition = p.name
  where f.drained_at + v_most <= v_now + v_most / 4;
  v_from := coalesce((select upper(r) - 1 from unnest(v_skipped) as r where r @> v_from + 1), v_from);

  with old as materialized (
    select b.id, b.lane_id, b.created_at <= v_now - v_least as is_old from job b where b.id > v_from order by b.id limit p_limit
  ), ended as materialized (
    select o.id
    from old o
    join lane n on n.lane_id = o.lane_id
    join job_type t on t.type_id = n.type_id
    where o.is_old and not v_skipped @> o.id
      and exists (select from event e where e.job_id = o.id and e.kind in ('job.completed', 'job.cancelled', 'job.discarded')
                  and e.at <= v_now - t.keep_finished)
  ), retired as (
    delete from job b using ended e where b.id = e.id returning b.id
  ), keys as (
    delete from idempotency_key k using ended e where k.job_id = e.id
  ), steps as (
    delete from step s using ended e where s.job_id = e.id
  ), told as (
    delete from progress g using ended e where g.job_id = e.id
  )
  select (select max(o.id) from old o), (select count(*) from old o where o.is_old), (select count(*) from retired) into v_last, v_looked, v_retired;

  update maintain_step m
  set position = case when v_looked = p_limit then v_last else 0 end, last_at = v_now
  where m.step = 'retire_jobs';
  return v_retired;
end
$$;
comment on function fencepost_private.retire_jobs(int) is 'A step of maintain(): removes finished jobs whose keep_finished has passed, row by row. Returns how many.';
--! EndIncluded operate/retire.sql
--! Included operate/drop_partition.sql
-- Dropping partitions whose rows are all old. It needs the whole table for an instant, so it tries for 20 ms, backs
-- off when that fails (see maintain), and does nothing else in its transaction.

-- Before a partition of job goes, the idempotency keys, steps and progress of its jobs do, in batches: so a key never
-- names a job that is gone. Returns how many rows were removed.
create function fencepost_private.clear_partition(p_limit int default 20000)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_due  record;
  v_keys bigint;
  v_step bigint;
  v_told bigint;
begin
  select d.first_id, d.end_id into v_due from due_partition() as d;
  if v_due.first_id is null then
    return 0;
  end if;
  delete from idempotency_key k where k.ctid = any (array(
    select o.ctid from idempotency_key o where o.job_id >= v_due.first_id and o.job_id < v_due.end_id limit p_limit));
  get diagnostics v_keys = row_count;
  delete from step s where s.ctid = any (array(
    select o.ctid from step o where o.job_id >= v_due.first_id and o.job_id < v_due.end_id limit p_limit));
  get diagnostics v_step = row_count;
  delete from progress g where g.ctid = any (array(
    select o.ctid from progress o where o.job_id >= v_due.first_id and o.job_id < v_due.end_id limit p_limit));
  get diagnostics v_told = row_count;
  return v_keys + v_step + v_told;
end
$$;
comment on function fencepost_private.clear_partition(int) is 'A step of maintain(): removes keys, steps and progress of a partition that is about to be dropped. Returns how many rows.';

-- The oldest partition of job whose jobs all ended longer ago than any type keeps them.
create function fencepost_private.due_partition(out name text, out first_id bigint, out end_id bigint)
language sql
stable
set search_path = fencepost_private, pg_temp
as $$
  select p.name, p.first_id, p.end_id
  from partition_fate f
  join partitions('job') p on p.name = f.partition
  where f.drained_at <= fencepost_private.now() - greatest(longest_keep(), interval '1 minute')
  order by p.first_id
  limit 1
$$;
comment on function fencepost_private.due_partition() is 'The oldest partition of job that may be dropped; nulls when there is none.';

-- Drops one partition, of job or else of event. Returns how many were dropped.
-- Locks: the parent table and the partition, ACCESS EXCLUSIVE, for at most 20 ms of waiting; then it raises
-- lock_not_available. The other partitions are not touched: a vacuum of one of them does not stop it.
create function fencepost_private.drop_partition()
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set lock_timeout = '20ms'
as $$
declare
  v_due record;
begin
  select d.* into v_due from due_partition() as d;
  if v_due.name is not null and not is_kept(v_due.first_id, v_due.end_id) then
    if is_inhabited(v_due.first_id, v_due.end_id) then
      delete from partition_fate f where f.partition = v_due.name;
      return 0;
    end if;
    lock table only job in access exclusive mode;
    if is_inhabited(v_due.first_id, v_due.end_id) then     -- a new statement, after the lock
      raise exception 'a job of partition % came back to life', v_due.name;
    end if;
    execute format('drop table fencepost_private.%I', v_due.name);
    delete from partition_fate f where f.partition = v_due.name;
    return 1;
  end if;

  for v_due in select p.* from partitions('event') p where p.end_id <= last_id('event') order by p.first_id loop
    if is_spent(v_due.first_id, v_due.end_id) then
      lock table only event in access exclusive mode;
      if not is_spent(v_due.first_id, v_due.end_id) then     -- a new statement: whoever wrote to it has committed
        raise exception 'partition % was written to meanwhile', v_due.name;
      end if;
      execute format('drop table fencepost_private.%I', v_due.name);
      return 1;
    end if;
  end loop;
  return 0;
end
$$;
comment on function fencepost_private.drop_partition() is 'A step of maintain(): drops one partition of which nothing is needed any more. Returns how many.';

-- Whether something still hangs on a partition of job: clear_partition has not finished.
create function fencepost_private.is_kept(p_first bigint, p_end bigint)
returns boolean
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set jit = off
as $$
  select exists (select from idempotency_key k where k.job_id >= p_first and k.job_id < p_end)
      or exists (select from step s where s.job_id >= p_first and s.job_id < p_end)
      or exists (select from progress g where g.job_id >= p_first and g.job_id < p_end)
$$;
comment on function fencepost_private.is_kept(bigint, bigint) is 'Whether keys, steps or progress of these jobs are left.';

-- Whether a partition of event tells nothing that is still needed: all in it is older than the longest keep_finished,
-- counted in the totals and read by every consumer, and no body is left of any job it tells of. Looks at no more than 20,000 bodies; when
-- there are more in the range of its jobs, it is not spent yet.
create function fencepost_private.is_spent(p_first bigint, p_end bigint)
returns boolean
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_newest record;
  v_lowest bigint;
  v_highest bigint;
begin
  select e.xid, e.at into v_newest from event e where e.id >= p_first and e.id < p_end order by e.xid desc limit 1;
  if not found then
    return true;
  end if;
  if v_newest.at > fencepost_private.now() - longest_keep()
     or v_newest.xid >= coalesce((select b.x from outcome_base b order by b.seq desc limit 1), 0)
     or is_unread(p_first, p_end) then
    return false;
  end if;

  select e.job_id into v_lowest from event e where e.id >= p_first and e.id < p_end and e.job_id is not null order by e.job_id limit 1;
  select e.job_id into v_highest from event e where e.id >= p_first and e.id < p_end and e.job_id is not null order by e.job_id desc limit 1;
  return not exists (
      select from (select b.id from job b where b.id between v_lowest and v_highest order by b.id limit 20000) as left_over
      where exists (select from event e where e.job_id = left_over.id and e.id >= p_first and e.id < p_end))
    and not exists (select from job b where b.id between v_lowest and v_highest order by b.id offset 20000 limit 1);
end
$$;
comment on function fencepost_private.is_spent(bigint, bigint) is 'Whether no body is left of any job that this range of events tells of, and all in it is old, counted and read.';
--! EndIncluded operate/drop_partition.sql
--! Included operate/prune_workers.sql
-- Removes workers that ended more than thirty days ago, and longer ago than any type keeps its finished jobs: so the
-- name of a worker can be shown as long as the attempts it made. Returns how many.
create function fencepost_private.prune_workers()
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_pruned bigint;
begin
  delete from worker w
  where w.swept and w.status in ('lost', 'stopped')
    and w.ended_at < fencepost_private.now() - greatest(interval '30 days', longest_keep());
  get diagnostics v_pruned = row_count;
  return v_pruned;
end
$$;
comment on function fencepost_private.prune_workers() is 'A step of maintain(): removes workers that ended long ago. Returns how many.';
--! EndIncluded operate/prune_workers.sql
--! Included operate/maintain.sql
-- All housekeeping, in small bounded steps: promotes delayed jobs, takes back the work of lost workers, resumes what
-- is due, folds counters, removes what is old, keeps partitions ahead. Any worker calls it each second; a scheduler or
-- a person may. It costs next to nothing when there is nothing to do, and writes nothing then, but for a mark each
-- minute.
--
-- The steps are the rows of maintain_step. One that fails does not stop the others: its error is shown and the step
-- backs off. Those that look for work once a minute or an hour run at every pass while they find some. A step that
-- changes tables (creating or dropping a partition) is the only one of its pass, so that its locks last no longer
-- than itself.
--
-- Returns what each step did, in rows or jobs; no row at all when another maintain() is running.
-- Locks: the advisory lock (housekeeping, 1), tried; then as each step says, none for longer than a second. Call it in
-- a transaction of its own.
-- Errors: JE003 outside READ COMMITTED; JE004 after a logical restore, until after_restore() was called.
create function fencepost.maintain()
returns table (step text, done bigint, error text)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
  v_now  timestamptz := fencepost_private.now();
  v_step maintain_step;
  v_code text;
begin
  perform check_read_committed('maintain()');
  if not pg_try_advisory_xact_lock(lock_housekeeping(), 1) then
    return;
  end if;
  perform check_not_restored('maintain()');

  for v_step in select m.* from maintain_step m where m.next_at <= v_now order by m.ordinal loop
    step := v_step.step;
    error := null;
    begin
      execute 'select fencepost_private.' || v_step.call into done;
    exception
      when others then
        done := 0;
        v_code := sqlstate;
        error := format('%s: %s', sqlstate, sqlerrm);
    end;
    return next;

    if error is not null then
      update maintain_step m
      set failures = m.failures + 1, error = maintain.error,
          next_at = v_now + retry_after(v_code, m.failures, greatest(m.every, interval '1 second'))
      where m.step = v_step.step;
    elsif v_step.every > '0' or v_step.failures > 0 then
      update maintain_step m
      set failures = 0, error = null, last_at = v_now, next_at = case when done > 0 then '-infinity' else v_now + m.every end
      where m.step = v_step.step;
    end if;
    exit when v_step.alone and done > 0;
  end loop;
end
$$;
comment on function fencepost.maintain() is 'Housekeeping in bounded steps: call it about each second, from anywhere. Returns what each step did; nothing when another is running. Raises JE003, JE004.';

-- Housekeeping, and whoever moves a consumer, decide by what was committed a moment ago, after a lock. Errors: JE003.
create function fencepost_private.check_read_committed(p_what text)
returns void
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform raise_error('JE003', format('%s runs in READ COMMITTED only', p_what), format('received a transaction that is %s', upper(current_setting('transaction_isolation'))),
      'It must see what was committed a moment ago: begin the transaction with ISOLATION LEVEL READ COMMITTED.');
  end if;
end
$$;
comment on function fencepost_private.check_read_committed(text) is 'Raises JE003 outside READ COMMITTED.';
--! EndIncluded operate/maintain.sql
--! Included operate/is_restored.sql
-- Whether the rows of this database came from another one by a logical restore, and after_restore() was not called since.
-- A restore of the data alone, into a schema that was there, has brought a second row.
create function fencepost_private.is_restored()
returns boolean
language sql
stable
set search_path = fencepost_private, pg_temp
as $$
  select not coalesce(bool_and(o.xmin::text::bigint = o.written_by), false) from origin o
$$;
comment on function fencepost_private.is_restored() is 'Whether this database carries transaction numbers of another server, and after_restore() must be called.';

-- Whoever reads the log or moves its readers asks this: positions and ticks are numbers, and those of another server lead
-- past events that this one writes. Errors: JE004.
create function fencepost_private.check_not_restored(p_what text)
returns void
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  if is_restored() then
    perform raise_error('JE004', 'this database was restored from a dump', format('%s needs transaction numbers of this server; rows carry those of another', p_what),
      'Stop workers, relays and consumers, call fencepost.after_restore() once, then go on. In a copy that must not deliver, pause webhooks and drop consumers first.');
  end if;
end
$$;
comment on function fencepost_private.check_not_restored(text) is 'Raises JE004 after a logical restore, until after_restore() was called.';
--! EndIncluded operate/is_restored.sql
--! Included operate/isolated.sql
-- One job or run that cannot be moved does not stop a step of maintain(): the step does it all in one go, and looks for
-- who is at fault only when that fails.

-- Does a call for all of these items. When that raises, each half of them is tried by itself, and its halves, so that all
-- is done but for those that raise alone: they are noted in maintain_failure, and left alone until next_at. So are those
-- that wait for a lock which is not to be had; that passes, so they are tried again within ten seconds. Where so many
-- wait that it has taken three seconds, what is left comes with the next pass, without those that are noted by then.
-- Of n items, one that raises costs some 2 log n calls, once in its while.
--
-- p_call is a call of a private function that returns how much it did, with $1 for the items, $2 for the time, and
-- what else it needs as $3 and $4. The caller has locked the runs. Returns the sum.
-- Errors: those that are no item's fault: deadlocks, lack of memory or room, a server that stops.
create function fencepost_private.isolated(
  p_step text, p_call text, p_items bigint[], p_now timestamptz, p_one bigint[] default null, p_other bigint[] default null)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_done bigint;
  v_at   timestamptz;
begin
  if cardinality(p_items) = 0 then
    return 0;
  end if;
  begin
    execute 'select fencepost_private.' || p_call into v_done using p_items, p_now, p_one, p_other;
    if exists (select from maintain_failure f where f.step = p_step) then
      delete from maintain_failure f where f.step = p_step and f.item = any (p_items);
    end if;
    return v_done;
  exception
    when transaction_rollback or insufficient_resources or operator_intervention then
      raise;
    when others then
      v_at := fencepost_private.now();
      if cardinality(p_items) = 1 then
        insert into maintain_failure as f (step, item, error, failures, first_at, next_at)
        values (p_step, p_items[1], format('%s: %s', sqlstate, sqlerrm), 1, p_now, v_at + retry_after(sqlstate, 0))
        on conflict on constraint maintain_failure_pkey do update
        set error = excluded.error, failures = f.failures + 1, next_at = v_at + retry_after(sqlstate, f.failures);
        return 0;
      elsif sqlstate = '55P03' and v_at > p_now + interval '3 seconds' then
        return 0;
      end if;
  end;
  return isolated_halves(p_step, p_call, p_items, p_now, p_one, p_other);
end
$$;
comment on function fencepost_private.isolated(text, text, bigint[], timestamptz, bigint[], bigint[]) is
  'Does a call for these items, all at once if it can be, and without those that raise if not. Returns how much was done.';

-- The same for each half. All together have waited for their locks as long as maintain() allows; now there may be hundreds
-- of waits. Either half may be first, so that none is always among those for which there was no time.
create function fencepost_private.isolated_halves(p_step text, p_call text, p_items bigint[], p_now timestamptz, p_one bigint[], p_other bigint[])
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set lock_timeout = '2ms'
as $$
declare
  v_half   int := cardinality(p_items) / 2;
  v_first  bigint[] := p_items[:v_half];
  v_second bigint[] := p_items[v_half + 1:];
begin
  if random() < 0.5 then
    return isolated(p_step, p_call, v_first, p_now, p_one, p_other) + isolated(p_step, p_call, v_second, p_now, p_one, p_other);
  end if;
  return isolated(p_step, p_call, v_second, p_now, p_one, p_other) + isolated(p_step, p_call, v_first, p_now, p_one, p_other);
end
$$;
comment on function fencepost_private.isolated_halves(text, text, bigint[], timestamptz, bigint[], bigint[]) is 'isolated() for each half of these items, which wait for locks no longer.';

-- When housekeeping tries again what failed, after p_failures earlier ones: each time after twice as long, up to ten
-- minutes; up to ten seconds when it was for a lock.
create function fencepost_private.retry_after(p_sqlstate text, p_failures int, p_first interval default '1 second')
returns interval
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select least(p_first * power(2, least(p_failures, 20)), case p_sqlstate when '55P03' then interval '10 seconds' else interval '10 minutes' end)
$$;
comment on function fencepost_private.retry_after(text, int, interval) is 'How long housekeeping waits before it tries again what failed.';

-- The items that a step leaves alone for now, since they raised.
create function fencepost_private.left_alone(p_step text, p_now timestamptz)
returns bigint[]
language sql
stable
set search_path = fencepost_private, pg_temp
as $$
  select array(select f.item from maintain_failure f where f.step = p_step and f.next_at > p_now)
$$;
comment on function fencepost_private.left_alone(text, timestamptz) is 'The items that a step of maintain() leaves alone for now, since they raised.';

-- Forgets what was not tried again for an hour: it is no longer due. Returns how many.
create function fencepost_private.prune_failures()
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_pruned bigint;
begin
  delete from maintain_failure f where f.next_at < fencepost_private.now() - interval '1 hour';
  get diagnostics v_pruned = row_count;
  return v_pruned;
end
$$;
comment on function fencepost_private.prune_failures() is 'A step of maintain(): forgets failures of what is no longer due. Returns how many.';
--! EndIncluded operate/isolated.sql
--! Included operate/type_settings.sql
-- What declare_type and configure_type share. A setting has the operator's value if he set one (job_type.overridden),
-- else the one that code declared (type_declaration), else the default of its column.

-- The settings, and what each expects: the words of the errors.
create function fencepost_private.type_settings()
returns table (name text, expects text)
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  values ('max_running',       'a whole number of jobs up to 2147483647; 0 for no limit'),
         ('max_attempts',      'a whole number from 1 to 1000000'),
         ('timeout',           'an interval such as "30 seconds", at most 100 years; 0 for no limit'),
         ('backoff_base',      'an interval such as "2 seconds", at most 100 years'),
         ('backoff_factor',    'a number from 1 to 100'),
         ('backoff_cap',       'an interval such as "1 hour", at most 100 years'),
         ('backoff_jitter',    'a number from 0 to 1: the share of the wait that is drawn at random'),
         ('max_pending',       'a whole number of jobs up to 2147483647; 0 for no limit'),
         ('max_payload_bytes', 'a whole number of bytes from 2 to 268435456'),
         ('payload_check',     'an SQL/JSON path predicate such as $.to like_regex "@"; an empty text for none'),
         ('accept',            'true or false'),
         ('publish_enqueued',  'true or false'),
         ('publish_started',   'true or false'),
         ('dead_letter_alert', 'a whole number of jobs from 1 to 2147483647'),
         ('keep_finished',     'an interval such as "7 days", at most 100 years')
$$;
comment on function fencepost_private.type_settings() is 'The names of the settings of a type, and what each expects.';

create function fencepost_private.raise_unknown_setting(p_name text)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_names text[] := array(select s.name from type_settings() s);
begin
  perform raise_error('JE003', format('there is no setting %s', coalesce(quote_literal(p_name), 'null')), format('received %s', coalesce(quote_literal(p_name), 'null')),
    coalesce(did_you_mean(p_name, v_names), '') || 'The settings are ' || array_to_string(v_names, ', ') || '.');
end
$$;
comment on function fencepost_private.raise_unknown_setting(text) is 'Raises JE003 for a name that is no setting of a type.';

-- Settings as they will be stored: of the right kind, and null for "no limit". JSON nulls are left out.
-- Errors: JE003, naming the setting.
create function fencepost_private.checked_settings(p_settings jsonb)
returns jsonb
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_given   record;
  v_type    job_type;
  v_checked jsonb := '{}'::jsonb;
  v_bad     boolean;
begin
  if jsonb_typeof(p_settings) is distinct from 'object' then
    perform raise_error('JE003', 'settings must be a JSON object', format('received %s', coalesce(left(p_settings::text, 200), 'null')), 'For example {"max_attempts": 3}.');
  end if;
  for v_given in
    select g.key, g.value, s.expects, s.name from jsonb_each(p_settings) g left join type_settings() s on s.name = g.key
  loop
    if v_given.name is null then
      perform raise_unknown_setting(v_given.key);
    end if;
    continue when v_given.value = 'null';
    begin
      v_type := jsonb_populate_record(null::job_type, jsonb_build_object(v_given.key, nullif(v_given.value, '""')));
      v_bad := case v_given.key
        when 'timeout'       then v_type.timeout not between '0' and '100 years'
        when 'backoff_base'  then v_type.backoff_base not between '0' and '100 years'
        when 'backoff_cap'   then v_type.backoff_cap not between '0' and '100 years'
        when 'keep_finished' then v_type.keep_finished not between '0' and '100 years'
        else false
      end or v_given.value = '""' and v_given.key <> 'payload_check';
    exception
      when data_exception or syntax_error then
        v_bad := true;
    end;
    if v_bad then
      perform raise_error('JE003', format('%s must be %s', v_given.key, v_given.expects),
        format('received %s = %s', v_given.key, clipped(v_given.value #>> '{}', 400)), 'Nothing was changed. Leave a setting out if it need not be set.');
    end if;
    v_type.max_running := nullif(v_type.max_running, 0);
    v_type.max_pending := nullif(v_type.max_pending, 0);
    v_type.timeout := nullif(v_type.timeout, '0');
    v_checked := v_checked || jsonb_build_object(v_given.key, to_jsonb(v_type) -> v_given.key);
  end loop;
  return v_checked;
end
$$;
comment on function fencepost_private.checked_settings(jsonb) is 'Settings of the right kind, null for no limit. Raises JE003 naming the setting.';

-- The settings of a type that has neither declaration nor operator, from the defaults of its columns.
create function fencepost_private.default_settings()
returns jsonb
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_column   record;
  v_value    jsonb;
  v_defaults jsonb := '{}'::jsonb;
begin
  for v_column in
    select a.attname as name, pg_get_expr(d.adbin, d.adrelid) as expression
    from type_settings() s
    join pg_attribute a on a.attrelid = 'fencepost_private.job_type'::regclass and a.attname = s.name
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  loop
    execute 'select to_jsonb(' || coalesce(v_column.expression, 'null::text') || ')' into v_value;
    v_defaults := v_defaults || jsonb_build_object(v_column.name, v_value);
  end loop;
  return v_defaults;
end
$$;
comment on function fencepost_private.default_settings() is 'The default of every setting of a type.';

-- The type of this name, made if need be, locked against other changes of its settings. Errors: JE003 (name).
create function fencepost_private.lock_type_row(p_type text)
returns fencepost_private.job_type
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_type job_type;
begin
  select t.* into v_type from job_type t where t.type = p_type for no key update;
  if not found then
    perform check_lane(p_type, 5);
    insert into job_type (type) values (p_type) on conflict do nothing;
    select t.* into v_type from job_type t where t.type = p_type for no key update;
  end if;
  return v_type;
end
$$;
comment on function fencepost_private.lock_type_row(text) is 'Locks the row of a type, and makes it first if there is none. Raises JE003.';

-- Writes settings of a type (p_settings) and which are an operator's (p_overridden), if that changes anything: then
-- with an event, and a call to those who wait for it. Returns whether it did. Errors: JE003, naming the setting.
create function fencepost_private.write_settings(p_type fencepost_private.job_type, p_settings jsonb, p_overridden text[], p_source text)
returns boolean
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now     timestamptz := fencepost_private.now();
  v_new     job_type := jsonb_populate_record(p_type, p_settings);
  v_changed text[];
  v_name    text;
begin
  v_new.overridden := array(select distinct o from unnest(p_overridden) as o order by o);
  v_changed := array(
    select o.key from jsonb_each(to_jsonb(p_type)) as o join jsonb_each(to_jsonb(v_new)) as n on n.key = o.key
    where n.value is distinct from o.value);
  if v_changed = '{}' then
    return false;
  end if;
  begin
    update job_type t
    set max_running = v_new.max_running, max_attempts = v_new.max_attempts, timeout = v_new.timeout,
        backoff_base = v_new.backoff_base, backoff_factor = v_new.backoff_factor, backoff_cap = v_new.backoff_cap, backoff_jitter = v_new.backoff_jitter,
        max_pending = v_new.max_pending, max_payload_bytes = v_new.max_payload_bytes, payload_check = v_new.payload_check,
        accept = v_new.accept, publish_enqueued = v_new.publish_enqueued, publish_started = v_new.publish_started,
        dead_letter_alert = v_new.dead_letter_alert, keep_finished = v_new.keep_finished,
        overridden = v_new.overridden, updated_at = v_now
    where t.type_id = p_type.type_id;
  exception
    when check_violation then
      get stacked diagnostics v_name = constraint_name;
      select a.attname into v_name
      from pg_constraint c join pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
      where c.conrelid = 'fencepost_private.job_type'::regclass and c.conname = v_name;
      perform raise_error('JE003', format('%s must be %s', v_name, (select s.expects from type_settings() s where s.name = v_name)),
        format('received %s = %s', v_name, to_jsonb(v_new) ->> v_name), 'Nothing was changed. Leave a setting out if it need not be set.');
  end;

  insert into event (xid, at, tenant, kind, actor, data)
  select xid(), v_now, current_tenant(), 'operator.type_configured', actor(),
         jsonb_build_object('type', p_type.type, 'source', p_source,
           'before', jsonb_object_agg(c.name, to_jsonb(p_type) -> c.name), 'after', jsonb_object_agg(c.name, to_jsonb(v_new) -> c.name))
  from unnest(v_changed) as c(name);
  if 'max_running' = any (v_changed) then
    perform wake(array[p_type.type_id]);
  end if;
  return true;
end
$$;
comment on function fencepost_private.write_settings(fencepost_private.job_type, jsonb, text[], text)
  is 'Writes settings of a type if that changes anything, with an event. Raises JE003 naming the setting.';
--! EndIncluded operate/type_settings.sql
--! Included operate/configure_type.sql
-- An operator changes settings of a type. What he sets stays, whatever code declares, until he gives it back with
-- `reset`: the setting then has the value that code last declared, or the default.
--
-- null leaves a setting as it is. "No limit" is 0: max_running => 0, max_pending => 0, timeout => '0'. An empty
-- payload_check is none. A type that does not exist yet is created. Jobs already running keep the limits of their claim.
--
-- Locks: the row of the type. Errors: JE003, naming the setting.
create function fencepost.configure_type(
  type text,
  max_running int default null, max_attempts int default null, timeout interval default null,
  backoff_base interval default null, backoff_factor double precision default null, backoff_cap interval default null, backoff_jitter double precision default null,
  max_pending int default null, max_payload_bytes int default null, payload_check text default null,
  accept boolean default null, publish_enqueued boolean default null, publish_started boolean default null,
  dead_letter_alert int default null, keep_finished interval default null, reset text[] default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_given    jsonb;
  v_returned jsonb;
  v_type     job_type;
  v_name     text;
begin
  v_given := checked_settings(jsonb_strip_nulls(jsonb_build_object(
    'max_running', configure_type.max_running, 'max_attempts', configure_type.max_attempts, 'timeout', configure_type.timeout,
    'backoff_base', configure_type.backoff_base, 'backoff_factor', configure_type.backoff_factor,
    'backoff_cap', configure_type.backoff_cap, 'backoff_jitter', configure_type.backoff_jitter,
    'max_pending', configure_type.max_pending, 'max_payload_bytes', configure_type.max_payload_bytes, 'payload_check', configure_type.payload_check,
    'accept', configure_type.accept, 'publish_enqueued', configure_type.publish_enqueued, 'publish_started', configure_type.publish_started,
    'dead_letter_alert', configure_type.dead_letter_alert, 'keep_finished', configure_type.keep_finished)));
  foreach v_name in array coalesce(configure_type.reset, '{}') loop
    if v_name is null or not exists (select from type_settings() s where s.name = v_name) then
      perform raise_unknown_setting(v_name);
    elsif v_given ? v_name then
      perform raise_error('JE003', format('%s is set and reset at once', v_name), format('received %s = %s', v_name, v_given ->> v_name), 'Do one or the other.');
    end if;
  end loop;

  v_type := lock_type_row(configure_type.type);
  select coalesce(jsonb_object_agg(d.key, d.value), '{}') into v_returned
  from jsonb_each(default_settings() || coalesce((select c.settings from type_declaration c where c.type_id = v_type.type_id), '{}')) as d
  where d.key = any (configure_type.reset);
  perform write_settings(v_type, v_returned || v_given,
    array(select o from unnest(v_type.overridden) as o where o <> all (coalesce(configure_type.reset, '{}'))) || array(select jsonb_object_keys(v_given)),
    'operator');
end
$$;
comment on function fencepost.configure_type(text, int, int, interval, interval, double precision, interval, double precision, int, int, text, boolean, boolean, boolean, int, interval, text[])
  is 'Sets settings of a type over what code declares; null leaves one as it is, 0 is no limit, reset gives settings back to code. Raises JE003.';
--! EndIncluded operate/configure_type.sql
--! Included operate/declare_type.sql
-- Code declares a type and all its settings, by the names of configure_type: a worker does when it starts. What is
-- left out has its default; what an operator has set stays his. Declaring the same again changes and locks nothing.
-- The type and its line of default priority then exist, so that no enqueue has to make them in a long transaction, for which
-- all others of that type and priority would wait. Another priority is made by the first job that has it.
-- Returns whether a setting changed. Locks: the row of the type, when the declaration is new.
-- Errors: JE003, naming the setting.
create function fencepost.declare_type(type text, settings jsonb default '{}')
returns boolean
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_declared jsonb;
  v_type     job_type;
begin
  v_declared := checked_settings(coalesce(declare_type.settings, '{}'));
  if exists (select from job_type t join type_declaration d on d.type_id = t.type_id
             where t.type = declare_type.type and d.settings = v_declared) then
    return false;
  end if;

  v_type := lock_type_row(declare_type.type);
  perform ensure_lane(declare_type.type, 5);
  insert into type_declaration as d (type_id, settings, declared_at, declared_by)
  values (v_type.type_id, v_declared, fencepost_private.now(), actor())
  on conflict (type_id) do update set settings = excluded.settings, declared_at = excluded.declared_at, declared_by = excluded.declared_by;
  return write_settings(v_type, (default_settings() || v_declared) - v_type.overridden, v_type.overridden, 'code');
end
$$;
comment on function fencepost.declare_type(text, jsonb) is 'Declares a type and its settings from code; what an operator has set stays. Returns whether a setting changed. Raises JE003.';
--! EndIncluded operate/declare_type.sql
--! Included operate/pause_type.sql
-- Stops claims of a type, until resume_type: jobs that run go on, enqueues too (see configure_type, accept).
-- Pausing a paused type changes nothing. A type that does not exist yet is created, paused.
-- Locks: the row of the type. Errors: JE003 (name).
create function fencepost.pause_type(type text, reason text default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform set_paused(pause_type.type, true, pause_type.reason);
end
$$;
comment on function fencepost.pause_type(text, text) is 'Stops claims of a type; running jobs and enqueues go on. Raises JE003.';

-- Writes the flag if that changes it, with an event.
create function fencepost_private.set_paused(p_type text, p_paused boolean, p_reason text)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now  timestamptz := fencepost_private.now();
  v_type job_type := lock_type_row(p_type);
begin
  if v_type.paused = p_paused then
    return;
  end if;
  update job_type t set paused = p_paused, updated_at = v_now where t.type_id = v_type.type_id;
  insert into event (xid, at, tenant, kind, actor, data)
  values (xid(), v_now, current_tenant(), (case when p_paused then 'operator.type_paused' else 'operator.type_resumed' end)::event_kind, actor(),
          jsonb_strip_nulls(jsonb_build_object('type', p_type, 'reason', p_reason)));
  if p_paused then
    insert into type_pause (type_id, paused_at, paused_by, reason) values (v_type.type_id, v_now, actor(), p_reason);
  else
    delete from type_pause p where p.type_id = v_type.type_id;
    perform wake(array[v_type.type_id]);
  end if;
end
$$;
comment on function fencepost_private.set_paused(text, boolean, text) is 'Pauses or resumes a type, with an event; wakes workers when it resumes.';
--! EndIncluded operate/pause_type.sql
--! Included operate/resume_type.sql
-- Lets a paused type be claimed again, and wakes workers for it. Resuming a type that is not paused changes nothing.
-- Locks: the row of the type. Errors: JE002 when there is no such type.
create function fencepost.resume_type(type text, reason text default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform check_type_exists(resume_type.type);
  perform set_paused(resume_type.type, false, resume_type.reason);
end
$$;
comment on function fencepost.resume_type(text, text) is 'Lets a paused type be claimed again. Raises JE002.';

-- Errors: JE002, with the name that is nearest.
create function fencepost_private.check_type_exists(p_type text)
returns void
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  if not exists (select from job_type t where t.type = p_type) then
    perform raise_error('JE002', format('type %s does not exist', coalesce(quote_literal(p_type), 'null')), format('received type = %s', coalesce(quote_literal(p_type), 'null')),
      coalesce(did_you_mean(p_type, array(select t.type from job_type t limit 1000)), '') || 'A type exists once something was enqueued under it or it was declared.');
  end if;
end
$$;
comment on function fencepost_private.check_type_exists(text) is 'Raises JE002 for a type that does not exist.';
--! EndIncluded operate/resume_type.sql
--! Included operate/drain_worker.sql
-- Asks a worker to finish what it runs and take nothing new: it hears of it with its next heartbeat or exchange, and
-- by a notification if it listens. Asking twice changes nothing.
-- Locks: the row of the worker. Errors: JE002 (no such worker); JE004 when it was lost or has stopped.
create function fencepost.drain_worker(worker_id int)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_worker worker;
begin
  select w.* into v_worker from worker w where w.worker_id = drain_worker.worker_id for no key update;
  if not found then
    perform raise_error('JE002', format('worker %s does not exist', coalesce(drain_worker.worker_id::text, 'null')),
      format('received worker_id = %s', coalesce(drain_worker.worker_id::text, 'null')), 'See fencepost.workers.');
  elsif v_worker.status in ('lost', 'stopped') then
    perform raise_error('JE004', format('worker %s is %s and cannot be drained', v_worker.worker_id, v_worker.status),
      format('received worker_id = %s', v_worker.worker_id), 'Only active workers can.');
  elsif v_worker.status = 'draining' then
    return;
  end if;

  update worker w set status = 'draining' where w.worker_id = v_worker.worker_id;
  insert into event (xid, at, tenant, kind, worker_id, actor, data)
  values (xid(), fencepost_private.now(), v_worker.tenant, 'worker.draining', v_worker.worker_id, actor(), jsonb_build_object('worker', v_worker.name));
  if current_setting('fencepost.wake', true) is distinct from 'off' then
    perform pg_notify('fencepost', format('{"worker":%s,"drain":true}', v_worker.worker_id));
  end if;
end
$$;
comment on function fencepost.drain_worker(int) is 'Asks a worker to finish what it runs and take nothing new. Raises JE002, JE004.';
--! EndIncluded operate/drain_worker.sql
--! Included operate/stats.sql
-- How each type stands now: depths (exact), the age of its oldest ready job, totals since the beginning, rates over
-- the last one to two minutes, and who works on it. From counters and from the heads of lanes; nothing is counted.
-- Totals of outcomes and rates are as fresh as the last maintain().
-- Errors: JE002 for a type that does not exist.
create type fencepost.type_stats as (
  type text, ready bigint, delayed bigint, parked bigint, pending bigint, running bigint, waiting bigint, dead_letter bigint,
  oldest_ready_seconds double precision,
  enqueued_total bigint, completed_total bigint, failed_attempts_total bigint, retried_total bigint, dead_lettered_total bigint,
  cancelled_total bigint, discarded_total bigint, replayed_total bigint, lease_expired_total bigint,
  enqueued_per_second double precision, completed_per_second double precision, failed_per_second double precision,
  workers bigint, draining_workers bigint, paused boolean, accept boolean, max_running int, max_pending int, dead_letter_alert int);
comment on type fencepost.type_stats is 'A row of fencepost.stats(): pending is ready, delayed and parked together.';

create function fencepost.stats(type text default null)
returns setof fencepost.type_stats
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now     timestamptz := fencepost_private.now();
  v_since   timestamptz := date_trunc('minute', v_now) - interval '1 minute';
  v_seconds double precision := extract(epoch from v_now - v_since);
  v_type_id int;
begin
  if stats.type is not null then
    perform check_type_exists(stats.type);
    select t.type_id into v_type_id from job_type t where t.type = stats.type;
  end if;

  return query
  with totals as materialized (
    select o.type_id,
           sum(o.events) filter (where o.kind = 'job.completed') as completed,
           sum(o.events) filter (where o.outcome in ('failed', 'timed_out', 'lease_expired')) as failed,
           sum(o.events) filter (where o.kind = 'job.retry_scheduled') as retried,
           sum(o.events) filter (where o.kind = 'job.dead_lettered') as dead_lettered,
           sum(o.events) filter (where o.kind = 'job.cancelled') as cancelled,
           sum(o.events) filter (where o.kind = 'job.discarded') as discarded,
           sum(o.events) filter (where o.kind = 'job.replayed') as replayed,
           sum(o.events) filter (where o.outcome = 'lease_expired') as lease_expired
    from outcome_total o
    where v_type_id is null or o.type_id = v_type_id
    group by o.type_id
  ), serving as materialized (
    select s.type, count(*) filter (where w.status = 'active') as active, count(*) filter (where w.status = 'draining') as draining
    from worker w cross join unnest(w.types) as s(type)
    where w.status in ('active', 'draining') and w.heartbeat_at > v_now - w.ttl
    group by s.type
  )
  select t.type, d.ready, d.delayed, d.parked, d.ready + d.delayed + d.parked, d.running, d.waiting, d.dead_letter,
         case when d.ready > 0 then extract(epoch from v_now - oldest_ready(t.type_id))::double precision end,
         d.enqueued, coalesce(o.completed, 0)::bigint, coalesce(o.failed, 0)::bigint, coalesce(o.retried, 0)::bigint, coalesce(o.dead_lettered, 0)::bigint,
         coalesce(o.cancelled, 0)::bigint, coalesce(o.discarded, 0)::bigint, coalesce(o.replayed, 0)::bigint, coalesce(o.lease_expired, 0)::bigint,
         m.enqueued / v_seconds, m.completed / v_seconds, m.failed / v_seconds,
         coalesce(s.active, 0), coalesce(s.draining, 0), t.paused, t.accept, t.max_running, t.max_pending, t.dead_letter_alert
  from depth(v_type_id) d
  join job_type t on t.type_id = d.type_id
  left join totals o on o.type_id = t.type_id
  left join serving s on s.type = t.type
  cross join lateral (
    select coalesce(sum(i.enqueued), 0)::double precision as enqueued, coalesce(sum(i.completed), 0)::double precision as completed,
           coalesce(sum(i.failed), 0)::double precision as failed
    from type_minute i where i.type_id = t.type_id and i.minute >= v_since
  ) as m
  order by t.type;
end
$$;
comment on function fencepost.stats(text) is 'Depths, oldest ready age, totals, rates and workers of each type, from counters. Raises JE002.';

-- Since when the oldest ready job of a type could have been claimed: the heads of its lanes, as a claim finds them.
create function fencepost_private.oldest_ready(p_type_id int)
returns timestamptz
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  select min(head.ready_at)
  from lane l
  left join lateral (
    select h.* from (select i.* from lane_hint i where i.lane_id = l.lane_id order by i.seq desc limit 1) as h
    where h.boot = pg_postmaster_start_time()
  ) as hint on true
  cross join lateral (
    (select r.ready_at from ready r
     where r.lane_id = l.lane_id and (r.xid, r.id) >= (coalesce(hint.wx, 0), coalesce(hint.wi, 0))
     order by r.xid, r.id limit 1)
    union all
    (select q.ready_at
     from unnest(hint.late_x, hint.late_i) as e(x, first_id)
     cross join lateral (select r.ready_at from ready r where r.lane_id = l.lane_id and r.xid = e.x and r.id >= e.first_id order by r.id limit 1) as q)
    union all
    (select r.ready_at from ready r where r.id = any (hint.held) and r.lane_id + 0 = l.lane_id)
  ) as head
  where l.type_id = p_type_id
$$;
comment on function fencepost_private.oldest_ready(int) is 'Since when the first ready job of a type waits; null when none does.';
--! EndIncluded operate/stats.sql
--! Included operate/outcome_totals.sql
-- Events of each type, kind and outcome since the beginning, with histograms of how long the attempts had waited
-- and ran: what metrics are made of. As fresh as the last maintain().
--   bounds                     upper bounds of the buckets, in seconds
--   wait_counts, run_counts    attempts in each bucket, and last those above all bounds; not cumulative
-- Rows without an outcome end no attempt: they have no times.
create type fencepost.outcome_stats as (
  type text, kind text, outcome text, events bigint, bounds double precision[],
  wait_seconds double precision, wait_counts bigint[], run_seconds double precision, run_counts bigint[]);
comment on type fencepost.outcome_stats is 'A row of fencepost.outcome_totals().';

create function fencepost.outcome_totals(type text default null)
returns setof fencepost.outcome_stats
language sql
stable
security definer
set search_path = fencepost_private, pg_temp
as $$
  select t.type, o.kind::text, o.outcome::text, o.events, duration_bounds(), o.wait_seconds, o.wait_counts, o.run_seconds, o.run_counts
  from outcome_total o
  join job_type t on t.type_id = o.type_id
  where outcome_totals.type is null or t.type = outcome_totals.type
  order by t.type, o.kind, o.outcome
$$;
comment on function fencepost.outcome_totals(text) is 'Events by type, kind and outcome since the beginning, with histograms of wait and run times.';
--! EndIncluded operate/outcome_totals.sql
--! Included operate/job_filter.sql
-- Filters of jobs, as list_jobs, replay_matching and discard_matching take them.
create type fencepost_private.job_filter as (
  type            text,
  status          text,
  tenant          text,
  priority        int,
  created_after   timestamptz,
  created_before  timestamptz,
  failed_after    timestamptz,
  failed_before   timestamptz,
  attempts        int,
  error           text,
  error_matches   text,
  idempotency_key text,
  worker          text
);
comment on type fencepost_private.job_filter is 'A filter of jobs; nulls do not filter.';

-- Reads a filter into a row of its kind: p_known names the keys that make sense here, each a single value.
-- Errors: JE003, naming the key.
create function fencepost_private.read_filter(p_empty anyelement, p_filter jsonb, p_known text[], p_kinds text)
returns anyelement
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_key text;
begin
  if p_filter is null then
    return p_empty;
  end if;
  if jsonb_typeof(p_filter) <> 'object' then
    perform raise_error('JE003', 'the filter must be a JSON object', format('received %s', left(p_filter::text, 200)), format('For example {"%s": …}.', p_known[1]));
  end if;
  for v_key in select jsonb_object_keys(p_filter) loop
    if not v_key = any (p_known) then
      perform raise_error('JE003', format('the filter has the unknown key %s', quote_literal(v_key)), format('received %s', quote_literal(v_key)),
        coalesce(did_you_mean(v_key, p_known), '') || 'Known keys: ' || array_to_string(p_known, ', ') || '.');
    end if;
    if jsonb_typeof(p_filter -> v_key) in ('object', 'array') then
      perform raise_error('JE003', format('%s of the filter must be a single value', v_key), format('received %s', left((p_filter -> v_key)::text, 200)), 'Ask once for each value.');
    end if;
    begin
      p_empty := jsonb_populate_record(p_empty, jsonb_build_object(v_key, p_filter -> v_key));
    exception
      when data_exception then
        perform raise_error('JE003', format('%s of the filter has the wrong kind', v_key), format('received %s = %s', v_key, left(p_filter ->> v_key, 200)), p_kinds);
    end;
  end loop;
  return p_empty;
end
$$;
comment on function fencepost_private.read_filter(anyelement, jsonb, text[], text) is 'A filter from JSON, as a row of the type of p_empty. Raises JE003 for unknown keys and values of the wrong kind.';

create function fencepost_private.check_status(p_status text, p_known text[], p_what text)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if not p_status = any (p_known) then
    perform raise_error('JE003', format('there is no status %s', quote_literal(p_status)), format('received status = %s', quote_literal(p_status)),
      coalesce(did_you_mean(p_status, p_known), '') || p_what || ' is ' || array_to_string(p_known, ', ') || '.');
  end if;
end
$$;
comment on function fencepost_private.check_status(text, text[], text) is 'Raises JE003 for a status that is not one of those known.';

create function fencepost_private.check_max(p_max int)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_max is null or p_max not between 1 and 1000 then
    perform raise_error('JE003', 'max must be from 1 to 1000', format('received max = %s', coalesce(p_max::text, 'null')), 'Ask for the next page with after.');
  end if;
end
$$;
comment on function fencepost_private.check_max(int) is 'Raises JE003 for a length of a list that is out of range.';

-- A filter of jobs, of which p_known names the keys that make sense here.
-- Errors: JE003, naming the key.
create function fencepost_private.parsed_filter(p_filter jsonb, p_known text[])
returns fencepost_private.job_filter
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_filter job_filter;
begin
  v_filter := read_filter(v_filter, p_filter, p_known, 'priority and attempts are whole numbers; created_after and the like are times such as 2030-01-31T12:00:00Z.');
  perform check_status(v_filter.status, array['pending', 'running', 'waiting', 'completed', 'dead_letter', 'cancelled', 'discarded'], 'A job');
  if v_filter.error_matches is not null then
    begin
      perform '' ~ v_filter.error_matches;
    exception
      when invalid_regular_expression then
        perform raise_error('JE003', 'error_matches of the filter is not a regular expression', format('received %s', left(v_filter.error_matches, 200)), sqlerrm);
    end;
  end if;
  return v_filter;
end
$$;
comment on function fencepost_private.parsed_filter(jsonb, text[]) is 'A filter of jobs from JSON. Raises JE003 for unknown keys and values of the wrong kind.';
--! EndIncluded operate/job_filter.sql
--! Included operate/bounded_look.sql
-- What lists share: a look at the newest rows of a source below an id, bounded however few of them fit.
--   p_source  SQL of the ids to look at, as a column `id` (others may be used by p_fitting)
--   p_fitting SQL that joins and filters the looked-at rows `c`
--   p_filter  the filter, a record: $3 in both
-- Looks at no more than 10,000 rows. Returns up to p_max ids that fit, newest first; and, when the bound cut the look
-- short, how far it went.
create function fencepost_private.bounded_look(
  p_source text, p_fitting text, p_filter anyelement, p_below bigint, p_max int, out ids bigint[], out cut_at bigint)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set jit = off
as $$
declare
  v_budget constant int := 10000;
  v_below  bigint := coalesce(p_below, 9223372036854775807);
begin
  execute format($query$
    select array(
      select c.id
      from (select s.* from (%s) as s where s.id < $1 order by s.id desc limit $2) as c
      %s
      order by c.id desc
      limit $4)
    $query$, p_source, p_fitting) into ids using v_below, v_budget, p_filter, p_max;
  if cardinality(ids) < p_max then
    execute format('select s.id from (%s) as s where s.id < $1 order by s.id desc offset $2 limit 1', p_source)
      into cut_at using v_below, v_budget - 1, p_filter;
  end if;
end
$$;
comment on function fencepost_private.bounded_look(text, text, anyelement, bigint, int)
  is 'Ids of a source that fit, newest first, of the newest 10,000 below an id; and how far the look went when that cut it short.';
--! EndIncluded operate/bounded_look.sql
--! Included operate/list_jobs.sql
-- Lists jobs, newest first, at most `max` (1 to 1000), with ids below `after` (the id of the last row before).
--
-- The filter is a JSON object; each key narrows:
--   type, status, tenant, priority, created_after, created_before
--   error            text that the final error contains, in any case; dead letters only
--   worker           name of the worker that runs them
--   idempotency_key  of the given tenant, else the session's
--
-- It never looks at more than 10,000 jobs. When that was not enough to fill the list, the last row says so: its `cut`
-- is true, its id is how far the look went, everything else in it is null; go on with after => that id.
-- Errors: JE003.
create function fencepost.list_jobs(filter jsonb default '{}', after bigint default null, max int default 50)
returns table (id bigint, type text, status text, attempts int, max_attempts int, priority int, payload jsonb, result jsonb, last_error text,
               available_at timestamptz, leased_until timestamptz, worker text, idempotency_key text, tenant text,
               created_at timestamptz, updated_at timestamptz, started_at timestamptz, finished_at timestamptz, progress jsonb, cut boolean)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  v_filter job_filter;
  v_look   record;
begin
  v_filter := parsed_filter(list_jobs.filter, array['type', 'status', 'tenant', 'priority', 'created_after', 'created_before', 'error', 'worker', 'idempotency_key']);
  perform check_max(list_jobs.max);
  v_filter.status := coalesce(v_filter.status, case when v_filter.error is not null then 'dead_letter' when v_filter.worker is not null then 'running' end);
  if v_filter.error is not null and v_filter.status <> 'dead_letter' or v_filter.worker is not null and v_filter.status <> 'running' then
    perform raise_error('JE003', 'that filter does not go with this status', format('received %s', list_jobs.filter),
      'error finds dead letters, worker finds running jobs.');
  end if;

  v_look := bounded_look(job_source(v_filter), format($query$
      cross join lateral (%s) as p
      join lane n on n.lane_id = p.lane_id
      join job_type t on t.type_id = n.type_id
      join job b on b.id = c.id
      where ($3.type is null or t.type = $3.type)
        and ($3.priority is null or n.priority = $3.priority)
        and ($3.tenant is null or b.tenant = $3.tenant)
        and ($3.created_after is null or b.created_at >= $3.created_after)
        and ($3.created_before is null or b.created_at < $3.created_before)
        and ($3.error is null or exists (
              select from dead_letter z where z.id = c.id and position(lower($3.error) in lower(shown(to_jsonb(z.final_error)) #>> '{}')) > 0))
        and ($3.worker is null or exists (
              select from lease l join worker w on w.worker_id = l.worker_id where l.id = c.id and w.name = $3.worker))
    $query$,
    case when v_filter.idempotency_key is null and v_filter.status in ('pending', 'running', 'waiting', 'dead_letter') then 'select c.lane_id'
         when v_filter.status is null then 'select i.lane_id from job_place i where i.id = c.id limit 1'
         else format('select i.lane_id from job_place i where i.id = c.id and i.status = %L limit 1', v_filter.status) end),
    v_filter, list_jobs.after, list_jobs.max);

  return query
  select j.id, j.type, j.status, j.attempts, j.max_attempts, j.priority, j.payload, j.result, j.last_error, j.available_at, j.leased_until,
         j.worker, j.idempotency_key, j.tenant, j.created_at, j.updated_at, j.started_at, j.finished_at, j.progress, false
  from fencepost.jobs j
  where j.id = any (v_look.ids)
  order by j.id desc;

  if v_look.cut_at is not null then
    id := v_look.cut_at;
    cut := true;
    return next;
  end if;
end
$$;
comment on function fencepost.list_jobs(jsonb, bigint, int)
  is 'Lists jobs that match a filter, newest first, from below the id `after`; looks at no more than 10,000 and says with a last row when that cut it short. Raises JE003.';

-- The smallest place that holds all jobs a filter can find, as a query of (id, lane_id).
create function fencepost_private.job_source(p_filter fencepost_private.job_filter)
returns text
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select case
    when p_filter.idempotency_key is not null then
      'select k.job_id as id, null::int as lane_id from job_type t join idempotency_key k on k.type_id = t.type_id'
      ' and k.tenant = coalesce($3.tenant, current_tenant()) and k.key = $3.idempotency_key'
    when p_filter.status = 'pending' then
      'select r.id, r.lane_id from ready r union all select d.id, d.lane_id from delayed d union all select p.id, p.lane_id from parked p'
    when p_filter.status = 'running' then 'select l.id, l.lane_id from lease l'
    when p_filter.status = 'waiting' then 'select s.id, s.lane_id from suspended s'
    when p_filter.status = 'dead_letter' then 'select z.id, z.lane_id from dead_letter z'
    else 'select b.id, b.lane_id from job b'
  end
$$;
comment on function fencepost_private.job_source(fencepost_private.job_filter) is 'SQL of the smallest place that holds all jobs a filter can find.';
--! EndIncluded operate/list_jobs.sql
--! Included operate/replay_matching.sql
-- Returns dead letters to work that match a filter, oldest first, at most `max` a call; or, as long as dry_run is not
-- false, only counts them. Call it again until it returns 0 when there are more. Dead letters of runs that were cancelled
-- or undone, and so cannot live again, are left out.
--
-- The filter is a JSON object; {} matches all dead letters, each key narrows:
--   type, tenant, priority, attempts, failed_after, failed_before
--   error          text that the final error contains, in any case
--   error_matches  a regular expression that it matches
-- Locks: the root runs, then the dead letters, in id order. Errors: JE003.
create function fencepost.replay_matching(filter jsonb, dry_run boolean default true, max int default 10000)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_ids   bigint[] := '{}'::bigint[];
  v_batch bigint[];
  -- a small max does not mean small steps over all that is left out
  v_walk  int := greatest(replay_matching.max, 1000);
begin
  perform check_matching(replay_matching.filter, replay_matching.max);
  loop
    v_batch := matching_dead_letters(replay_matching.filter, v_walk, coalesce(v_batch[cardinality(v_batch)], 0));
    v_ids := v_ids || without_late_replays(v_batch);
    v_ids := v_ids[:replay_matching.max];
    exit when cardinality(v_batch) < v_walk or cardinality(v_ids) = replay_matching.max;
  end loop;
  if replay_matching.dry_run is not false then
    return cardinality(v_ids);
  end if;
  return replay_jobs(v_ids, p_living_only => true);
end
$$;
comment on function fencepost.replay_matching(jsonb, boolean, int)
  is 'Returns dead letters that match a filter to work, or counts them (dry_run, the default); returns how many. Raises JE003.';

-- The dead letters that match, oldest first, those after an id. Errors: JE003.
create function fencepost_private.matching_dead_letters(p_filter jsonb, p_max int, p_after bigint default 0)
returns bigint[]
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_filter job_filter;
begin
  perform check_matching(p_filter, p_max);
  v_filter := parsed_filter(p_filter, array['type', 'tenant', 'priority', 'attempts', 'failed_after', 'failed_before', 'error', 'error_matches']);
  return array(
    select z.id
    from dead_letter z
    join lane n on n.lane_id = z.lane_id
    join job_type t on t.type_id = n.type_id
    where z.id > p_after
      and (v_filter.type is null or t.type = v_filter.type)
      and (v_filter.priority is null or n.priority = v_filter.priority)
      and (v_filter.tenant is null or z.tenant = v_filter.tenant)
      and (v_filter.attempts is null or z.attempts = v_filter.attempts)
      and (v_filter.failed_after is null or z.failed_at >= v_filter.failed_after)
      and (v_filter.failed_before is null or z.failed_at < v_filter.failed_before)
      and (v_filter.error is null or position(lower(v_filter.error) in lower(shown(to_jsonb(z.final_error)) #>> '{}')) > 0)
      and (v_filter.error_matches is null or shown(to_jsonb(z.final_error)) #>> '{}' ~ v_filter.error_matches)
    order by z.id
    limit p_max);
end
$$;
comment on function fencepost_private.matching_dead_letters(jsonb, int, bigint) is 'Ids of dead letters that match a filter, oldest first. Raises JE003.';

-- Errors: JE003 for no filter or a max out of range.
create function fencepost_private.check_matching(p_filter jsonb, p_max int)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_filter is null then
    perform raise_error('JE003', 'a filter is needed', 'received null', 'Say {} to mean all dead letters.');
  end if;
  if p_max is null or p_max not between 1 and 100000 then
    perform raise_error('JE003', 'max must be from 1 to 100000', format('received max = %s', coalesce(p_max::text, 'null')), 'Call again for more.');
  end if;
end
$$;
comment on function fencepost_private.check_matching(jsonb, int) is 'Raises JE003 for no filter or a max out of range.';
--! EndIncluded operate/replay_matching.sql
--! Included operate/discard_matching.sql
-- Gives up dead letters that match a filter, oldest first, at most `max` a call; or, as long as dry_run is not false,
-- only counts them. The filter is that of replay_matching.
-- Locks: the dead letters, in id order. Errors: JE003.
create function fencepost.discard_matching(filter jsonb, dry_run boolean default true, reason text default null, max int default 10000)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_ids bigint[] := matching_dead_letters(discard_matching.filter, discard_matching.max);
begin
  if discard_matching.dry_run is not false then
    return cardinality(v_ids);
  end if;
  return discard_jobs(v_ids, discard_matching.reason);
end
$$;
comment on function fencepost.discard_matching(jsonb, boolean, text, int)
  is 'Gives up dead letters that match a filter, or counts them (dry_run, the default); returns how many. Raises JE003.';
--! EndIncluded operate/discard_matching.sql
--! Included operate/unreachable_ready.sql
-- Ready jobs that no claim would reach: below the newest watermark of their lane, and neither of a transaction that it
-- lists as late nor held. There must be none, ever, but for a logical restore.
create function fencepost_private.unreachable_ready(p_lane_id int default null)
returns table (id bigint, lane_id int)
language sql
stable
set search_path = fencepost_private, pg_temp
set jit = off
as $$
  select r.id, r.lane_id
  from lane l
  cross join lateral (select i.* from lane_hint i where i.lane_id = l.lane_id order by i.seq desc limit 1) as h
  join ready r on r.lane_id = l.lane_id and (r.xid, r.id) < (h.wx, h.wi)
  where h.boot = pg_postmaster_start_time()
    and (p_lane_id is null or l.lane_id = p_lane_id)
    and not r.id = any (h.held)
    and not exists (select from unnest(h.late_x, h.late_i) as e(x, first_id) where r.xid = e.x and r.id >= e.first_id)
$$;
comment on function fencepost_private.unreachable_ready(int) is 'Ready jobs below the watermark of their lane that it does not list: there must be none.';
--! EndIncluded operate/unreachable_ready.sql
--! Included operate/explain_job.sql
-- Why a job is not running now, or where it is: one row for each reason that holds, with what would release it.
--   reason   a word, for programs: delayed, due, parked, waiting, type_paused, no_worker, workers_draining,
--            limit_reached, claim_open, being_claimed, behind, unreachable, claimable · running, cancel_requested,
--            worker_silent, overdue · dead_letter, completed, cancelled, discarded
--   detail   the same for people, with names and numbers
--   since    since when it is so, where that is known
--   release  what would change it
-- Reads only. Errors: JE002.
create function fencepost.explain_job(job_id bigint)
returns table (reason text, detail text, since timestamptz, release text)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set jit = off
as $$
declare
  v_now timestamptz := fencepost_private.now();
  v_job record;
begin
  select p.*, n.type_id, n.priority, t.type, w.name as worker into v_job
  from job_place p
  join lane n on n.lane_id = p.lane_id
  join job_type t on t.type_id = n.type_id
  left join worker w on w.worker_id = p.worker_id
  where p.id = explain_job.job_id and exists (select from job b where b.id = explain_job.job_id)
  limit 1;
  if not found then
    perform raise_not_found(explain_job.job_id);
  end if;

  case v_job.status
    when 'pending' then
      return query select e.* from explain_pending(explain_job.job_id, v_now) as e;
    when 'running' then
      return query select e.* from explain_running(explain_job.job_id, v_now) as e;
    when 'waiting' then
      return query
      select 'waiting', concat_ws(' ', 'It stepped off its worker to wait', 'for ' || v_job.waits_for, 'until ' || v_job.available_at) || '.', v_job.since,
             case when v_job.available_at is null then '' else format('The time %s, or ', v_job.available_at) end || format('fencepost.resume(%s).', explain_job.job_id);
    when 'dead_letter' then
      return query
      select 'dead_letter', format('It failed for good in attempt %s: %s', d.attempts, d.final_error), d.failed_at,
             case when cardinality(without_late_replays(array[explain_job.job_id])) = 0
                  then format('fencepost.discard(%s) gives it up. Its run, or one around it, was cancelled or undone: it cannot be replayed.', explain_job.job_id)
                  else format('fencepost.replay(%s) tries it again, fencepost.discard(%s) gives it up. Nothing else does.', explain_job.job_id, explain_job.job_id) end
      from fencepost.dead_letter d where d.job_id = explain_job.job_id;
    else
      return query
      select v_job.status, concat_ws(' ', 'It was ' || v_job.status, 'in attempt ' || nullif(v_job.attempts, 0), 'on worker ' || v_job.worker) || '.', v_job.finished_at,
             'Nothing: it has ended. Enqueue another.'::text;
  end case;
end
$$;
comment on function fencepost.explain_job(bigint) is 'Why a job is not running now (or where it is), one row a reason, and what would release it. Raises JE002.';

create function fencepost_private.explain_running(p_job_id bigint, p_now timestamptz)
returns table (reason text, detail text, since timestamptz, release text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_lease  record;
  v_worker record;
begin
  select l.* into v_lease from fencepost.leases l where l.job_id = p_job_id;
  select w.* into v_worker from worker w where w.worker_id = v_lease.worker_id;
  return query
  select 'running', format('Worker %s (%s) runs attempt %s, token %s.', v_lease.worker, v_lease.worker_id, v_lease.attempt, v_lease.token), v_lease.started_at,
         format('Its end; it cannot be taken back before %s.', v_lease.leased_until);
  if v_lease.cancel_requested_at is not null then
    return query
    select 'cancel_requested', concat_ws(' ', 'Its cancellation was asked for', '(' || v_lease.cancel_reason || ')') || '.', v_lease.cancel_requested_at,
           'Its worker hears of it with the next heartbeat; however the attempt then ends, other than well, the job is cancelled.'::text;
  end if;
  if v_worker.heartbeat_at < p_now - v_worker.ttl / 2 or v_worker.status in ('lost', 'stopped') then
    return query
    select 'worker_silent', format('Its worker is %s and last gave a sign of life at %s.', v_worker.status, v_worker.heartbeat_at), v_worker.heartbeat_at,
           'maintain() takes the attempt back once the worker is lost: it then runs elsewhere, under a new token.'::text;
  end if;
  if v_lease.deadline <= p_now then
    return query select 'overdue', format('Its time was up at %s.', v_lease.deadline), v_lease.deadline, 'maintain() takes the attempt back.'::text;
  end if;
end
$$;
comment on function fencepost_private.explain_running(bigint, timestamptz) is 'explain_job for a running job.';
--! EndIncluded operate/explain_job.sql
--! Included operate/explain_pending.sql
-- explain_job for a job that waits: what holds the job itself, then what holds its type.
create function fencepost_private.explain_pending(p_job_id bigint, p_now timestamptz)
returns table (reason text, detail text, since timestamptz, release text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_type  job_type;
  v_ready record;
  v_late  delayed;
  v_park  parked;
  v_count bigint := 0;
begin
  select t.* into v_type
  from job_place p join lane n on n.lane_id = p.lane_id join job_type t on t.type_id = n.type_id
  where p.id = p_job_id and p.status = 'pending' limit 1;
  select d.* into v_late from delayed d where d.id = p_job_id;
  select p.* into v_park from parked p where p.id = p_job_id;
  select r.id, r.lane_id, r.xid, r.ready_at, r.xmax::text as locker into v_ready from ready r where r.id = p_job_id;

  if v_late.available_at > p_now then
    return query
    select 'delayed', format('It runs no sooner than %s (in %s)%s.', v_late.available_at, justify_interval(date_trunc('second', v_late.available_at - p_now)),
             case when v_late.attempts > 0 then format(', after attempt %s failed', v_late.attempts) else '' end),
           null::timestamptz, 'That time; or fencepost.cancel().'::text;
  elsif v_late.id is not null then
    return query select 'due', 'Its time has come; it is not in line yet.', v_late.available_at, 'The next claim of its type, or maintain().'::text;
  elsif v_park.id is not null then
    return query
    select 'parked',
           case v_park.waits_for when 'run' then 'Its run is paused.' when 'approval' then 'Somebody must approve its task first.' else format('It waits for a free slot of %s.', v_park.waits_for) end,
           v_park.parked_at,
           case v_park.waits_for when 'run' then 'fencepost.resume_run().' when 'approval' then 'fencepost.approve().' else 'A slot that comes free.' end;
  end if;

  return query select e.* from explain_type(v_type.type_id, p_now) as e;
  get diagnostics v_count = row_count;
  if v_ready.id is null then
    return;
  end if;

  return query
  select 'being_claimed', format('Session %s has it locked in an open transaction%s.', k.pid, coalesce(' since ' || a.xact_start, '')), a.xact_start,
         'The end of that transaction.'::text
  from pg_locks k left join pg_stat_activity a on a.pid = k.pid
  where k.locktype = 'transactionid' and k.granted and k.transactionid::text = v_ready.locker and k.pid <> pg_backend_pid();
  v_count := v_count + (case when found then 1 else 0 end);

  return query
  select 'behind', format('Before it in line, of its type: %s%s.', case when b.ahead > 1000 then 'more than 1000' else b.ahead::text end,
                          case when b.higher > 0 then format(' (%s of higher priority)', case when b.higher > 1000 then 'more than 1000' else b.higher::text end) else '' end),
         v_ready.ready_at, 'Workers taking those; or fencepost.reprioritize().'::text
  from jobs_before(p_job_id) as b
  where b.ahead > 0;
  v_count := v_count + (case when found then 1 else 0 end);

  return query
  select 'unreachable', 'It lies below the watermark of its lane, where no claim looks: a broken invariant.', v_ready.ready_at,
         'fencepost.after_restore() after a restore; else report it, with fencepost.check_invariants().'::text
  from unreachable_ready(v_ready.lane_id) as u where u.id = p_job_id;
  v_count := v_count + (case when found then 1 else 0 end);

  if v_count = 0 then
    return query select 'claimable', 'Nothing holds it.', v_ready.ready_at, 'The next claim of its type.'::text;
  end if;
end
$$;
comment on function fencepost_private.explain_pending(bigint, timestamptz) is 'explain_job for a job that waits.';

-- What holds a whole type back.
create function fencepost_private.explain_type(p_type_id int, p_now timestamptz)
returns table (reason text, detail text, since timestamptz, release text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_type    job_type;
  v_active  bigint;
  v_leaving bigint;
  v_running bigint;
begin
  select t.* into v_type from job_type t where t.type_id = p_type_id;
  if v_type.paused then
    return query
    select 'type_paused', concat_ws(' ', format('Type %s is paused', v_type.type), 'by ' || p.paused_by, '(' || p.reason || ')') || '.', p.paused_at,
           format('fencepost.resume_type(%L).', v_type.type)
    from (select v_type.type_id) as t left join type_pause p on p.type_id = t.type_id;
  end if;

  select count(*) filter (where w.status = 'active'), count(*) filter (where w.status = 'draining') into v_active, v_leaving
  from worker w
  where w.status in ('active', 'draining') and w.heartbeat_at > p_now - w.ttl and v_type.type = any (w.types);
  if v_active = 0 and v_leaving > 0 then
    return query select 'workers_draining', format('The workers of type %s (%s of them) are all draining and take nothing new.', v_type.type, v_leaving), null::timestamptz,
      'A worker that starts for this type.'::text;
  elsif v_active = 0 then
    return query
    select 'no_worker', format('No live worker claims type %s.', v_type.type),
           (select max(w.heartbeat_at) from worker w where v_type.type = any (w.types)), 'A worker that starts for this type.'::text;
  end if;

  v_running := running(p_type_id);
  if v_running >= v_type.max_running then
    return query
    select 'limit_reached', format('Type %s runs %s of at most %s: %s.', v_type.type, v_running, v_type.max_running, h.holders), h.since,
           format('One of them ending; or fencepost.configure_type(%L, max_running => …).', v_type.type)
    from (
      select string_agg(format('job %s on %s', l.id, coalesce(l.name, '?')), ', ' order by l.started_at) as holders, min(l.started_at) as since
      from (select l.id, w.name, l.started_at
            from lease l join lane n on n.lane_id = l.lane_id left join worker w on w.worker_id = l.worker_id
            where n.type_id = p_type_id order by l.started_at limit 5) as l
    ) as h;
  end if;
  if v_type.max_running is not null then
    return query
    select 'claim_open', format('Session %s holds the claim of type %s open%s; claims of a limited type are taken in turn.', k.pid, v_type.type, coalesce(' since ' || a.xact_start, '')),
           a.xact_start, format('The end of that transaction; or pg_terminate_backend(%s).', k.pid)
    from pg_locks k left join pg_stat_activity a on a.pid = k.pid
    where k.locktype = 'advisory' and k.granted and k.classid = lock_type()::oid and k.objid = p_type_id::oid and k.objsubid = 2
      and k.database = (select d.oid from pg_database d where d.datname = current_database()) and k.pid <> pg_backend_pid();
  end if;
end
$$;
comment on function fencepost_private.explain_type(int, timestamptz) is 'What holds back all jobs of a type: paused, no worker, limit reached.';

-- How many ready jobs of its type a ready job has before it, and how many of those have a higher priority; counts
-- to 1,001 in each lane, from the lane's watermark.
create function fencepost_private.jobs_before(p_job_id bigint, out ahead bigint, out higher bigint)
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  select coalesce(sum(c.jobs), 0), coalesce(sum(c.jobs) filter (where l.priority > own.priority), 0)
  from ready me
  join lane own on own.lane_id = me.lane_id
  join lane l on l.type_id = own.type_id and l.priority >= own.priority
  left join lateral (
    select h.* from (select i.* from lane_hint i where i.lane_id = l.lane_id order by i.seq desc limit 1) as h
    where h.boot = pg_postmaster_start_time()
  ) as hint on true
  cross join lateral (
    select count(*) as jobs
    from (select from ready r
          where r.lane_id = l.lane_id and (r.xid, r.id) >= (coalesce(hint.wx, 0), coalesce(hint.wi, 0))
            and (l.lane_id <> own.lane_id or (r.xid, r.id) < (me.xid, me.id))
          order by r.xid, r.id limit 1001) as b
  ) as c
  where me.id = p_job_id
$$;
comment on function fencepost_private.jobs_before(bigint) is 'How many ready jobs of its type are before a ready job, bounded; and how many of those have a higher priority.';
--! EndIncluded operate/explain_pending.sql
--! Included operate/check_invariants.sql
-- An fsck for the engine: what must always be true, checked in one snapshot, at any time, in production too. No row is
-- good news; each row names an invariant that is broken and where (at most twenty for each).
--
-- All places are read, and the newest `bodies` jobs with their events, and as many runs (null reads all of them): a few seconds a million.
-- Reads only.
--
-- It is stable on purpose: all its statements then see the one snapshot of the caller's.
create function fencepost.check_invariants(bodies bigint default 1000000)
returns table (invariant text, detail text)
language plpgsql
stable
security definer
set search_path = fencepost_private, pg_temp
set jit = off
as $$
declare
  v_first bigint := coalesce(greatest(0, last_id('job') - check_invariants.bodies), 0);
begin
  return query select c.invariant, c.detail from check_places(v_first) as c;
  return query select c.invariant, c.detail from check_attempts(v_first) as c;
  return query select c.invariant, c.detail from check_registers() as c;
  return query select c.invariant, c.detail
  from check_run_invariants(coalesce(greatest(0, (select s.last_value from run_id_seq s) - check_invariants.bodies), 0)) as c;
end
$$;
comment on function fencepost.check_invariants(bigint) is 'What must always be true and is not: no row means healthy. Reads all places and the newest bodies (null: all), in one snapshot.';

-- Where jobs stand: each in exactly one place, or ended by exactly one event.
create function fencepost_private.check_places(p_first bigint)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  select 'a job is in one place', format('job %s is in %s', p.id, string_agg(p.place, ', '))
  from held_places() p group by p.id having count(*) > 1 order by p.id limit 20;

  return query
  select 'a job that has ended is in no place', format('job %s has %s and is in %s', p.id, e.kind, p.place)
  from held_places() p join event e on e.job_id = p.id
  where e.kind in ('job.completed', 'job.cancelled', 'job.discarded') order by p.id limit 20;

  return query
  select 'a job in a place has a body', format('job %s is in %s', p.id, p.place)
  from held_places() p where not exists (select from job b where b.id = p.id) order by p.id limit 20;

  return query
  select 'a place names a lane', format('job %s in %s names lane %s', p.id, p.place, p.lane_id)
  from held_places() p where not exists (select from lane l where l.lane_id = p.lane_id) order by p.id limit 20;

  return query
  select 'a job is in a place or has ended', format('job %s is nowhere', b.id)
  from job b
  where b.id > p_first
    and not exists (select from held_places() p where p.id = b.id)
    and not exists (select from event e where e.job_id = b.id and e.kind in ('job.completed', 'job.cancelled', 'job.discarded'))
  order by b.id limit 20;

  return query
  select 'a job ends once', format('job %s has %s', e.job_id, string_agg(e.kind::text, ', ' order by e.id))
  from event e
  where e.job_id > p_first and e.kind in ('job.completed', 'job.cancelled', 'job.discarded')
  group by e.job_id having count(*) > 1 order by e.job_id limit 20;

  return query
  select 'no claim misses a ready job', format('job %s lies below the watermark of lane %s', u.id, u.lane_id)
  from unreachable_ready() u order by u.id limit 20;
end
$$;
comment on function fencepost_private.check_places(bigint) is 'check_invariants, of places.';

-- The rows of all places.
create function fencepost_private.held_places()
returns table (place text, id bigint, lane_id int, attempts int, token int)
language sql
stable
set search_path = fencepost_private, pg_temp
as $$
  select 'ready', r.id, r.lane_id, r.attempts, r.token from ready r
  union all select 'delayed', d.id, d.lane_id, d.attempts, d.token from delayed d
  union all select 'parked', p.id, p.lane_id, p.attempts, p.token from parked p
  union all select 'suspended', s.id, s.lane_id, s.attempts, s.token from suspended s
  union all select 'lease', l.id, l.lane_id, l.attempts, l.token from lease l
  union all select 'dead_letter', z.id, z.lane_id, z.attempts, z.token from dead_letter z
$$;
comment on function fencepost_private.held_places() is 'Every job that is alive or dead-lettered, with the place that holds it.';

-- Tokens and attempts: the places agree with the log.
create function fencepost_private.check_attempts(p_first bigint)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  select 'an attempt ends once', format('attempt of job %s under token %s has %s', e.job_id, e.token, string_agg(e.kind::text, ', ' order by e.id))
  from event e where e.job_id > p_first and e.outcome is not null
  group by e.job_id, e.token having count(*) > 1 order by e.job_id limit 20;

  -- the fold of a job's events says what its place must carry
  return query
  with last_event as materialized (
    select distinct on (e.job_id) e.job_id, e.kind, e.token,
           case e.kind when 'job.retry_scheduled' then e.attempt when 'job.dead_lettered' then e.attempt when 'job.replayed' then 0 else e.attempt - 1 end as attempts
    from event e
    where e.job_id > p_first and e.kind in ('job.retry_scheduled', 'job.released', 'job.suspended', 'job.dead_lettered', 'job.replayed')
    order by e.job_id, e.id desc
  ), folded as (
    select p.place, p.id, p.attempts, p.token, coalesce(l.kind::text, 'no attempt') as last,
           coalesce(l.attempts, 0) + case p.place when 'lease' then 1 else 0 end as due_attempts,
           coalesce(l.token, 0) + case p.place when 'lease' then 1 else 0 end as due_token,
           (p.place = 'dead_letter') = (l.kind is not distinct from 'job.dead_lettered') as is_there
    from held_places() p left join last_event l on l.job_id = p.id
    where p.id > p_first
  )
  select 'places agree with the log', format('job %s is in %s with attempts %s, token %s; after %s they would be %s and %s', f.id, f.place, f.attempts, f.token, f.last, f.due_attempts, f.due_token)
  from folded f
  where not f.is_there or f.attempts <> f.due_attempts or f.token <> f.due_token
  order by f.id limit 20;

  return query
  select 'a lease belongs to a worker', format('job %s is leased to worker %s, which is %s', l.id, l.worker_id, case when w.worker_id is null then 'unknown' else 'closed' end)
  from lease l left join worker w on w.worker_id = l.worker_id
  where w.worker_id is null or w.swept
  order by l.id limit 20;
end
$$;
comment on function fencepost_private.check_attempts(bigint) is 'check_invariants, of attempts and leases.';

-- Counters and keys.
create function fencepost_private.check_registers()
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  with counted as (
    select l.type_id, count(*) filter (where p.place = 'ready') as ready, count(*) filter (where p.place = 'delayed') as delayed,
           count(*) filter (where p.place = 'parked') as parked, count(*) filter (where p.place = 'lease') as running,
           count(*) filter (where p.place = 'suspended') as waiting, count(*) filter (where p.place = 'dead_letter') as dead_letter
    from held_places() p join lane l on l.lane_id = p.lane_id group by l.type_id
  )
  select 'counters agree with the places', format('type %s: counters say %s, the places hold %s', t.type,
           row(d.ready, d.delayed, d.parked, d.running, d.waiting, d.dead_letter),
           row(coalesce(c.ready, 0), coalesce(c.delayed, 0), coalesce(c.parked, 0), coalesce(c.running, 0), coalesce(c.waiting, 0), coalesce(c.dead_letter, 0)))
  from depth() d
  join job_type t on t.type_id = d.type_id
  left join counted c on c.type_id = d.type_id
  where (d.ready, d.delayed, d.parked, d.running, d.waiting, d.dead_letter)
     is distinct from (coalesce(c.ready, 0), coalesce(c.delayed, 0), coalesce(c.parked, 0), coalesce(c.running, 0), coalesce(c.waiting, 0), coalesce(c.dead_letter, 0))
  order by t.type limit 20;

  return query
  select 'an idempotency key names its job', format('key %s of type %s names job %s', quote_literal(k.key), t.type, k.job_id)
  from idempotency_key k
  join job_type t on t.type_id = k.type_id
  left join job b on b.id = k.job_id
  where b.idempotency_key is distinct from k.key or b.tenant <> k.tenant
  order by k.job_id limit 20;

  return query
  select 'transaction numbers are this server''s', 'rows carry those of another one: call fencepost.after_restore()'
  where is_restored();
end
$$;
comment on function fencepost_private.check_registers() is 'check_invariants, of counters and keys.';
--! EndIncluded operate/check_invariants.sql
--! Included operate/after_restore.sql
-- To be called once after a *logical* restore (pg_dump, pg_restore), whose rows carry the transaction numbers of another
-- server: until then maintain() and whatever reads the log refuse with JE004. Physical copies, promotion and pg_upgrade
-- need nothing. Stop workers, relays and consumers first. A copy then delivers what the original delivers: where it must
-- not, pause webhooks and types and drop consumers before.
--
-- Ready jobs are renumbered in their order, as finely as the numbers of this server allow; watermarks are void; the
-- counters are counted anew. Consumers of the event log go on at the oldest event that they had not read: nothing is
-- missed, and of what is newer some may come a second time. Positions that clients of list_events() keep are of the
-- other server: those beyond the newest lead back to the beginning; let all begin there.
-- Returns what it did; no row when there is nothing to mend.
-- Locks: maintain()'s lock, then all places and registers, until commit. Errors: JE003 outside READ COMMITTED.
create function fencepost.after_restore()
returns table (step text, done bigint)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_xmin bigint;
  v_low  bigint;
  v_high bigint;
begin
  perform check_read_committed('after_restore()');
  perform pg_advisory_xact_lock(lock_housekeeping(), 1);
  lock table ready, delayed, parked, lease, suspended, dead_letter, depth_delta, depth_base, outcome_base, lane_hint, event_tick, consumer_state, origin in access exclusive mode;
  if not is_restored() then
    return;
  end if;
  v_xmin := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;      -- all transactions below have ended

  -- the events that were not counted yet, while they have the numbers of the other server
  perform count_outcomes(coalesce(b.x, 0), coalesce(b.xip, '{}'), 9223372036854775807, '{}')
  from (select 1) as one left join outcome_base b on true;
  delete from outcome_base;
  insert into outcome_base (x, xip) select f.xmax, f.xip from in_flight() f;

  delete from lane_hint;
  step := 'watermarks voided';
  get diagnostics done = row_count;
  return next;

  -- onto the numbers from 3 to below v_xmin, in order
  select min(r.xid), max(r.xid) into v_low, v_high from ready r;
  update ready r set xid = 3 + floor((r.xid - v_low)::numeric * (v_xmin - 3) / (v_high - v_low + 1))::bigint;
  step := 'ready jobs renumbered';
  get diagnostics done = row_count;
  return next;

  step := 'consumers moved to the new numbers';
  done := renumber_consumers(v_xmin);
  return next;

  update event e set xid = v_xmin - 1 where e.xid >= v_xmin;
  step := 'events renumbered';
  get diagnostics done = row_count;
  return next;

  -- what is left of the deltas is what the bases have not counted
  with deltas as (
    delete from depth_delta returning type_id, enqueued
  ), bases as (
    delete from depth_base returning type_id, seq, enqueued
  ), ever as (
    select t.type_id,
           coalesce((select b.enqueued from bases b where b.type_id = t.type_id order by b.seq desc limit 1), 0)
             + coalesce((select sum(d.enqueued) from deltas d where d.type_id = t.type_id), 0) as enqueued
    from job_type t
  )
  insert into depth_base (type_id, x, xip, ready, delayed, parked, running, waiting, dead_letter, enqueued)
  select e.type_id, f.xmax, f.xip,
         count(*) filter (where p.place = 'ready'), count(*) filter (where p.place = 'delayed'), count(*) filter (where p.place = 'parked'),
         count(*) filter (where p.place = 'lease'), count(*) filter (where p.place = 'suspended'), count(*) filter (where p.place = 'dead_letter'),
         e.enqueued
  from ever e
  cross join in_flight() f
  left join lane l on l.type_id = e.type_id
  left join held_places() p on p.lane_id = l.lane_id
  group by e.type_id, e.enqueued, f.xmax, f.xip;
  step := 'counters counted anew';
  get diagnostics done = row_count;
  return next;

  step := 'webhooks that now deliver from here';
  select count(*) into done from webhook w join job_type t on t.type = webhook_type(w.name) where not t.paused;
  return next;

  delete from origin;
  insert into origin (written_by) values (0);
  update origin o set written_by = o.xmin::text::bigint;
  insert into event (xid, at, kind, actor, data)
  values (xid(), fencepost_private.now(), 'operator.restored', actor(), jsonb_build_object('lowest', v_low, 'highest', v_high, 'renumbered_below', v_xmin));
end
$$;
comment on function fencepost.after_restore() is 'Mends transaction numbers after a logical restore; nothing to do otherwise. Stop workers, relays and consumers first. Raises JE003.';
revoke execute on function fencepost.after_restore() from public;

-- Before events get the numbers of this server: consumers are put before the oldest event that they have not read,
-- in one batch that reaches to all that was restored. Returns how many.
create function fencepost_private.renumber_consumers(p_xmin bigint)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v       record;
  v_bases bigint[] := '{}'::bigint[];
  v_count bigint := 0;
begin
  for v in
    select s.*, u.first_unread, least(p_xmin - 1, u.lowest) as px
    from (
      select n.*, (select t.last_id from event_tick t where t.x = (n.position).px and t.flight = (n.position).pflight limit 1) as base_id
      from consumer c cross join lateral newest_state(c.consumer_id) as n) as s
    cross join lateral (
      -- what this server wrote before we were called has low numbers, and ids above all that the consumer can have read
      select min(e.id) as first_unread, min(e.xid) as lowest
      from event e
      where e.id > greatest(s.base_id, (s.position).last_id)
         or exists (select from ranges_after(s.position) as r where e.xid >= r.from_xid and e.xid < r.below_xid and e.id > r.above_id and not e.xid = any (r.without))) as u
  loop
    insert into consumer_state (consumer_id, seq, position, token, at)
    values (v.consumer_id, v.seq + 1, case when v.first_unread is null then place_of_tick(p_xmin, 0) else row(v.px, 0, p_xmin, 0, v.first_unread - 1)::log_position end,
            v.token + 1, fencepost_private.now());
    v_bases := v_bases || coalesce(v.px, p_xmin);
    v_count := v_count + 1;
  end loop;
  delete from event_tick;
  insert into event_tick (x, flight, xip, at, last_id)
  select b.x, 0, '{}'::bigint[], '-infinity'::timestamptz, 0 from (select distinct x from unnest(v_bases) as x where x < p_xmin) as b
  union all
  select p_xmin, 0, '{}', fencepost_private.now(), s.last_value from event_id_seq s;
  return v_count;
end
$$;
comment on function fencepost_private.renumber_consumers(bigint) is 'Puts consumers before the oldest event that they have not read, in the numbers of this server. Returns how many.';
--! EndIncluded operate/after_restore.sql
--! Included operate/doctor.sql
-- What is wrong or about to go wrong, why it matters, and what mends it. Changes nothing.
--   severity  error: work stops, or will soon · warning: look at it today · info: good to know
--   finding   what was found, with names and numbers
--   why       what comes of it
--   remedy    what mends it: mostly a statement
--   topic     a word, for programs
-- Some findings need the role pg_monitor, to see other sessions; without it, it says so.
create function fencepost.doctor()
returns table (severity text, finding text, why text, remedy text, topic text)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set jit = off
as $$
declare
  v_now timestamptz := fencepost_private.now();
begin
  return query
  select d.severity, d.finding, d.why, d.remedy, d.topic
  from (
    select f.* from doctor_work(v_now) as f
    union all select f.* from doctor_workflows(v_now) as f
    union all select f.* from doctor_housekeeping(v_now) as f
    union all select f.* from doctor_outbox(v_now) as f
    union all select f.* from doctor_webhooks(v_now) as f
    union all select f.* from doctor_sessions() as f
    union all select f.* from doctor_server() as f
  ) as d
  order by array_position(array['error', 'warning', 'info'], d.severity), d.topic, d.finding;
end
$$;
comment on function fencepost.doctor() is 'What is wrong or about to go wrong, why it matters and what mends it; changes nothing.';
--! EndIncluded operate/doctor.sql
--! Included operate/doctor_work.sql
-- doctor, of types, jobs and workers.
create function fencepost_private.doctor_work(p_now timestamptz)
returns table (severity text, finding text, why text, remedy text, topic text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  with stats as materialized (select i.* from fencepost.stats() i)
  select 'warning', format('jobs of type %s wait (%s of them) and no live worker claims it%s', s.type, s.pending,
           ': the oldest for ' || round(s.oldest_ready_seconds) || ' s'),
         'They wait for ever.',
         coalesce((select 'A worker claims ' || quote_literal(n.type) || ': is one of the names misspelt? '
                   from (select distinct u.type from worker w cross join unnest(w.types) as u(type) where w.status = 'active') as n
                   where did_you_mean(n.type, array[s.type]) is not null and not exists (select from stats o where o.type = n.type and o.enqueued_total > 0) limit 1), '')
           || format('Start a worker for %s, or cancel the jobs.', s.type), 'no_worker'
  from stats s where s.pending > 0 and s.workers = 0 and not s.paused
  union all
  select 'warning', format('ready jobs of type %s have waited up to %s s', s.type, round(s.oldest_ready_seconds)),
         'Work comes in faster than it is done, or its workers are stuck.',
         'Add workers, or look at what they run: select * from fencepost.leases.', 'slow'
  from stats s where s.oldest_ready_seconds > 600 and s.workers > 0 and not s.paused
  union all
  select 'info', format('type %s is paused%s%s; %s of its jobs wait', s.type, ' by ' || p.paused_by || ' since ' || p.paused_at, ' (' || p.reason || ')', s.pending),
         'Its jobs are not claimed.', format('select fencepost.resume_type(%L);', s.type), 'paused'
  from stats s
  join job_type t on t.type = s.type
  left join type_pause p on p.type_id = t.type_id
  where s.paused
  union all
  select 'warning', format('type %s has %s dead letters (it alerts at %s)', s.type, s.dead_letter, s.dead_letter_alert),
         'Each is work that nobody has done.',
         format('select * from fencepost.dead_letter where type = %L; then fencepost.replay_matching() or fencepost.discard_matching().', s.type), 'dead_letters'
  from stats s where s.dead_letter >= s.dead_letter_alert
  union all
  select 'warning', format('the queue of type %s is full: %s wait of at most %s', s.type, s.pending, s.max_pending),
         'Enqueues are refused with JE007.', format('Add workers, or select fencepost.configure_type(%L, max_pending => …);', s.type), 'full'
  from stats s where s.pending >= s.max_pending
  union all
  select 'info', format('type %s refuses enqueues', s.type), 'Producers get JE007.', format('select fencepost.configure_type(%L, accept => true);', s.type), 'closed'
  from stats s where not s.accept;

  return query
  select 'info', format('worker %s claims type %s, which nobody has ever enqueued', min(w.name), u.type),
         'Harmless, unless the name is misspelt.',
         coalesce(did_you_mean(u.type, array(
           select t.type from job_type t
           where t.type <> u.type and not exists (select from worker o where o.status in ('active', 'draining') and t.type = any (o.types)) limit 1000)), '') || 'Compare it with select type from fencepost.types.', 'unknown_type'
  from worker w
  cross join unnest(w.types) as u(type)
  where w.status in ('active', 'draining')
    and not exists (select from job_type t cross join depth(t.type_id) d where t.type = u.type and d.enqueued > 0)
  group by u.type;

  return query
  select 'warning', format('%s workers were lost in the last hour, the last one %s at %s', count(*), (array_agg(w.name order by w.ended_at desc))[1], max(w.ended_at)),
         'Their attempts ended as lease_expired and count; what they were doing runs again.', 'Look at why they fell silent: memory, crashes, a blocked event loop, a network cut.', 'lost_workers'
  from worker w where w.status = 'lost' and w.ended_at > p_now - interval '1 hour'
  having count(*) > 0
  union all
  select 'warning', format('worker %s (%s) is %s since %s and its jobs are not taken back yet', w.name, w.worker_id, w.status, w.ended_at),
         'They wait for maintain().', 'Let maintain() run each second.', 'unswept'
  from worker w
  where w.status in ('lost', 'stopped') and not w.swept and w.ended_at < p_now - interval '5 minutes';
end
$$;
comment on function fencepost_private.doctor_work(timestamptz) is 'doctor, of types, jobs and workers.';
--! EndIncluded operate/doctor_work.sql
--! Included operate/doctor_housekeeping.sql
-- doctor, of housekeeping, partitions and the schema.
create function fencepost_private.doctor_housekeeping(p_now timestamptz)
returns table (severity text, finding text, why text, remedy text, topic text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  if is_restored() then
    return query select 'error', 'this database was restored from a dump: its rows carry transaction numbers of another server',
      'Claims may miss jobs; housekeeping refuses to run, and so does whatever reads the event log.',
      'Stop workers, relays and consumers; in a copy that must not deliver, pause webhooks and drop consumers; then: select * from fencepost.after_restore();', 'restored';
  end if;

  return query
  select 'warning', case when m.last_at is null then 'maintain() has never run' else format('maintain() last ran at %s', m.last_at) end,
         'Delayed jobs, retries and the work of lost workers wait for it.',
         'A running worker calls it each second. Without workers: select * from fencepost.maintain(); from a scheduler.', 'maintain'
  from maintain_step m
  where m.step = 'create_partitions' and coalesce(m.last_at, '-infinity') < p_now - interval '3 minutes'
  union all
  select case when m.failures >= 20 then 'error' else 'warning' end, format('the step %s of maintain() failed %s times in a row: %s', m.step, m.failures, m.error),
         'What it does is not done.',
         case when m.error like '55P03%' then 'It waits for a lock of 20 ms on a whole table: some transaction holds it open all the time. See the findings on sessions.'
              else 'Mend what the error says; the step goes on by itself.' end, 'maintain_failing'
  from maintain_step m where m.failures >= 3
  union all
  select 'warning', format('the step %s of maintain() failed %s times in a row for %s %s: %s', f.step, f.failures, case when f.step like '%\_runs' then 'run' else 'job' end, f.item, f.error),
         'It stays as it is, and all others go on.',
         case when f.error like '55P03%' then 'It waits for a lock: some transaction holds it open all the time. See the findings on sessions.'
              else 'Mend what the error says; it is tried again each ten minutes at the latest.' end, 'maintain_failing'
  from (select i.* from maintain_failure i where i.failures >= 3 order by i.first_at, i.item limit 10) as f
  union all
  select 'warning', 'delayed jobs are due and not promoted: the first since ' || d.available_at, 'They start late.', 'Let maintain() run each second.', 'unpromoted'
  from (select i.available_at from delayed i order by i.available_at limit 1) as d where d.available_at < p_now - interval '1 minute';

  return query
  select 'error', format('%s ids are left in the partitions of %s', greatest(p.end_id - p.last_id, 0), p.parent),
         'Enqueues and completions fail when they run out.',
         'select fencepost_private.create_partitions(); if it returns 0, a session holds a lock on the table or the owner may not create tables.', 'partitions'
  from (
    select t.parent, last_id(t.parent) as last_id, coalesce(max(p.end_id), 0) as end_id
    from (values ('job'), ('event')) as t(parent)
    left join lateral partitions(t.parent) p on true
    group by t.parent
  ) as p
  where p.end_id - p.last_id < 500000
  union all
  select 'info', format('%s has %s partitions', p.parent, p.partitions), 'Each is looked at by every plan; above thirty or so, the first claims of a session are slow.',
         'Shorten keep_finished, or decide about old dead letters and delayed jobs: they hold their partition.', 'many_partitions'
  from (
    select t.parent, count(*) as partitions from (values ('job'), ('event')) as t(parent) cross join lateral partitions(t.parent) p group by t.parent
  ) as p
  where p.partitions > 24;

  return query
  select 'info', coalesce('schema version ' || m.number || ' (' || m.name || '), applied at ' || m.applied_at, 'the schema was installed without recording a version'),
         'Clients and schema must fit each other.', 'fencepost migrate brings it up to date.', 'version'
  from (select 1) as one left join (select i.number, i.name, i.applied_at from migration i order by i.number desc limit 1) as m on true;
end
$$;
comment on function fencepost_private.doctor_housekeeping(timestamptz) is 'doctor, of housekeeping, partitions and the schema.';
--! EndIncluded operate/doctor_housekeeping.sql
--! Included operate/doctor_outbox.sql
-- doctor, of consumers of the event log, but for those of webhooks. One that has read within ten minutes, or has little
-- to read, is well.
create function fencepost_private.doctor_outbox(p_now timestamptz)
returns table (severity text, finding text, why text, remedy text, topic text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  with consumers as materialized (
    select i.*, (select s.token > 0 from consumer k cross join lateral newest_state(k.consumer_id) as s where k.name = i.name) as was_read
    from fencepost.consumers i where not exists (select from webhook w where webhook_consumer(w.name) = i.name))
  select 'error', format('consumer %s fell behind its max_lag of %s and expired at %s', c.name, c.max_lag, c.expired_at),
         'It reads nothing any more, and the log is no longer kept for it: events between its position and what is kept may be lost to it.',
         format('Decide what a gap means, then: select fencepost.seek_consumer(%L, %L); or, if nobody needs it: select fencepost.drop_consumer(%1$L);', c.name, 'beginning'), 'consumer_expired'
  from consumers c where c.expired_at is not null
  union all
  select 'warning', format('nobody reads consumer %s since %s: %s events wait, the oldest for %s s', c.name, c.moved_at, c.lag_events, round(c.lag_seconds)),
         case when c.max_lag is null then 'The whole log is kept for it, for ever.' else format('The log is kept for it until it is %s behind; then it expires.', c.max_lag) end,
         format('Start what reads it; or, if nobody needs it: select fencepost.drop_consumer(%L);', c.name), 'consumer_unread'
  from consumers c where c.expired_at is null and c.reader is null and c.lag_seconds > 600 and c.moved_at < p_now - interval '10 minutes'
  union all
  select 'warning', format('consumer %s is %s s behind: %s events wait', c.name, round(c.lag_seconds), c.lag_events),
         'It was read or moved in the last ten minutes: what reads it is slower than events come, or fails at the first of them again and again.',
         format('Look at the log of %s. Larger batches help, or a narrower filter; an event that always fails can be set aside with fencepost.park_event().', coalesce(c.reader, 'its reader')), 'consumer_slow'
  from consumers c where c.expired_at is null and c.lag_seconds > 600 and (c.reader is not null or c.moved_at >= p_now - interval '10 minutes' and c.was_read)
  union all
  select 'warning', format('consumer %s has set %s events aside, the last because: %s', c.name, c.parked, left(l.reason, 200)),
         'They were not delivered.',
         format('select * from fencepost.parked_events where consumer = %L; then fencepost.replay_parked(%1$L) or fencepost.discard_parked(%1$L).', c.name), 'parked_events'
  from consumers c
  cross join lateral (select p.reason from fencepost.parked_events p where p.consumer = c.name and not p.again order by p.parked_at desc limit 1) as l;
end
$$;
comment on function fencepost_private.doctor_outbox(timestamptz) is 'doctor, of consumers of the event log.';
--! EndIncluded operate/doctor_outbox.sql
--! Included operate/doctor_webhooks.sql
-- doctor, of webhooks: their consumers are read by relay_webhooks(), so what is wrong with them is told here.
create function fencepost_private.doctor_webhooks(p_now timestamptz)
returns table (severity text, finding text, why text, remedy text, topic text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  with webhooks as materialized (select i.* from fencepost.webhooks i)
  select 'error', format('webhook %s gets no events since %s: %s', w.name, w.error_at, left(w.error, 300)),
         'No deliveries are made of its events, and the log is kept for it no longer than max_lag of its consumer.',
         case left(w.error, 5)
           when 'JE004' then format('Decide what a gap means, then: select fencepost.seek_consumer(%L, %L);', w.consumer, 'beginning')
           else 'Mend what the error says; the next pass of maintain() tries again.'
         end, 'webhook_error'
  from webhooks w where w.error_at < p_now - interval '1 minute'
  union all
  select 'warning', format('webhook %s is paused since %s (%s): events wait, %s or fewer', w.name, p.paused_at, coalesce(p.reason, 'without a reason'), w.lag_events),
         'Nothing is sent, and the log is kept for it until the oldest event is older than max_lag of its consumer.',
         format('Ask who has the endpoint, then: select fencepost.configure_webhook(%L, paused => false); or, if nobody needs it: select fencepost.drop_webhook(%1$L);', w.name), 'webhook_paused'
  from webhooks w
  join job_type t on t.type = w.type
  join type_pause p on p.type_id = t.type_id
  where p.paused_at < p_now - interval '10 minutes' and w.lag_events > 0;
end
$$;
comment on function fencepost_private.doctor_webhooks(timestamptz) is 'doctor, of webhooks.';
--! EndIncluded operate/doctor_webhooks.sql
--! Included operate/doctor_server.sql
-- doctor, of sessions: who keeps dead rows alive (for longer than p_snapshot), who holds claims open (p_claim).
create function fencepost_private.doctor_sessions(p_snapshot interval default '5 minutes', p_claim interval default '10 seconds')
returns table (severity text, finding text, why text, remedy text, topic text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_why constant text := 'Dead rows of the whole database pile up behind it. Claims stay fast, but tables grow, and other queues and reports slow down.';
begin
  return query
  select case when a.age > interval '1 hour' then 'error' else 'warning' end,
         format('session %s (%s, %s) has held a transaction open for %s', a.pid, coalesce(nullif(a.application_name, ''), 'no name'), a.state, date_trunc('second', a.age)),
         v_why, format('End it: select pg_terminate_backend(%s); and set idle_in_transaction_session_timeout.', a.pid), 'held_snapshot'
  from (
    select s.pid, s.application_name, s.state, clock_timestamp() - s.xact_start as age
    from pg_stat_activity s
    where s.backend_type = 'client backend' and s.pid <> pg_backend_pid()
      and (s.backend_xmin is not null or s.backend_xid is not null) and s.xact_start < clock_timestamp() - p_snapshot
      and s.wait_event_type is distinct from 'Lock'      -- who waits for another is no culprit: see the next
  ) as a
  union all
  select 'warning', format('the prepared transaction %s of %s is open since %s', quote_literal(p.gid), p.owner, p.prepared), v_why,
         format('commit prepared %L; or rollback prepared %L;', p.gid, p.gid), 'held_snapshot'
  from pg_prepared_xacts p where p.prepared < clock_timestamp() - p_snapshot
  union all
  select 'warning', format('replication slot %s holds back transaction %s (%s transactions behind)', r.slot_name, r.xmin, age(r.xmin)), v_why,
         format('Let its consumer catch up, or select pg_drop_replication_slot(%L);', r.slot_name), 'held_snapshot'
  from (select s.slot_name, coalesce(s.xmin, s.catalog_xmin) as xmin from pg_replication_slots s where s.xmin is not null) as r
  where age(r.xmin) > 100000
  union all
  select 'warning', format('standby %s holds back transaction %s by hot_standby_feedback (%s transactions behind)', r.application_name, r.backend_xmin, age(r.backend_xmin)), v_why,
         'End the long query on the standby.', 'held_snapshot'
  from pg_stat_replication r where age(r.backend_xmin) > 100000;

  -- who waits for the end of a transaction while it writes one of our tables, and whose that is: the first job of a type or
  -- priority, a job, a key, a setting
  return query
  select 'warning', format('%s sessions wait for the transaction of %s', count(distinct w.pid),
           coalesce(format('session %s (%s, %s), open for %s', a.pid, coalesce(nullif(a.application_name, ''), 'no name'), a.state, date_trunc('second', clock_timestamp() - a.xact_start)),
             format('prepared transaction %L', p.gid))),
         'It made or holds what they need: a new type or priority, a job, a key, a setting. They go on when it ends.',
         coalesce(format('Let it commit, or select pg_terminate_backend(%s);', a.pid), format('commit prepared %L; or rollback prepared %1$L;', p.gid))
           || ' Types that are declared when a release is deployed (declare_type) are not made in transactions that last.', 'blocked'
  from pg_locks w
  join pg_locks h on h.locktype = 'transactionid' and h.transactionid = w.transactionid and h.granted and h.mode = 'ExclusiveLock'
  left join pg_stat_activity a on a.pid = h.pid
  left join pg_prepared_xacts p on p.transaction = h.transactionid
  where w.locktype = 'transactionid' and not w.granted and (a.pid is not null or p.gid is not null)
    and exists (
      select from pg_locks r join pg_class c on c.oid = r.relation
      where r.pid = w.pid and r.granted and r.mode = 'RowExclusiveLock' and c.relnamespace = 'fencepost_private'::regnamespace)
    and w.waitstart < clock_timestamp() - p_claim
  group by a.pid, a.application_name, a.state, a.xact_start, p.gid;

  return query
  select 'warning', format('session %s has kept its claim of type %s open for %s', k.pid, t.type, date_trunc('second', clock_timestamp() - a.xact_start)),
         'The type has max_running, so its claims are taken in turn: nobody else can claim it meanwhile.',
         format('Commit right after a claim. To end it: select pg_terminate_backend(%s);', k.pid), 'claim_open'
  from pg_locks k
  join job_type t on t.type_id::oid = k.objid
  join pg_stat_activity a on a.pid = k.pid
  where k.locktype = 'advisory' and k.granted and k.classid = lock_type()::oid and k.objsubid = 2 and k.pid <> pg_backend_pid()
    and k.database = (select d.oid from pg_database d where d.datname = current_database())
    and a.xact_start < clock_timestamp() - p_claim;

  if not pg_has_role('pg_read_all_stats', 'usage') then
    return query select 'info', format('the role %s cannot see what other sessions do', current_user), 'Held snapshots of other roles go unnoticed.',
      format('grant pg_monitor to %I;', current_user), 'blind';
  end if;
end
$$;
comment on function fencepost_private.doctor_sessions(interval, interval) is 'doctor, of sessions that hold snapshots or claims.';

-- doctor, of the server's and the tables' settings.
create function fencepost_private.doctor_server()
returns table (severity text, finding text, why text, remedy text, topic text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  select 'warning', format('%s of table %s is %s, and ships as %s', w.name, w.tab, coalesce(o.option_value, 'not set'), w.value),
         'The hot tables are small only while they are vacuumed often.', format('alter table fencepost_private.%I set (%s = %s);', w.tab, w.name, w.value), 'autovacuum'
  from (values
    ('ready', 'autovacuum_vacuum_scale_factor', '0'), ('ready', 'autovacuum_vacuum_threshold', '5000'), ('ready', 'autovacuum_vacuum_cost_delay', '0'),
    ('lease', 'autovacuum_vacuum_scale_factor', '0'), ('lease', 'autovacuum_vacuum_threshold', '5000'), ('lease', 'autovacuum_vacuum_cost_delay', '0'),
    ('lease', 'fillfactor', '80'),
    ('depth_delta', 'autovacuum_vacuum_scale_factor', '0'), ('depth_delta', 'autovacuum_vacuum_threshold', '5000'),
    ('delayed', 'autovacuum_vacuum_threshold', '5000'), ('lane_hint', 'autovacuum_vacuum_threshold', '1000')
  ) as w(tab, name, value)
  left join pg_class c on c.relnamespace = 'fencepost_private'::regnamespace and c.relname = w.tab
  left join lateral (select i.option_value from pg_options_to_table(c.reloptions) i where i.option_name = w.name) as o on true
  where o.option_value is distinct from w.value
  union all
  select 'error', format('autovacuum is disabled for table %s', c.relname), 'It grows without bound, and so does the cost of claims.',
         format('alter table fencepost_private.%I reset (autovacuum_enabled);', c.relname), 'autovacuum'
  from pg_class c cross join lateral pg_options_to_table(c.reloptions) o
  where c.relnamespace = 'fencepost_private'::regnamespace and o.option_name = 'autovacuum_enabled' and lower(o.option_value) in ('false', 'off', 'no', '0', 'f', 'n')
  union all
  select 'error', format('%s is off', s.name), 'The hot tables grow without bound, and so does the cost of claims.', format('alter system set %I = on; select pg_reload_conf();', s.name), 'autovacuum'
  from pg_settings s where s.name in ('autovacuum', 'track_counts') and s.setting = 'off'
  union all
  select 'warning', format('%s is off', s.name), 'After a crash of the machine the database may be lost or corrupt, and the jobs with it.',
         format('alter system set %I = on; and restart the server.', s.name), 'durability'
  from pg_settings s where s.name in ('fsync', 'full_page_writes') and s.setting = 'off'
  union all
  select 'info', 'synchronous_commit is off', 'The last instant of enqueues and completions before a crash may be lost. Claims are synchronous all the same.',
         'Leave it on where each enqueue must last.', 'durability'
  from pg_settings s where s.name = 'synchronous_commit' and s.setting = 'off'
  union all
  select case when u.used > 0.5 then 'error' else 'warning' end, format('the queue of notifications is %s%% full', round(u.used::numeric * 100)),
         'Some session listens and never reads. When it is full, every commit with a notification fails.',
         'End the listening session that is idle in a transaction: see pg_stat_activity.', 'notifications'
  from pg_notification_queue_usage() as u(used) where u.used > 0.1;
end
$$;
comment on function fencepost_private.doctor_server() is 'doctor, of the settings of server and tables.';
--! EndIncluded operate/doctor_server.sql
--! Included operate/doctor_workflows.sql
-- doctor, of runs: what has failed or stands still, and is told nowhere else. Jobs of tasks are jobs like any other, and
-- told with them; what must hold is looked at by check_invariants().
create function fencepost_private.doctor_workflows(p_now timestamptz)
returns table (severity text, finding text, why text, remedy text, topic text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  select 'warning', format('workflow %s has %s failed runs%s, the newest is run %s', w.name, f.n, f.undone, f.newest),
         'Each is kept until somebody decides, and what comes after the failed task is not done.',
         format('select id, failed_tasks from fencepost.runs where workflow = %L and status = ''failed''; then fencepost.explain_task(), and fencepost.retry_run(), restart_run() or cancel_run().', w.name), 'failed_runs'
  from (
    select r.workflow_id, count(*) as n, max(r.run_id) as newest, ' (' || nullif(count(*) filter (where r.undo_failed > 0), 0) || ' could not undo what they had done)' as undone
    from run r where r.status = 'failed' and r.root_run_id = r.run_id group by r.workflow_id
  ) as f join workflow w on w.workflow_id = f.workflow_id
  union all
  select 'warning', format('workflow %s has %s runs that have been undoing since %s or longer, and no undoing is queued', w.name, c.n, c.newest_at),
         'What they had done stays done.', format('select id from fencepost.runs where workflow = %L and status = ''compensating''; then look at their child runs, and select * from fencepost.check_invariants();', w.name), 'undoing_stuck'
  from (
    select r.workflow_id, count(*) as n, max(r.compensating_at) as newest_at
    from run r where r.status = 'compensating' and r.queued = 0 and r.compensating_at < p_now - interval '1 hour' group by r.workflow_id
  ) as c join workflow w on w.workflow_id = c.workflow_id
  union all
  select 'warning', format('%s approvals of workflow %s have waited for a decision for more than a day, the oldest (%s) since %s', a.n, w.name, a.oldest, a.since),
         'Their runs wait with them.', format('select id, task, reason, expires_at from fencepost.approvals where status = ''pending'' and id >= %s; then fencepost.approve() or reject().', a.oldest), 'approvals_wait'
  from (
    select r.workflow_id, count(*) as n, min(p.approval_id) as oldest, min(p.requested_at) as since
    from approval p join run r on r.run_id = p.run_id
    where p.status = 'pending' and p.requested_at < p_now - interval '1 day' group by r.workflow_id
  ) as a join workflow w on w.workflow_id = a.workflow_id
  union all
  select 'warning', format('%s approvals have expired and nothing has come of it, the oldest at %s', count(*), min(p.expires_at)),
         'on_expiry of their tasks is not done.', 'Let maintain() run each second; select * from fencepost.housekeeping_errors, if it does.', 'approvals_overdue'
  from approval p join run r on r.run_id = p.run_id
  where p.status = 'pending' and p.expires_at < p_now - interval '10 minutes' and r.paused_at is null
  having count(*) > 0
  union all
  -- a task that is queued is told as a job that waits
  select 'info', format('runs of workflow %s will need type %s, which no live worker claims', w.name, d.type),
         'They will wait there.', format('Start a worker for %s before they come to it.', d.type), 'no_worker_yet'
  from (select distinct r.workflow_id, r.version_id from run r where r.status in ('running', 'waiting') and r.pending > 0) as l
  join workflow w on w.workflow_id = l.workflow_id
  join workflow_task d on d.version_id = l.version_id and d.type is not null
  where not exists (select from worker k where k.status in ('active', 'draining') and d.type = any (k.types))
    and not exists (select from job_type t where t.type = d.type and pending(t.type_id) > 0)
  group by w.name, d.type;
end
$$;
comment on function fencepost_private.doctor_workflows(timestamptz) is 'doctor, of runs.';
--! EndIncluded operate/doctor_workflows.sql
