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
