-- doctor, of sessions: who keeps dead rows alive (for longer than p_snapshot), who holds claims open (p_claim).
create function fencepost_private.doctor_sessions(p_snapshot interval default '5 minutes', p_claim interval default '10 seconds')
returns table (severity text, finding text, why text, remedy text, topic text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_why constant text := 'Dead rows of the whole database pile up behind it. Claims stay fast, but tables grow, and other queues and reports slow down.';
begin
  return query
  select case when a.age > interval '1 hour' then 'error' else 'warning' end,
         format('session %s (%s, %s) has held a transaction open for %s', a.pid, coalesce(nullif(a.application_name, ''), 'no name'), a.state, date_trunc('second', a.age)),
         v_why, format('End it: select pg_terminate_backend(%s); and set idle_in_transaction_session_timeout.', a.pid), 'held_snapshot'
  from (
    select s.pid, s.application_name, s.state, clock_timestamp() - s.xact_start as age
    from pg_stat_activity s
    where s.backend_type = 'client backend' and s.pid <> pg_backend_pid()
      and (s.backend_xmin is not null or s.backend_xid is not null) and s.xact_start < clock_timestamp() - p_snapshot
      and s.wait_event_type is distinct from 'Lock'      -- who waits for another is no culprit: see the next
  ) as a
  union all
  select 'warning', format('the prepared transaction %s of %s is open since %s', quote_literal(p.gid), p.owner, p.prepared), v_why,
         format('commit prepared %L; or rollback prepared %L;', p.gid, p.gid), 'held_snapshot'
  from pg_prepared_xacts p where p.prepared < clock_timestamp() - p_snapshot
  union all
  select 'warning', format('replication slot %s holds back transaction %s (%s transactions behind)', r.slot_name, r.xmin, age(r.xmin)), v_why,
         format('Let its consumer catch up, or select pg_drop_replication_slot(%L);', r.slot_name), 'held_snapshot'
  from (select s.slot_name, coalesce(s.xmin, s.catalog_xmin) as xmin from pg_replication_slots s where s.xmin is not null) as r
  where age(r.xmin) > 100000
  union all
  select 'warning', format('standby %s holds back transaction %s by hot_standby_feedback (%s transactions behind)', r.application_name, r.backend_xmin, age(r.backend_xmin)), v_why,
         'End the long query on the standby.', 'held_snapshot'
  from pg_stat_replication r where age(r.backend_xmin) > 100000;

  -- who waits for the end of a transaction while it writes one of our tables, and whose that is: the first job of a type or
  -- priority, a job, a key, a setting
  return query
  select 'warning', format('%s sessions wait for the transaction of %s', count(distinct w.pid),
           coalesce(format('session %s (%s, %s), open for %s', a.pid, coalesce(nullif(a.application_name, ''), 'no name'), a.state, date_trunc('second', clock_timestamp() - a.xact_start)),
             format('prepared transaction %L', p.gid))),
         'It made or holds what they need: a new type or priority, a job, a key, a setting. They go on when it ends.',
         coalesce(format('Let it commit, or select pg_terminate_backend(%s);', a.pid), format('commit prepared %L; or rollback prepared %1$L;', p.gid))
           || ' Types that are declared when a release is deployed (declare_type) are not made in transactions that last.', 'blocked'
  from pg_locks w
  join pg_locks h on h.locktype = 'transactionid' and h.transactionid = w.transactionid and h.granted and h.mode = 'ExclusiveLock'
  left join pg_stat_activity a on a.pid = h.pid
  left join pg_prepared_xacts p on p.transaction = h.transactionid
  where w.locktype = 'transactionid' and not w.granted and (a.pid is not null or p.gid is not null)
    and exists (
      select from pg_locks r join pg_class c on c.oid = r.relation
      where r.pid = w.pid and r.granted and r.mode = 'RowExclusiveLock' and c.relnamespace = 'fencepost_private'::regnamespace)
    and w.waitstart < clock_timestamp() - p_claim
  group by a.pid, a.application_name, a.state, a.xact_start, p.gid;

  return query
  select 'warning', format('session %s has kept its claim of type %s open for %s', k.pid, t.type, date_trunc('second', clock_timestamp() - a.xact_start)),
         'The type has max_running, so its claims are taken in turn: nobody else can claim it meanwhile.',
         format('Commit right after a claim. To end it: select pg_terminate_backend(%s);', k.pid), 'claim_open'
  from pg_locks k
  join job_type t on t.type_id::oid = k.objid
  join pg_stat_activity a on a.pid = k.pid
  where k.locktype = 'advisory' and k.granted and k.classid = lock_type()::oid and k.objsubid = 2 and k.pid <> pg_backend_pid()
    and k.database = (select d.oid from pg_database d where d.datname = current_database())
    and a.xact_start < clock_timestamp() - p_claim;

  if not pg_has_role('pg_read_all_stats', 'usage') then
    return query select 'info', format('the role %s cannot see what other sessions do', current_user), 'Held snapshots of other roles go unnoticed.',
      format('grant pg_monitor to %I;', current_user), 'blind';
  end if;
end
$$;
comment on function fencepost_private.doctor_sessions(interval, interval) is 'doctor, of sessions that hold snapshots or claims.';

-- doctor, of the server's and the tables' settings.
create function fencepost_private.doctor_server()
returns table (severity text, finding text, why text, remedy text, topic text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  select 'warning', format('%s of table %s is %s, and ships as %s', w.name, w.tab, coalesce(o.option_value, 'not set'), w.value),
         'The hot tables are small only while they are vacuumed often.', format('alter table fencepost_private.%I set (%s = %s);', w.tab, w.name, w.value), 'autovacuum'
  from (values
    ('ready', 'autovacuum_vacuum_scale_factor', '0'), ('ready', 'autovacuum_vacuum_threshold', '5000'), ('ready', 'autovacuum_vacuum_cost_delay', '0'),
    ('lease', 'autovacuum_vacuum_scale_factor', '0'), ('lease', 'autovacuum_vacuum_threshold', '5000'), ('lease', 'autovacuum_vacuum_cost_delay', '0'),
    ('lease', 'fillfactor', '80'),
    ('depth_delta', 'autovacuum_vacuum_scale_factor', '0'), ('depth_delta', 'autovacuum_vacuum_threshold', '5000'),
    ('delayed', 'autovacuum_vacuum_threshold', '5000'), ('lane_hint', 'autovacuum_vacuum_threshold', '1000')
  ) as w(tab, name, value)
  left join pg_class c on c.relnamespace = 'fencepost_private'::regnamespace and c.relname = w.tab
  left join lateral (select i.option_value from pg_options_to_table(c.reloptions) i where i.option_name = w.name) as o on true
  where o.option_value is distinct from w.value
  union all
  select 'error', format('autovacuum is disabled for table %s', c.relname), 'It grows without bound, and so does the cost of claims.',
         format('alter table fencepost_private.%I reset (autovacuum_enabled);', c.relname), 'autovacuum'
  from pg_class c cross join lateral pg_options_to_table(c.reloptions) o
  where c.relnamespace = 'fencepost_private'::regnamespace and o.option_name = 'autovacuum_enabled' and lower(o.option_value) in ('false', 'off', 'no', '0', 'f', 'n')
  union all
  select 'error', format('%s is off', s.name), 'The hot tables grow without bound, and so does the cost of claims.', format('alter system set %I = on; select pg_reload_conf();', s.name), 'autovacuum'
  from pg_settings s where s.name in ('autovacuum', 'track_counts') and s.setting = 'off'
  union all
  select 'warning', format('%s is off', s.name), 'After a crash of the machine the database may be lost or corrupt, and the jobs with it.',
         format('alter system set %I = on; and restart the server.', s.name), 'durability'
  from pg_settings s where s.name in ('fsync', 'full_page_writes') and s.setting = 'off'
  union all
  select 'info', 'synchronous_commit is off', 'The last instant of enqueues and completions before a crash may be lost. Claims are synchronous all the same.',
         'Leave it on where each enqueue must last.', 'durability'
  from pg_settings s where s.name = 'synchronous_commit' and s.setting = 'off'
  union all
  select case when u.used > 0.5 then 'error' else 'warning' end, format('the queue of notifications is %s%% full', round(u.used::numeric * 100)),
         'Some session listens and never reads. When it is full, every commit with a notification fails.',
         'End the listening session that is idle in a transaction: see pg_stat_activity.', 'notifications'
  from pg_notification_queue_usage() as u(used) where u.used > 0.1;
end
$$;
comment on function fencepost_private.doctor_server() is 'doctor, of the settings of server and tables.';
