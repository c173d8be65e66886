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
