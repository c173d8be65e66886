--! Previous: -
--! Hash: sha1:c61445186187f11981edacfbcd016f6e8085251c

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
  'operator.type_configured', 'operator.type_paused', 'operator.type_resumed', 'operator.restored');
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
as $$
begin
  raise exception using
    errcode = p_code,
    message = p_message,
    detail = coalesce(p_detail, ''),
    hint = coalesce(p_hint, '');
end
$$;
comment on function fencepost_private.raise_error(text, text, text, text) is 'Raises an engine error: code, what was wrong, what was received (detail), what would be right (hint).';

create view fencepost.error_codes as
select e.code, e.name, e.meaning from fencepost_private.error_code e order by e.code;
comment on view fencepost.error_codes is 'Every error code that the engine raises, and what it means.';
--! EndIncluded core/errors.sql
--! Included core/text.sql
-- Small words for messages and checks.

-- The candidate nearest to what was typed, for "did you mean": shares the first letters, or contains the word.
create function fencepost_private.did_you_mean(p_word text, p_candidates text[]) returns text
language sql immutable
as $$
  select 'did you mean ' || quote_literal(c.name) || '? '
  from unnest(p_candidates) as c(name)
  cross join lateral (
    select count(*) as shared
    from generate_series(1, greatest(length(p_word) - 1, 0)) as i
    where position(substr(lower(replace(p_word, '_', '')), i, 2) in lower(replace(c.name, '_', ''))) > 0
      and length(substr(lower(replace(p_word, '_', '')), i, 2)) = 2
  ) as s
  where s.shared * 2 >= length(replace(p_word, '_', '')) - 1 and s.shared > 0
  order by s.shared desc, abs(length(c.name) - length(p_word)), c.name
  limit 1
$$;
comment on function fencepost_private.did_you_mean(text, text[]) is 'A hint that names the candidate nearest to a misspelt word, or null.';

-- Cut a text for storage, and say so.
create function fencepost_private.clipped(p_text text, p_bytes int default 65536) returns text
language sql immutable
return case when octet_length(p_text) <= p_bytes then p_text
            else left(p_text, p_bytes / 4) || format(' … (cut from %s bytes)', octet_length(p_text)) end;
