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
