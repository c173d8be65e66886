-- Dropping partitions whose rows are all old. It needs the whole table for an instant, so it tries for 20 ms, backs
-- off when that fails (see maintain), and does nothing else in its transaction.

-- Before a partition of job goes, the idempotency keys, steps and progress of its jobs do, in batches: so a key never
-- names a job that is gone. Returns how many rows were removed.
create function fencepost_private.clear_partition(p_limit int default 20000)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_due  record;
  v_keys bigint;
  v_step bigint;
  v_told bigint;
begin
  select d.first_id, d.end_id into v_due from due_partition() as d;
  if v_due.first_id is null then
    return 0;
  end if;
  delete from idempotency_key k where k.ctid = any (array(
    select o.ctid from idempotency_key o where o.job_id >= v_due.first_id and o.job_id < v_due.end_id limit p_limit));
  get diagnostics v_keys = row_count;
  delete from step s where s.ctid = any (array(
    select o.ctid from step o where o.job_id >= v_due.first_id and o.job_id < v_due.end_id limit p_limit));
  get diagnostics v_step = row_count;
  delete from progress g where g.ctid = any (array(
    select o.ctid from progress o where o.job_id >= v_due.first_id and o.job_id < v_due.end_id limit p_limit));
  get diagnostics v_told = row_count;
  return v_keys + v_step + v_told;
end
$$;
comment on function fencepost_private.clear_partition(int) is 'A step of maintain(): removes keys, steps and progress of a partition that is about to be dropped. Returns how many rows.';

-- The oldest partition of job whose jobs all ended longer ago than any type keeps them.
create function fencepost_private.due_partition(out name text, out first_id bigint, out end_id bigint)
language sql
stable
set search_path = fencepost_private, pg_temp
as $$
  select p.name, p.first_id, p.end_id
  from partition_fate f
  join partitions('job') p on p.name = f.partition
  where f.drained_at <= fencepost_private.now() - greatest(longest_keep(), interval '1 minute')
  order by p.first_id
  limit 1
$$;
comment on function fencepost_private.due_partition() is 'The oldest partition of job that may be dropped; nulls when there is none.';

-- Drops one partition, of job or else of event. Returns how many were dropped.
-- Locks: the parent table and the partition, ACCESS EXCLUSIVE, for at most 20 ms of waiting; then it raises
-- lock_not_available. The other partitions are not touched: a vacuum of one of them does not stop it.
create function fencepost_private.drop_partition()
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set lock_timeout = '20ms'
as $$
declare
  v_due record;
begin
  select d.* into v_due from due_partition() as d;
  if v_due.name is not null and not is_kept(v_due.first_id, v_due.end_id) then
    if is_inhabited(v_due.first_id, v_due.end_id) then
      delete from partition_fate f where f.partition = v_due.name;
      return 0;
    end if;
    lock table only job in access exclusive mode;
    if is_inhabited(v_due.first_id, v_due.end_id) then     -- a new statement, after the lock
      raise exception 'a job of partition % came back to life', v_due.name;
    end if;
    execute format('drop table fencepost_private.%I', v_due.name);
    delete from partition_fate f where f.partition = v_due.name;
    return 1;
  end if;

  for v_due in select p.* from partitions('event') p where p.end_id <= last_id('event') order by p.first_id loop
    if is_spent(v_due.first_id, v_due.end_id) then
      lock table only event in access exclusive mode;
      if not is_spent(v_due.first_id, v_due.end_id) then     -- a new statement: whoever wrote to it has committed
        raise exception 'partition % was written to meanwhile', v_due.name;
      end if;
      execute format('drop table fencepost_private.%I', v_due.name);
      return 1;
    end if;
  end loop;
  return 0;
end
$$;
comment on function fencepost_private.drop_partition() is 'A step of maintain(): drops one partition of which nothing is needed any more. Returns how many.';

-- Whether something still hangs on a partition of job: clear_partition has not finished.
create function fencepost_private.is_kept(p_first bigint, p_end bigint)
returns boolean
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set jit = off
as $$
  select exists (select from idempotency_key k where k.job_id >= p_first and k.job_id < p_end)
      or exists (select from step s where s.job_id >= p_first and s.job_id < p_end)
      or exists (select from progress g where g.job_id >= p_first and g.job_id < p_end)
$$;
comment on function fencepost_private.is_kept(bigint, bigint) is 'Whether keys, steps or progress of these jobs are left.';

-- Whether a partition of event tells nothing that is still needed: all in it is older than the longest keep_finished,
-- counted in the totals and read by every consumer, and no body is left of any job it tells of. Looks at no more than 20,000 bodies; when
-- there are more in the range of its jobs, it is not spent yet.
create function fencepost_private.is_spent(p_first bigint, p_end bigint)
returns boolean
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
  v_newest record;
  v_lowest bigint;
  v_highest bigint;
begin
  select e.xid, e.at into v_newest from event e where e.id >= p_first and e.id < p_end order by e.xid desc limit 1;
  if not found then
    return true;
  end if;
  if v_newest.at > fencepost_private.now() - longest_keep()
     or v_newest.xid >= coalesce((select b.x from outcome_base b order by b.seq desc limit 1), 0)
     or is_unread(p_first, p_end) then
    return false;
  end if;

  select e.job_id into v_lowest from event e where e.id >= p_first and e.id < p_end and e.job_id is not null order by e.job_id limit 1;
  select e.job_id into v_highest from event e where e.id >= p_first and e.id < p_end and e.job_id is not null order by e.job_id desc limit 1;
  return not exists (
      select from (select b.id from job b where b.id between v_lowest and v_highest order by b.id limit 20000) as left_over
      where exists (select from event e where e.job_id = left_over.id and e.id >= p_first and e.id < p_end))
    and not exists (select from job b where b.id between v_lowest and v_highest order by b.id offset 20000 limit 1);
end
$$;
comment on function fencepost_private.is_spent(bigint, bigint) is 'Whether no body is left of any job that this range of events tells of, and all in it is old, counted and read.';