comment on function fencepost_private.clipped(text, int) is 'A text of at most about p_bytes bytes: longer ones are cut and say so.';
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
--! Included tables/job_type.sql
-- A type is a name for a kind of work, with its settings. Code declares them, operators override them, and an
-- override stays until an operator takes it back: a deploy never undoes what was set in an incident.
create table fencepost_private.job_type (
  type_id        int generated always as identity primary key,
  type           text not null constraint job_type_name_unique unique
                 constraint job_type_name_well_formed check (type ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$'),
  max_attempts   int not null default 5 constraint job_type_max_attempts_in_range check (max_attempts between 1 and 1000000),
  backoff_base   interval not null default '2 seconds' constraint job_type_backoff_base_positive check (backoff_base >= '0'),
  backoff_factor double precision not null default 2 constraint job_type_backoff_factor_in_range check (backoff_factor between 1 and 100),
  backoff_cap    interval not null default '1 hour' constraint job_type_backoff_cap_positive check (backoff_cap >= '0'),
  backoff_jitter double precision not null default 0.5 constraint job_type_backoff_jitter_in_range check (backoff_jitter between 0 and 1),
  timeout        interval constraint job_type_timeout_positive check (timeout > '0'),
  max_running    int constraint job_type_max_running_positive check (max_running > 0),
  max_pending    int constraint job_type_max_pending_positive check (max_pending > 0),
  max_payload_bytes int not null default 1048576 constraint job_type_max_payload_in_range check (max_payload_bytes between 2 and 268435456),
  payload_check  jsonpath,
  accept         boolean not null default true,
  paused         boolean not null default false,
  publish_enqueued boolean not null default false,
  publish_started  boolean not null default false,
  dead_letter_alert int not null default 100 constraint job_type_alert_positive check (dead_letter_alert > 0),
  keep_finished  interval not null default '7 days' constraint job_type_keep_positive check (keep_finished >= '0'),
  overridden     text[] not null default '{}',
  created_at     timestamptz not null default fencepost_private.now(),
  updated_at     timestamptz not null default fencepost_private.now()
);

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
comment on column fencepost_private.worker.types is 'Types that it last claimed or declared.';
comment on column fencepost_private.worker.ttl is 'How long it may be silent before it is lost.';
comment on column fencepost_private.worker.status is 'active, draining, lost or stopped.';
comment on column fencepost_private.worker.started_at is 'When it registered.';
comment on column fencepost_private.worker.heartbeat_at is 'When it last gave a sign of life.';
comment on column fencepost_private.worker.suspect_at is 'When its silence was first noticed; null while it speaks.';
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
  timeout         interval constraint job_timeout_positive check (timeout > '0'),
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
-- Jobs that are due but wait for a slot of a key or pool. Empty until limits by key exist; part of the engine from
-- the first day so that every place is counted, listed and checked alike.
create table fencepost_private.parked (
  id        bigint primary key,
  lane_id   int not null,
  attempts  int not null,
  token     int not null,
  parked_at timestamptz not null,
  waits_for text not null
);
comment on table fencepost_private.parked is 'Jobs that are due but wait for a free slot of a key or pool.';
comment on column fencepost_private.parked.id is 'The job.';
comment on column fencepost_private.parked.lane_id is 'The lane it returns to.';
comment on column fencepost_private.parked.attempts is 'Attempts that count so far.';
comment on column fencepost_private.parked.token is 'The fencing token of its last claim; 0 before the first.';
comment on column fencepost_private.parked.parked_at is 'Since when it waits.';
comment on column fencepost_private.parked.waits_for is 'The key or pool whose slot it waits for.';
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

-- Jobs: helpers first, then what callers see
--! Included jobs/hooks.sql
-- Where workflows, batches and slots will join the engine. Each is called set-wise, once a statement, in the
-- transaction of the transition; today they have nothing to do.

create function fencepost_private.lock_runs_of(p_job_ids bigint[]) returns void
language sql volatile
return null;
comment on function fencepost_private.lock_runs_of(bigint[]) is 'Locks the workflow runs of these jobs in id order, before any of the jobs is locked. No job has a run yet.';

create function fencepost_private.jobs_ended(p_job_ids bigint[]) returns void
language sql volatile
return null;
comment on function fencepost_private.jobs_ended(bigint[]) is 'Called by every ending (completed, dead-lettered, cancelled, discarded) with the jobs that ended.';

create function fencepost_private.jobs_revived(p_job_ids bigint[]) returns void
language sql volatile
return null;
comment on function fencepost_private.jobs_revived(bigint[]) is 'Called by replay and resume with the jobs that live again.';
--! EndIncluded jobs/hooks.sql
--! Included jobs/job_status.sql
-- The status of one job, from the place that holds it: the one look-up by id. Null when there is no such job.
create function fencepost_private.job_status(p_job_id bigint)
returns text
language sql
volatile
set search_path = fencepost_private, pg_temp
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
-- A job whose idempotency key is taken is not stored: its row says which job has the key, and created = false.
-- Locks: rows of idempotency_key that it inserts, in key order; waits for a concurrent enqueue of the same key.
-- Errors: JE005 (key taken by another payload), JE006 (payload), JE007 (type closed or full).
create function fencepost_private.enqueue_rows(p_jobs fencepost_private.new_job[], p_now timestamptz)
returns table (ordinal int, job_id bigint, created boolean)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
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
  select bool_or(not t.accept or t.max_pending is not null
              or octet_length(j.payload::text) > t.max_payload_bytes
              or t.payload_check is not null and jsonb_path_match(j.payload, t.payload_check, silent => true) is not true),
         bool_or(t.publish_enqueued), bool_or(j.idempotency_key is not null), max(j.id)
    into v_suspect, v_publish, v_keyed, v_last
  from unnest(p_jobs) as j join job_type t on t.type_id = j.type_id;
  if v_suspect then
    perform check_new_jobs(p_jobs);
  end if;
  if v_keyed then
    v_known := claim_keys(p_jobs);
    if v_known <> '{}' then
      v_jobs := array(select j from unnest(p_jobs) as j where not v_known ? j.ordinal::text order by j.ordinal);
    end if;
  end if;

  if cardinality(v_jobs) > 0 then
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
    if v_last / 10000 <> (v_last - cardinality(v_jobs)) / 10000 then
      perform ensure_partitions();
    end if;
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
comment on function fencepost_private.enqueue_rows(fencepost_private.new_job[], timestamptz)
  is 'Stores jobs set-wise: checks, idempotency keys, bodies, places, depth, events, wake-up. Raises JE005, JE006, JE007.';

-- Names the first job that its type refuses, and why. Called only when one may be refused.
-- Errors: JE006, JE007.
create function fencepost_private.check_new_jobs(p_jobs fencepost_private.new_job[])
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v record;
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

  if v.problem = 'closed' then
    perform raise_error('JE007', format('type %s does not accept jobs now', v.type), format('job %s of the list', v.ordinal),
      format('An operator opens it again with fencepost.configure_type(%L, accept => true).', v.type));
  elsif v.problem = 'large' then
    perform raise_error('JE006', format('the payload for %s is too large', v.type),
      format('received %s bytes in job %s of the list; the limit is %s', v.bytes, v.ordinal, v.max_payload_bytes),
      'Store large data elsewhere and enqueue a reference to it, or raise max_payload_bytes of the type.');
  elsif v.problem = 'check' then
    perform raise_error('JE006', format('the payload for %s fails the check of its type', v.type),
      format('job %s of the list: received %s', v.ordinal, clipped(v.payload::text, 400)),
      format('It must satisfy the SQL/JSON path predicate %s', v.payload_check));
  else
    perform raise_error('JE007', format('the queue of %s is full', v.type), format('job %s of the list would exceed max_pending = %s', v.ordinal, v.max_pending),
      'Try again later, add workers, or raise max_pending of the type.');
  end if;
end
$$;
comment on function fencepost_private.check_new_jobs(fencepost_private.new_job[]) is 'Raises JE006 or JE007 for the first of these jobs that its type refuses.';

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

  select j.ordinal, j.idempotency_key, k.job_id into v_clash
  from unnest(p_jobs) as j
  join idempotency_key k on k.tenant = j.tenant and k.type_id = j.type_id and k.key = j.idempotency_key
  left join job b on b.id = k.job_id
  left join unnest(p_jobs) as o on o.id = k.job_id
  where k.job_id <> j.id and coalesce(b.payload, o.payload) is distinct from j.payload
  order by j.ordinal
  limit 1;
  if found then
    perform raise_error('JE005', format('idempotency key %s was already used with another payload', quote_literal(v_clash.idempotency_key)),
      format('job %s of the list; the key belongs to job %s', v_clash.ordinal, v_clash.job_id),
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
  perform check_job_options(enqueue.run_at, enqueue.delay, enqueue.idempotency_key, enqueue.max_attempts, enqueue.timeout, enqueue.headers);

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
  p_run_at timestamptz, p_delay interval, p_idempotency_key text, p_max_attempts int, p_timeout interval, p_headers jsonb, p_where text default '')
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_problem text[];
begin
  if p_run_at is null and p_delay is null and p_idempotency_key is null and p_max_attempts is null and p_timeout is null and p_headers is null then
    return;
  end if;
  v_problem := case
    when p_run_at is not null and p_delay is not null then
      array['give run_at or delay, not both', format('run_at = %s, delay = %s', p_run_at, p_delay), 'Use run_at for a moment, delay for a time from now.']
    when p_delay < interval '0' then
      array['the delay must not be negative', format('delay = %s', p_delay), 'Leave it out to run at once.']
    when not isfinite(p_run_at) then
      array['run_at must be a moment in time', format('run_at = %s', p_run_at), 'To hold work back without an end, pause the type.']
    when length(p_idempotency_key) not between 1 and 500 then
      array['the idempotency key must have 1 to 500 characters', format('%s characters', length(p_idempotency_key)), 'Hash a longer key.']
    when p_max_attempts not between 1 and 1000000 then
      array['max_attempts must be at least 1', format('max_attempts = %s', p_max_attempts), 'Use 1 for a job that must not be tried again.']
    when p_timeout <= interval '0' then
      array['the timeout must be longer than nothing', format('timeout = %s', p_timeout), 'Leave it out for no limit.']
    when jsonb_typeof(p_headers) <> 'object' then
      array['headers must be a JSON object', format('headers = %s', left(p_headers::text, 200)), 'For example {"traceparent": "…"}.']
  end;
  if v_problem is not null then
    perform raise_error('JE003', p_where || v_problem[1], 'received ' || v_problem[2], v_problem[3]);
  end if;
end
$$;
comment on function fencepost_private.check_job_options(timestamptz, interval, text, int, interval, jsonb, text)
  is 'Raises JE003 for the first option of a new job that makes no sense.';
--! EndIncluded jobs/enqueue.sql
--! Included jobs/enqueue_many.sql
-- Enqueues a list of jobs of any types, each with its own options: an array of objects with the parameters of
-- fencepost.enqueue as keys. All or nothing. Returns a row for each, in input order: its id, and whether it is new.
-- Errors: as enqueue; the message names the place in the list, counted from 1. Unknown keys are JE003.
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
  v_keys constant text[] := array['type', 'payload', 'priority', 'run_at', 'delay', 'idempotency_key', 'max_attempts', 'timeout', 'headers', 'tenant'];
  v_bad  record;
  v_rows new_job[];
begin
  if enqueue_many.jobs is null or jsonb_typeof(enqueue_many.jobs) <> 'array' then
    perform raise_error('JE003', 'jobs must be a JSON array of objects', format('received %s', coalesce(jsonb_typeof(enqueue_many.jobs), 'null')),
      'For example [{"type": "email.send", "payload": {"to": "a@b.c"}}].');
  end if;
  select e.ordinal, jsonb_typeof(e.item) as kind, k.key into v_bad
  from jsonb_array_elements(enqueue_many.jobs) with ordinality as e(item, ordinal)
  left join lateral (select o.key from jsonb_object_keys(case jsonb_typeof(e.item) when 'object' then e.item else '{}' end) as o(key)
                     where not o.key = any (v_keys) limit 1) as k on true
  where jsonb_typeof(e.item) <> 'object' or k.key is not null
  order by e.ordinal limit 1;
  if found then
    perform raise_error('JE003',
      case when v_bad.key is null then format('job %s of the list is not an object', v_bad.ordinal) else format('job %s of the list has the unknown key %s', v_bad.ordinal, quote_literal(v_bad.key)) end,
      format('received %s', coalesce(quote_literal(v_bad.key), v_bad.kind)),
      coalesce(did_you_mean(v_bad.key, v_keys), '') || 'Known keys: ' || array_to_string(v_keys, ', ') || '.');
  end if;

  begin
    v_rows := array(
      select row(null, e.ordinal, null, r.priority, coalesce(r.tenant, current_tenant()), coalesce(r.payload, '{}'), r.headers,
                 r.idempotency_key, r.max_attempts, r.timeout, coalesce(r.run_at, v_now + r.delay), null, null, null)::new_job
      from jsonb_array_elements(enqueue_many.jobs) with ordinality as e(item, ordinal)
      cross join lateral jsonb_to_record(e.item) as r(type text, payload jsonb, priority int, run_at timestamptz, delay interval, idempotency_key text, max_attempts int, timeout interval, headers jsonb, tenant text)
      order by e.ordinal);
  exception when data_exception or datetime_field_overflow or invalid_text_representation or invalid_datetime_format or numeric_value_out_of_range then
    perform raise_error('JE003', 'a job of the list has a value of the wrong kind', sqlerrm, 'priority and max_attempts are whole numbers, run_at is a time, delay and timeout are intervals such as "10 minutes".');
  end;

  perform check_lane(r.type, coalesce(r.priority, 5), format('job %s of the list: ', e.ordinal)),
          check_job_options(r.run_at, r.delay, r.idempotency_key, r.max_attempts, r.timeout, nullif(r.headers, 'null'), format('job %s of the list: ', e.ordinal))
  from jsonb_array_elements(enqueue_many.jobs) with ordinality as e(item, ordinal)
  cross join lateral jsonb_to_record(e.item) as r(type text, priority int, run_at timestamptz, delay interval, idempotency_key text, max_attempts int, timeout interval, headers jsonb);

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
  perform check_job_options(null, enqueue_batch.delay, null, null, null, null);

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
-- walk the dead head of the index; maintain() passes null and so finds what was committed late.
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
      from unnest(p_hint.late_x) as l(x)
      cross join lateral (select r.id from ready r where r.lane_id = p_lane_id and r.xid = l.x order by r.id limit 1) as first
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
as $$
  select p_lane_id, 0::bigint, 0::bigint, 0::bigint, '{}'::bigint[], '{}'::bigint[], '{}'::bigint[], '-infinity'::timestamptz, null::timestamptz
$$;
comment on function fencepost_private.no_hint(int) is 'The watermark of a lane about which nothing is known: the beginning.';
--! EndIncluded jobs/refresh_hint.sql
--! Included jobs/pick_lanes.sql
-- Which lanes a claim looks at, in order: highest priority first, and within a priority from a random start, so that
-- no type starves another. Stops after p_limit lanes that have work: the rows come sorted from the inner query and
-- the probes of hint and head are made lane by lane. Fairness and weights will replace this function alone.
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
  where head.id is not null or cardinality((newest.hint).late_x) > 0 or cardinality((newest.hint).held) > 0
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
        perform tell_started(v_lane.lane_id, p_worker_id, p_now);
      end if;
    end if;

    if v_hint.at < p_now - interval '200 milliseconds' then
      perform refresh_hint(v_lane.lane_id, v_hint, p_now);
    end if;
    exit when v_left <= 0;
  end loop;
end
$$;
comment on function fencepost_private.claim_jobs(int, text[], int, timestamptz)
  is 'Leases up to p_max jobs of these types to a worker, each under a new token. Never waits.';

-- For types that publish job.started: an event for each lease that this worker took at this instant.
create function fencepost_private.tell_started(p_lane_id int, p_worker_id int, p_now timestamptz)
returns void
language sql
volatile
set search_path = fencepost_private, pg_temp
as $$
  insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, attempt, token, worker_id, ready_at, started_at)
  select xid(), p_now, l.tenant, 'job.started', l.lane_id, l.id, l.run_id, l.task_id, l.attempts, l.token, l.worker_id, l.ready_at, l.started_at
  from lease l
  where l.worker_id = p_worker_id and l.started_at = p_now and l.lane_id = p_lane_id
