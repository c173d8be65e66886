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
