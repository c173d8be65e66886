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