$$;
comment on function fencepost_private.tell_started(int, int, timestamptz) is 'Writes job.started for the leases that a worker took at one instant from one lane.';
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
  if register_worker.name is null or length(register_worker.name) not between 1 and 200 then
    perform raise_error('JE003', 'a worker needs a name of 1 to 200 characters', format('received %s', coalesce(left(quote_literal(register_worker.name), 100), 'null')),
      'Use something that a person recognises, such as the service and host.');
  end if;
  if register_worker.ttl is null or register_worker.ttl not between interval '1 second' and interval '1 day' then
    perform raise_error('JE003', 'the ttl of a worker must be from 1 second to 1 day', format('received ttl = %s', coalesce(register_worker.ttl::text, 'null')),
      'The default is 30 seconds; a worker that never calls heartbeat() needs one longer than its jobs.');
  end if;

  -- again while another session registers the same name at the same time: the later one wins
  while v_id is null loop
    update worker w set status = 'lost', ended_at = v_now
    where w.name = register_worker.name and w.hostname = coalesce(register_worker.hostname, '') and w.slot = coalesce(register_worker.slot, 0)
      and w.status in ('active', 'draining')
    returning w.worker_id into v_old;
    insert into worker (name, hostname, slot, tenant, types, ttl, started_at, heartbeat_at, info)
    values (register_worker.name, coalesce(register_worker.hostname, ''), coalesce(register_worker.slot, 0), coalesce(register_worker.tenant, current_tenant()),
            coalesce(register_worker.types, '{}'), register_worker.ttl, v_now, v_now, register_worker.info)
    on conflict (name, hostname, slot) where status in ('active', 'draining') do nothing
    returning worker_id into v_id;
  end loop;
  insert into event (xid, at, tenant, kind, worker_id, data)
  select xid(), v_now, w.tenant, 'worker.lost', w.worker_id, jsonb_build_object('worker', w.name, 'reason', 'registered again', 'successor', v_id)
  from worker w where w.worker_id = v_old;
  return v_id;
