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
