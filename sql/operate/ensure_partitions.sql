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