end
$$;
comment on function fencepost.register_worker(text, text, int, text[], interval, int, jsonb, text)
  is 'Registers a worker process and returns its number, new for each incarnation; an older one of the same name, host and slot is lost. Raises JE003, JE011.';
--! EndIncluded jobs/register_worker.sql
--! Included jobs/claim.sql
-- Takes work: up to `max` jobs of these types, highest priority first, then oldest first.
--
-- A worker is known by its name. An unknown name is registered, and so is one that was lost: its old jobs are then
-- not its own any more. Call heartbeat() at least every third of the ttl while jobs run, or give a ttl longer than
-- any job takes. Types that nobody has enqueued yet simply have no jobs.
--
-- Locks: none that it waits for. Errors: JE003; JE010 is not raised (a lost worker starts anew).
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
begin
  perform check_claim(claim.types, claim.max);
  select w.worker_id, w.ttl, w.types, w.heartbeat_at into v_worker
  from worker w
  where w.name = claim.worker and w.status in ('active', 'draining')
  order by w.worker_id desc limit 1;
  if not found then
    v_id := fencepost.register_worker(claim.worker, types => claim.types, ttl => coalesce(claim.ttl, interval '30 seconds'));
  else
    v_id := v_worker.worker_id;
    if v_worker.heartbeat_at < v_now - v_worker.ttl / 3 or v_worker.ttl <> claim.ttl or not v_worker.types @> claim.types then
      update worker w
      set heartbeat_at = v_now, suspect_at = null, ttl = coalesce(claim.ttl, w.ttl), types = claim.types
      where w.worker_id = v_id and w.status in ('active', 'draining');
    end if;
  end if;
  if not enter_worker(v_id) then
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
  if p_types is null or array_position(p_types, null) is not null then
    perform raise_error('JE003', 'types must be an array of names', format('received %s', coalesce(p_types::text, 'null')), 'For example array[''email.send''].');
  end if;
  if p_max is null or p_max not between 0 and 10000 then
    perform raise_error('JE003', 'max must be from 0 to 10000', format('received max = %s', coalesce(p_max::text, 'null')), 'Claim no more than can start soon.');
  end if;
