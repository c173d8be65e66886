-- doctor, of housekeeping, partitions and the schema.
create function fencepost_private.doctor_housekeeping(p_now timestamptz)
returns table (severity text, finding text, why text, remedy text, topic text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  if is_restored() then
    return query select 'error', 'this database was restored from a dump: its rows carry transaction numbers of another server',
      'Claims may miss jobs; housekeeping refuses to run, and so does whatever reads the event log.',
      'Stop workers, relays and consumers; in a copy that must not deliver, pause webhooks and drop consumers; then: select * from fencepost.after_restore();', 'restored';
  end if;

  return query
  select 'warning', case when m.last_at is null then 'maintain() has never run' else format('maintain() last ran at %s', m.last_at) end,
         'Delayed jobs, retries and the work of lost workers wait for it.',
         'A running worker calls it each second. Without workers: select * from fencepost.maintain(); from a scheduler.', 'maintain'
  from maintain_step m
  where m.step = 'create_partitions' and coalesce(m.last_at, '-infinity') < p_now - interval '3 minutes'
  union all
  select case when m.failures >= 20 then 'error' else 'warning' end, format('the step %s of maintain() failed %s times in a row: %s', m.step, m.failures, m.error),
         'What it does is not done.',
         case when m.error like '55P03%' then 'It waits for a lock of 20 ms on a whole table: some transaction holds it open all the time. See the findings on sessions.'
              else 'Mend what the error says; the step goes on by itself.' end, 'maintain_failing'
  from maintain_step m where m.failures >= 3
  union all
  select 'warning', format('the step %s of maintain() failed %s times in a row for %s %s: %s', f.step, f.failures, case when f.step like '%\_runs' then 'run' else 'job' end, f.item, f.error),
         'It stays as it is, and all others go on.',
         case when f.error like '55P03%' then 'It waits for a lock: some transaction holds it open all the time. See the findings on sessions.'
              else 'Mend what the error says; it is tried again each ten minutes at the latest.' end, 'maintain_failing'
  from (select i.* from maintain_failure i where i.failures >= 3 order by i.first_at, i.item limit 10) as f
  union all
  select 'warning', 'delayed jobs are due and not promoted: the first since ' || d.available_at, 'They start late.', 'Let maintain() run each second.', 'unpromoted'
  from (select i.available_at from delayed i order by i.available_at limit 1) as d where d.available_at < p_now - interval '1 minute';

  return query
  select 'error', format('%s ids are left in the partitions of %s', greatest(p.end_id - p.last_id, 0), p.parent),
         'Enqueues and completions fail when they run out.',
         'select fencepost_private.create_partitions(); if it returns 0, a session holds a lock on the table or the owner may not create tables.', 'partitions'
  from (
    select t.parent, last_id(t.parent) as last_id, coalesce(max(p.end_id), 0) as end_id
    from (values ('job'), ('event')) as t(parent)
    left join lateral partitions(t.parent) p on true
    group by t.parent
  ) as p
  where p.end_id - p.last_id < 500000
  union all
  select 'info', format('%s has %s partitions', p.parent, p.partitions), 'Each is looked at by every plan; above thirty or so, the first claims of a session are slow.',
         'Shorten keep_finished, or decide about old dead letters and delayed jobs: they hold their partition.', 'many_partitions'
  from (
    select t.parent, count(*) as partitions from (values ('job'), ('event')) as t(parent) cross join lateral partitions(t.parent) p group by t.parent
  ) as p
  where p.partitions > 24;

  return query
  select 'info', coalesce('schema version ' || m.number || ' (' || m.name || '), applied at ' || m.applied_at, 'the schema was installed without recording a version'),
         'Clients and schema must fit each other.', 'fencepost migrate brings it up to date.', 'version'
  from (select 1) as one left join (select i.number, i.name, i.applied_at from migration i order by i.number desc limit 1) as m on true;
end
$$;
comment on function fencepost_private.doctor_housekeeping(timestamptz) is 'doctor, of housekeeping, partitions and the schema.';
