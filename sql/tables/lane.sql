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