end
$$;
comment on function fencepost_private.check_claim(text[], int) is 'Raises JE003 when a claim makes no sense, or runs outside READ COMMITTED.';

-- Opens a worker's claim: takes its shared lock, then reads its status, in this order. The final sweep of an ended
-- worker takes the lock exclusively, so a claim that commits late is swept too. True: go on. False: it is draining.
-- Errors: JE010 when the worker is lost, stopped or unknown.
create function fencepost_private.enter_worker(p_worker_id int)
returns boolean
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
  perform raise_error('JE010', format('worker %s is %s', p_worker, coalesce(p_status::text, 'unknown')), format('received worker = %s', p_worker),
    'Its jobs belong to others now: stop their handlers, then register again with fencepost.register_worker().');
end
$$;
comment on function fencepost_private.raise_worker_lost(text, fencepost_private.worker_status) is 'Raises JE010 for a worker that is lost, stopped or unknown.';
--! EndIncluded jobs/claim.sql
--! Included jobs/complete_jobs.sql
-- Ends attempts well, set-wise: deletes their leases, writes one event each. Whoever does not hold (job, token) is
-- passed over; with p_worker_id the lease must also be that worker's. Returns the accepted jobs.
-- Locks: the leases, in id order.
create function fencepost_private.complete_jobs(p_ids bigint[], p_tokens int[], p_results jsonb[], p_worker_id int, p_now timestamptz)
returns bigint[]
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
  v_done  bigint[];
  v_types int[];
begin
  if p_ids is null or cardinality(p_ids) = 0 then
    return '{}'::bigint[];
  end if;
  perform lock_runs_of(p_ids);
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
  select (select array_agg(e.id) from ended e), (select array_agg(c.type_id) from counted c) into v_done, v_types;
  if v_done is null then
    return '{}'::bigint[];
  end if;
  perform jobs_ended(v_done);
  perform wake_limited(v_types);
  return v_done;
end
$$;
comment on function fencepost_private.complete_jobs(bigint[], int[], jsonb[], int, timestamptz)
  is 'Completes the attempts named by (job, token) and returns the accepted jobs; stale pairs are passed over.';

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

-- Refuses a result that is too large for its type. Errors: JE006.
create function fencepost_private.check_results(p_ids bigint[], p_results jsonb[])
returns void
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v record;
begin
  select u.id, octet_length(u.result::text) as bytes, t.max_payload_bytes into v
  from unnest(p_ids, coalesce(p_results, '{}')) as u(id, result)
  join lease l on l.id = u.id
  join lane n on n.lane_id = l.lane_id
  join job_type t on t.type_id = n.type_id
  where pg_column_size(u.result) > 2000 and octet_length(u.result::text) > t.max_payload_bytes
  limit 1;
  if found then
    perform raise_error('JE006', format('the result of job %s is too large', v.id), format('received %s bytes; the limit is %s', v.bytes, v.max_payload_bytes),
      'Store large data elsewhere and return a reference to it, or raise max_payload_bytes of the type.');
  end if;
end
$$;
comment on function fencepost_private.check_results(bigint[], jsonb[]) is 'Raises JE006 for the first result that is larger than its type allows.';

