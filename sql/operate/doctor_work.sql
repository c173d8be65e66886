-- doctor, of types, jobs and workers.
create function fencepost_private.doctor_work(p_now timestamptz)
returns table (severity text, finding text, why text, remedy text, topic text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  with stats as materialized (select i.* from fencepost.stats() i)
  select 'warning', format('jobs of type %s wait (%s of them) and no live worker claims it%s', s.type, s.pending,
           ': the oldest for ' || round(s.oldest_ready_seconds) || ' s'),
         'They wait for ever.',
         coalesce((select 'A worker claims ' || quote_literal(n.type) || ': is one of the names misspelt? '
                   from (select distinct u.type from worker w cross join unnest(w.types) as u(type) where w.status = 'active') as n
                   where did_you_mean(n.type, array[s.type]) is not null and not exists (select from stats o where o.type = n.type and o.enqueued_total > 0) limit 1), '')
           || format('Start a worker for %s, or cancel the jobs.', s.type), 'no_worker'
  from stats s where s.pending > 0 and s.workers = 0 and not s.paused
  union all
  select 'warning', format('ready jobs of type %s have waited up to %s s', s.type, round(s.oldest_ready_seconds)),
         'Work comes in faster than it is done, or its workers are stuck.',
         'Add workers, or look at what they run: select * from fencepost.leases.', 'slow'
  from stats s where s.oldest_ready_seconds > 600 and s.workers > 0 and not s.paused
  union all
  select 'info', format('type %s is paused%s%s; %s of its jobs wait', s.type, ' by ' || p.paused_by || ' since ' || p.paused_at, ' (' || p.reason || ')', s.pending),
         'Its jobs are not claimed.', format('select fencepost.resume_type(%L);', s.type), 'paused'
  from stats s
  join job_type t on t.type = s.type
  left join type_pause p on p.type_id = t.type_id
  where s.paused
  union all
  select 'warning', format('type %s has %s dead letters (it alerts at %s)', s.type, s.dead_letter, s.dead_letter_alert),
         'Each is work that nobody has done.',
         format('select * from fencepost.dead_letter where type = %L; then fencepost.replay_matching() or fencepost.discard_matching().', s.type), 'dead_letters'
  from stats s where s.dead_letter >= s.dead_letter_alert
  union all
  select 'warning', format('the queue of type %s is full: %s wait of at most %s', s.type, s.pending, s.max_pending),
         'Enqueues are refused with JE007.', format('Add workers, or select fencepost.configure_type(%L, max_pending => …);', s.type), 'full'
  from stats s where s.pending >= s.max_pending
  union all
  select 'info', format('type %s refuses enqueues', s.type), 'Producers get JE007.', format('select fencepost.configure_type(%L, accept => true);', s.type), 'closed'
  from stats s where not s.accept;

  return query
  select 'info', format('worker %s claims type %s, which nobody has ever enqueued', min(w.name), u.type),
         'Harmless, unless the name is misspelt.',
         coalesce(did_you_mean(u.type, array(
           select t.type from job_type t
           where t.type <> u.type and not exists (select from worker o where o.status in ('active', 'draining') and t.type = any (o.types)) limit 1000)), '') || 'Compare it with select type from fencepost.types.', 'unknown_type'
  from worker w
  cross join unnest(w.types) as u(type)
  where w.status in ('active', 'draining')
    and not exists (select from job_type t cross join depth(t.type_id) d where t.type = u.type and d.enqueued > 0)
  group by u.type;

  return query
  select 'warning', format('%s workers were lost in the last hour, the last one %s at %s', count(*), (array_agg(w.name order by w.ended_at desc))[1], max(w.ended_at)),
         'Their attempts ended as lease_expired and count; what they were doing runs again.', 'Look at why they fell silent: memory, crashes, a blocked event loop, a network cut.', 'lost_workers'
  from worker w where w.status = 'lost' and w.ended_at > p_now - interval '1 hour'
  having count(*) > 0
  union all
  select 'warning', format('worker %s (%s) is %s since %s and its jobs are not taken back yet', w.name, w.worker_id, w.status, w.ended_at),
         'They wait for maintain().', 'Let maintain() run each second.', 'unswept'
  from worker w
  where w.status in ('lost', 'stopped') and not w.swept and w.ended_at < p_now - interval '5 minutes';
end
$$;
comment on function fencepost_private.doctor_work(timestamptz) is 'doctor, of types, jobs and workers.';
