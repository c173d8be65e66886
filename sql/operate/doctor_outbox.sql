-- doctor, of consumers of the event log, but for those of webhooks. One that has read within ten minutes, or has little
-- to read, is well.
create function fencepost_private.doctor_outbox(p_now timestamptz)
returns table (severity text, finding text, why text, remedy text, topic text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  with consumers as materialized (
    select i.*, (select s.token > 0 from consumer k cross join lateral newest_state(k.consumer_id) as s where k.name = i.name) as was_read
    from fencepost.consumers i where not exists (select from webhook w where webhook_consumer(w.name) = i.name))
  select 'error', format('consumer %s fell behind its max_lag of %s and expired at %s', c.name, c.max_lag, c.expired_at),
         'It reads nothing any more, and the log is no longer kept for it: events between its position and what is kept may be lost to it.',
         format('Decide what a gap means, then: select fencepost.seek_consumer(%L, %L); or, if nobody needs it: select fencepost.drop_consumer(%1$L);', c.name, 'beginning'), 'consumer_expired'
  from consumers c where c.expired_at is not null
  union all
  select 'warning', format('nobody reads consumer %s since %s: %s events wait, the oldest for %s s', c.name, c.moved_at, c.lag_events, round(c.lag_seconds)),
         case when c.max_lag is null then 'The whole log is kept for it, for ever.' else format('The log is kept for it until it is %s behind; then it expires.', c.max_lag) end,
         format('Start what reads it; or, if nobody needs it: select fencepost.drop_consumer(%L);', c.name), 'consumer_unread'
  from consumers c where c.expired_at is null and c.reader is null and c.lag_seconds > 600 and c.moved_at < p_now - interval '10 minutes'
  union all
  select 'warning', format('consumer %s is %s s behind: %s events wait', c.name, round(c.lag_seconds), c.lag_events),
         'It was read or moved in the last ten minutes: what reads it is slower than events come, or fails at the first of them again and again.',
         format('Look at the log of %s. Larger batches help, or a narrower filter; an event that always fails can be set aside with fencepost.park_event().', coalesce(c.reader, 'its reader')), 'consumer_slow'
  from consumers c where c.expired_at is null and c.lag_seconds > 600 and (c.reader is not null or c.moved_at >= p_now - interval '10 minutes' and c.was_read)
  union all
  select 'warning', format('consumer %s has set %s events aside, the last because: %s', c.name, c.parked, left(l.reason, 200)),
         'They were not delivered.',
         format('select * from fencepost.parked_events where consumer = %L; then fencepost.replay_parked(%1$L) or fencepost.discard_parked(%1$L).', c.name), 'parked_events'
  from consumers c
  cross join lateral (select p.reason from fencepost.parked_events p where p.consumer = c.name and not p.again order by p.parked_at desc limit 1) as l;
end
$$;
comment on function fencepost_private.doctor_outbox(timestamptz) is 'doctor, of consumers of the event log.';
