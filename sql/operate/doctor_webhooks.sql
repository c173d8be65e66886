-- doctor, of webhooks: their consumers are read by relay_webhooks(), so what is wrong with them is told here.
create function fencepost_private.doctor_webhooks(p_now timestamptz)
returns table (severity text, finding text, why text, remedy text, topic text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  with webhooks as materialized (select i.* from fencepost.webhooks i)
  select 'error', format('webhook %s gets no events since %s: %s', w.name, w.error_at, left(w.error, 300)),
         'No deliveries are made of its events, and the log is kept for it no longer than max_lag of its consumer.',
         case left(w.error, 5)
           when 'JE004' then format('Decide what a gap means, then: select fencepost.seek_consumer(%L, %L);', w.consumer, 'beginning')
           else 'Mend what the error says; the next pass of maintain() tries again.'
         end, 'webhook_error'
  from webhooks w where w.error_at < p_now - interval '1 minute'
  union all
  select 'warning', format('webhook %s is paused since %s (%s): events wait, %s or fewer', w.name, p.paused_at, coalesce(p.reason, 'without a reason'), w.lag_events),
         'Nothing is sent, and the log is kept for it until the oldest event is older than max_lag of its consumer.',
         format('Ask who has the endpoint, then: select fencepost.configure_webhook(%L, paused => false); or, if nobody needs it: select fencepost.drop_webhook(%1$L);', w.name), 'webhook_paused'
  from webhooks w
  join job_type t on t.type = w.type
  join type_pause p on p.type_id = t.type_id
  where p.paused_at < p_now - interval '10 minutes' and w.lag_events > 0;
end
$$;
comment on function fencepost_private.doctor_webhooks(timestamptz) is 'doctor, of webhooks.';