-- Both arrays of a batch must name pairs. Errors: JE003.
create function fencepost_private.check_pairs(p_ids bigint[], p_tokens int[], p_what text)
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
end
$$;
comment on function fencepost_private.check_pairs(bigint[], int[], text) is 'Raises JE003 unless there is one token for each job id.';
--! EndIncluded jobs/complete_jobs.sql
--! Included jobs/complete.sql
-- Completes one attempt, in the caller's transaction: what the handler wrote there, the result and the event are one
-- commit. When the lease was lost it raises, so the caller's transaction rolls back and nothing is done twice.
-- Locks: the lease; waits for a transaction that is ending the same attempt.
-- Errors: JE001 (stale token), JE002 (no such job), JE006 (result too large).
create function fencepost.complete(job_id bigint, token int, result jsonb default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform check_results(array[complete.job_id], array[complete.result]);
  if complete_jobs(array[complete.job_id], array[complete.token], array[complete.result], null, fencepost_private.now()) = '{}' then
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
-- Completes many attempts at once. Stale pairs are passed over: compare what comes back with what was sent.
-- Locks: the leases, in id order. Errors: JE003 (arrays of different length), JE006.
create function fencepost.complete_many(job_ids bigint[], tokens int[], results jsonb[] default null)
returns table (job_id bigint)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform check_pairs(complete_many.job_ids, complete_many.tokens, 'complete_many');
  perform check_results(complete_many.job_ids, complete_many.results);
  return query select unnest(complete_jobs(complete_many.job_ids, complete_many.tokens, complete_many.results, null, fencepost_private.now()));
end
$$;
comment on function fencepost.complete_many(bigint[], int[], jsonb[])
  is 'Completes the attempts named by (job, token) and returns the accepted jobs; stale pairs are passed over. Raises JE003, JE006.';
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
begin
  if p_ids is null or cardinality(p_ids) = 0 then
    return;
  end if;
  perform lock_runs_of(p_ids);
  v_xid := xid();
  with given as materialized (
    select u.id, u.token, clipped(coalesce(u.error, 'unknown error')) as error, u.details, u.retry_in, coalesce(u.permanent, false) as permanent
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
           p_now + coalesce(greatest(e.retry_in, interval '0'),
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
         array_agg(distinct j.type_id) filter (where j.verdict = 'retry'), array_agg(distinct j.type_id)
    into v_ids, v_marks, v_says, v_woken, v_types
  from judged j;
  if v_ids is null then
    return;
  end if;
  perform jobs_ended(array(select u.id from unnest(v_ids, v_says) as u(id, verdict) where u.verdict <> 'retry'));
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
--   details  anything structured that belongs to it: name, stack, cause
-- Returns 'retry', 'dead_letter' or 'cancelled' (cancellation had been asked for).
-- Locks: the lease. Errors: JE001 (stale token), JE002 (no such job), JE003 (negative retry_in).
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
  if fail.retry_in < interval '0' then
    perform raise_error('JE003', 'retry_in must not be negative', format('received retry_in = %s', fail.retry_in), 'Use 0 to try again at once.');
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
-- Fails many attempts at once; each array is as long as job_ids or left out. Stale pairs are passed over.
-- Locks: the leases, in id order. Errors: JE003.
create function fencepost.fail_many(
  job_ids bigint[], tokens int[], errors text[] default null, retry_in interval[] default null, permanent boolean[] default null, details jsonb[] default null)
returns table (job_id bigint, verdict text)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform check_pairs(fail_many.job_ids, fail_many.tokens, 'fail_many');
  return query
  select f.job_id, f.verdict
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
-- A short transaction of its own. Locks: the worker's row, and leases older than a ttl.
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
    select w.worker_id into v_id from worker w where w.name = heartbeat.worker order by w.worker_id desc limit 1;
  end if;
  return query
  select d.job_id, d.directive from beat(v_id, heartbeat.worker, heartbeat.job_ids, heartbeat.tokens, v_now) as d;
end
$$;
comment on function fencepost.heartbeat(text, bigint[], int[], int)
  is 'Keeps a worker and its leases alive; returns lost, cancel or timeout for the named jobs that need attention. Raises JE003, JE010.';

-- The heartbeat itself: one row of worker, and seen_at on the named leases that were not stamped for a ttl (so that
-- short jobs pay nothing). Returns directives for the named jobs.
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
  update worker w set heartbeat_at = p_now, suspect_at = null
  where w.worker_id = p_worker_id and w.status in ('active', 'draining')
  returning w.ttl, w.status into v_worker;
  if not found then
    perform raise_worker_lost(coalesce(p_name, p_worker_id::text), (select w.status from worker w where w.worker_id = p_worker_id));
  end if;

  update lease l set seen_at = p_now
  from (select u.id, u.token from unnest(p_ids, p_tokens) as u(id, token) order by u.id) as held
  where l.id = held.id and l.token = held.token and l.worker_id = p_worker_id
    and greatest(l.started_at, l.seen_at) < p_now - v_worker.ttl;

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
-- In this order: a heartbeat if one is due (with the jobs that still run); the completed and the failed attempts are
-- settled; new jobs are claimed. Results are fenced by (job, token) and by the worker's number.
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
  v_done   bigint[];
begin
  perform check_claim(exchange.types, exchange.max);
  perform check_pairs(exchange.completed_ids, exchange.completed_tokens, 'exchange (completed)');
  perform check_pairs(exchange.failed_ids, exchange.failed_tokens, 'exchange (failed)');
  perform check_pairs(exchange.running_ids, exchange.running_tokens, 'exchange (running)');
  v_active := enter_worker(exchange.worker_id);

  select w.heartbeat_at < v_now - w.ttl / 3 into v_due from worker w where w.worker_id = exchange.worker_id;
  if v_due then
    return query
    select b.directive, b.job_id, b.token, null::text, null::int, null::int, null::jsonb, null::jsonb, null::int, null::text, null::text,
           null::timestamptz, null::timestamptz, null::bigint, null::bigint
    from beat(exchange.worker_id, null, exchange.running_ids, exchange.running_tokens, v_now) as b;
  end if;

  if cardinality(exchange.completed_ids) > 0 then
    perform check_results(exchange.completed_ids, exchange.completed_results);
    v_done := complete_jobs(exchange.completed_ids, exchange.completed_tokens, exchange.completed_results, exchange.worker_id, v_now);
    if cardinality(v_done) < cardinality(exchange.completed_ids) then
      return query
      select 'lost', c.id, c.token, null::text, null::int, null::int, null::jsonb, null::jsonb, null::int, null::text, null::text,
             null::timestamptz, null::timestamptz, null::bigint, null::bigint
      from unnest(exchange.completed_ids, exchange.completed_tokens) as c(id, token)
      where not c.id = any (v_done);
    end if;
  end if;

  if cardinality(exchange.failed_ids) > 0 then
    return query
    with settled as (
      select f.job_id, f.verdict
      from fail_jobs(exchange.failed_ids, exchange.failed_tokens, exchange.failed_errors, exchange.failed_details,
                     exchange.failed_retry_in, exchange.failed_permanent, exchange.worker_id, 'failed', v_now) as f
    )
    select coalesce(s.verdict, 'lost'), f.id, f.token, null::text, null::int, null::int, null::jsonb, null::jsonb, null::int, null::text, null::text,
           null::timestamptz, null::timestamptz, null::bigint, null::bigint
    from unnest(exchange.failed_ids, exchange.failed_tokens) as f(id, token)
    left join settled s on s.job_id = f.id;
  end if;

  if v_active and exchange.max > 0 then
    return query
    select 'run', c.* from claim_jobs(exchange.worker_id, exchange.types, exchange.max, v_now) as c;
  end if;
end
$$;
comment on function fencepost.exchange(int, bigint[], int[], jsonb[], bigint[], int[], text[], jsonb[], interval[], boolean[], bigint[], int[], text[], int)
  is 'One round of a worker in one transaction: heartbeat if due, settle results, claim new work; returns directives and jobs. Raises JE003, JE006, JE010.';
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
-- ttls (it forgot them); leases past their deadline (timed_out).
-- A worker is closed only when no claim of it can be open (its lock was free) and a later statement finds no lease.
-- Locks: the leases, SKIP LOCKED.
create function fencepost_private.reclaim(p_limit int default 1000, p_now timestamptz default fencepost_private.now())
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_gone   int[] := array(select w.worker_id from worker w where not w.swept and w.status in ('lost', 'stopped'));
  v_quiet  int[] := array(select g from unnest(v_gone) as g where pg_try_advisory_xact_lock(lock_worker(), g));
  v_taken  record;
  v_count  bigint := 0;
begin
  with taken as materialized (
    select l.id, l.token, l.deadline <= p_now as is_overdue, l.started_at, l.deadline, w.name, w.worker_id,
           l.worker_id = any (v_gone) as is_gone
    from lease l
    left join worker w on w.worker_id = l.worker_id
    where l.worker_id = any (v_gone)
       or l.deadline <= p_now
       or greatest(l.started_at, l.seen_at) < p_now - 3 * coalesce(w.ttl, interval '30 seconds')
    limit p_limit
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

  select count(*) into v_count
  from fail_jobs(v_taken.ids, v_taken.tokens, v_taken.errors, null, null, null, null, 'lease_expired', p_now);
  v_count := v_count + (
    select count(*)
    from fail_jobs(v_taken.overdue_ids, v_taken.overdue_tokens, v_taken.overdue_errors, null, null, null, null, 'timed_out', p_now));

  if cardinality(v_quiet) > 0 then
    update worker w set swept = true
    where w.worker_id = any (v_quiet)
      and not exists (select from lease l where l.worker_id = any (v_quiet) and l.worker_id = w.worker_id);
  end if;
  return v_count;
end
$$;
comment on function fencepost_private.reclaim(int, timestamptz) is 'Takes back leases of gone workers, forgotten leases and overdue attempts, and closes swept workers. Returns how many.';
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
-- Locks: the rows of the places that hold them.
create function fencepost_private.cancel_jobs(p_ids bigint[], p_reason text, p_now timestamptz)
returns table (job_id bigint, verdict text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_xid    bigint;
  v_ended  bigint[];
  v_told   bigint;
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
  select array_agg(e.id) into v_ended from ended e;

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

  perform jobs_ended(v_ended);
  return query
  select u.id, 'cancelled'::text from unnest(v_ended) as u(id)
  union all
  select l.id, 'cancel_requested' from lease l where l.id = any (p_ids);   -- also those that had been asked before
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
  perform jobs_ended(v_ids);
  return coalesce(cardinality(v_ids), 0);
end
$$;
comment on function fencepost_private.discard_jobs(bigint[], text) is 'Gives these dead letters up; others are passed over. Returns how many.';
--! EndIncluded jobs/discard.sql
--! Included jobs/progress.sql
-- Tells how far a running job is: any JSON. Only the latest is kept, so report when a person would care, not in a
-- tight loop. Locks: the lease (shared). Errors: JE001, JE002, JE003 (null).
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
  insert into progress as p (job_id, token, value, at)
  values (progress.job_id, progress.token, progress.value, fencepost_private.now())
  on conflict (job_id) do update set token = excluded.token, value = excluded.value, at = excluded.at;
end
$$;
comment on function fencepost.progress(bigint, int, jsonb) is 'Records the latest progress of a running job. Raises JE001, JE002, JE003.';
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
returns table (job_id bigint)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_now   timestamptz := fencepost_private.now();
  v_xid   bigint;
  v_done  bigint[];
  v_types int[];
begin
  perform check_pairs(release_many.job_ids, release_many.tokens, 'release_many');
  if coalesce(cardinality(release_many.job_ids), 0) = 0 then
    return;
  end if;
  perform lock_runs_of(release_many.job_ids);
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
  select (select array_agg(e.id) from ended e), (select array_agg(c.type_id) from counted c) into v_done, v_types;
  perform jobs_ended(array(select u.id from unnest(v_done) as u(id) where job_status(u.id) = 'cancelled'));
  perform wake(v_types);
  return query select unnest(v_done);
end
$$;
comment on function fencepost.release_many(bigint[], int[])
  is 'Gives attempts back unstarted, without counting them; returns the accepted jobs. Raises JE003.';
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

-- The same, set-wise; jobs that are not dead-lettered are passed over. Returns how many were replayed.
create function fencepost_private.replay_jobs(p_ids bigint[])
returns int
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now   timestamptz := fencepost_private.now();
  v_xid   bigint;
  v_ids   bigint[];
  v_types int[];
begin
  perform lock_runs_of(p_ids);
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
  perform jobs_revived(v_ids);
  perform wake(v_types);
  return coalesce(cardinality(v_ids), 0);
end
$$;
comment on function fencepost_private.replay_jobs(bigint[]) is 'Returns these dead letters to work; others are passed over. Returns how many.';

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
  perform jobs_revived(v_ids);
  perform wake(v_types);
  return coalesce(cardinality(v_ids), 0);
end
$$;
comment on function fencepost_private.resume_jobs(bigint[], jsonb, timestamptz) is 'Brings these suspended jobs back to work; others are passed over. Returns how many.';

-- Resumes those whose time has come, at most p_limit. A step of maintain().
create function fencepost_private.resume_due(p_limit int default 1000, p_now timestamptz default fencepost_private.now())
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_due bigint[] := array(select s.id from suspended s where s.wake_at <= p_now order by s.wake_at limit p_limit);
begin
  if cardinality(v_due) = 0 then
    return 0;
  end if;
  return resume_jobs(v_due, null, p_now);
end
$$;
comment on function fencepost_private.resume_due(int, timestamptz) is 'Resumes up to p_limit suspended jobs whose time has come. Returns how many.';
--! EndIncluded jobs/resume.sql
--! Included jobs/step.sql
-- Records a checkpoint of a running job, once: the first value stays, and later calls get it back. A retried attempt
-- so skips what an earlier one has done.
-- Locks: the lease is read under a share lock, so that a fenced attempt records nothing.
-- Errors: JE001, JE002, JE003 (name).
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
  insert into step (job_id, name, value, token, at)
  values (step.job_id, step.name, step.value, step.token, fencepost_private.now())
  on conflict on constraint step_pkey do nothing;
  select s.value into v_value from step s where s.job_id = step.job_id and s.name = step.name;
  return v_value;
end
$$;
comment on function fencepost.step(bigint, int, text, jsonb) is 'Records a checkpoint of a running job once and returns what is recorded. Raises JE001, JE002, JE003.';

-- Locks the lease against its end, until commit. Errors: JE001, JE002.
create function fencepost_private.hold_lease(p_job_id bigint, p_token int)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  perform from lease l where l.id = p_job_id and l.token = p_token for share;
  if not found then
    perform raise_lease_lost(p_job_id, p_token);
  end if;
end
$$;
comment on function fencepost_private.hold_lease(bigint, int) is 'Share-locks a lease to the end of the transaction. Raises JE001, JE002.';
--! EndIncluded jobs/step.sql
--! Included jobs/suspend.sql
-- A handler steps aside to wait: the job leaves its worker, holds no lease and no slot, and comes back under a new
-- token, at wake_at (or after delay) or when resume() is called, whichever is first. The attempt does not count.
--   waits_for  a name for what it waits for; resume() stores its data as the step of that name
-- Locks: the lease. Errors: JE001, JE002, JE003.
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
  v_wake   timestamptz := coalesce(suspend.wake_at, v_now + suspend.delay);
  v_xid    bigint;
  v_types  int[];
begin
  perform check_job_options(suspend.wake_at, suspend.delay, suspend.waits_for, null, null, null, 'suspend: ');
  perform lock_runs_of(array[suspend.job_id]);
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

-- Operating: counters, housekeeping, settings, answers to "why"
--! Included operate/depth.sql
-- How many jobs stand where, exact in the reader's snapshot and without counting them: the newest folded base of a
-- type, plus the deltas that it has not counted: those of transactions at or above its x, and of those in its xip.
-- Deltas that are folded leave dead index entries below x; no reader ever walks them.

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
      select n.* from unnest(b.xip) as e(x) join depth_delta n on n.type_id = t.type_id and n.xid = e.x where e.x < b.x
    ) as u
  ) as d
  where p_type_id is null or t.type_id = p_type_id
$$;
comment on function fencepost_private.depth(int) is 'Jobs by type and place, exact in this snapshot, from counters.';

-- The two that the hot path asks for one type, own uncommitted changes included.
create function fencepost_private.running(p_type_id int)
returns bigint
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  with base as materialized (
    select b.x, b.xip, b.running as jobs from depth_base b where b.type_id = p_type_id order by b.seq desc limit 1
  )
  select coalesce((select b.jobs from base b), 0)
       + coalesce((select sum(d.running) from depth_delta d
                   where d.type_id = p_type_id and d.xid >= coalesce((select b.x from base b), 0)), 0)
       + coalesce((select sum(d.running) from base b cross join unnest(b.xip) as e(x) join depth_delta d on d.type_id = p_type_id and d.xid = e.x
                   where e.x < b.x), 0)
$$;
comment on function fencepost_private.running(int) is 'How many jobs of a type are running, exact in this snapshot, from counters.';

create function fencepost_private.pending(p_type_id int)
returns bigint
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  with base as materialized (
    select b.x, b.xip, b.ready + b.delayed + b.parked as jobs from depth_base b where b.type_id = p_type_id order by b.seq desc limit 1
  )
  select coalesce((select b.jobs from base b), 0)
       + coalesce((select sum(d.ready + d.delayed + d.parked) from depth_delta d
                   where d.type_id = p_type_id and d.xid >= coalesce((select b.x from base b), 0)), 0)
       + coalesce((select sum(d.ready + d.delayed + d.parked)
                   from base b cross join unnest(b.xip) as e(x) join depth_delta d on d.type_id = p_type_id and d.xid = e.x
                   where e.x < b.x), 0)
$$;
comment on function fencepost_private.pending(int) is 'How many jobs of a type wait (ready, delayed or parked), exact in this snapshot, from counters.';
--! EndIncluded operate/depth.sql
