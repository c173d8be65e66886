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
