-- Makes jobs of events: for each webhook that is not paused it reads the next events of its consumer, at most `max`,
-- enqueues a delivery for each and acknowledges them, in one transaction: exactly once, whatever crashes. A step of
-- maintain(), so that it happens wherever a worker runs; the relay calls it, too, to be quicker.
--
-- Of one webhook at most max_pending deliveries wait (10,000 unless its type says otherwise): behind a dead endpoint
-- events stay in the log. All of a call is held in memory, and events may be large: call it often rather than with a high
-- max. A webhook that cannot be served is noted in `webhooks`, and stops no other.
-- Returns how many events were taken. Locks: consumers, tried. Errors: JE003; JE004 after a logical restore.
create function fencepost.relay_webhooks(max int default 200)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform check_read(relay_webhooks.max);
  perform check_not_restored('relay_webhooks()');
  return serve_webhooks(relay_webhooks.max);
end
$$;
comment on function fencepost.relay_webhooks(int) is 'Makes deliveries of the next events of each webhook, exactly once; returns how many events were taken. Raises JE003, JE004.';

create function fencepost_private.serve_webhooks(p_max int default 100)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now   timestamptz := fencepost_private.now();
  v       record;
  v_error text;
  v_taken bigint := 0;
begin
  for v in
    select w, w.error, t.type_id, t.max_pending
    from webhook w join job_type t on t.type = webhook_type(w.name)
    where t.accept and not t.paused
    order by w.webhook_id
  loop
    v_error := null;
    begin
      v_taken := v_taken + serve_webhook(v.w, least(p_max, coalesce(v.max_pending, 10000) - pending(v.type_id))::int);
    exception
      when others then
        v_error := format('%s: %s', sqlstate, sqlerrm);
    end;
    if v_error is distinct from v.error then
      -- an operator who holds the row keeps nobody waiting: it is noted at the next pass
      update webhook w set error = v_error, error_at = case when v_error is not null then v_now end
      where w.webhook_id = (select h.webhook_id from webhook h where h.webhook_id = (v.w).webhook_id for no key update skip locked);
    end if;
  end loop;
  delete from webhook_secret s
  where s.ctid = any (array(select o.ctid from webhook_secret o where o.expires_at <= v_now for update skip locked));
  return v_taken;
end
$$;
comment on function fencepost_private.serve_webhooks(int) is 'A step of maintain(): makes deliveries of the next events of each webhook. Returns how many events were taken.';

-- The same for one webhook. An event whose delivery is there already is passed over: its consumer may have been moved back.
-- Limits of the type were looked at by the caller; a large event is delivered as it is.
create function fencepost_private.serve_webhook(p_webhook fencepost_private.webhook, p_max int)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_lane  record;
  v_jobs  new_job[];
  v_taken bigint;
  v_last  text;
begin
  if p_max < 1 then
    return 0;
  end if;
  select l.lane_id, l.type_id into v_lane from ensure_lane(webhook_type(p_webhook.name), 5) as l;
  with told as materialized (
    select r.*, p_webhook.webhook_id || '-' || r.id as key, row_number() over () as place
    from fencepost.read_events(webhook_consumer(p_webhook.name), p_max, 'relay_webhooks') as r
  ), wanted as (
    select t.* from told t
    where not exists (select from idempotency_key k where k.tenant = t.tenant and k.type_id = v_lane.type_id and k.key = t.key)
    order by t.place
  )
  select count(*), (array_agg(t.position order by t.place desc))[1],
         (select array_agg(
            row(nextval('job_id_seq'), w.place, v_lane.type_id, v_lane.lane_id, w.tenant, jsonb_build_object('webhook', p_webhook.name, 'message', webhook_message(
                  row(w.id, w.kind, w.at, w.tenant, w.type, w.job_id, w.run_id, w.task_id, w.workflow, w.attempt, w.outcome, w.worker, w.ready_at, w.started_at, w.actor, w.data)::told_event)),
                null, w.key, null, null, null, null, null, null)::new_job)
          from wanted w)
    into v_taken, v_last, v_jobs
  from told t;
  if v_taken = 0 then
    return 0;
  end if;
  if v_jobs is not null then
    perform enqueue_rows(v_jobs, fencepost_private.now(), p_trusted => true);
  end if;
  perform fencepost.ack_events(webhook_consumer(p_webhook.name), v_last);
  return v_taken;
end
$$;
comment on function fencepost_private.serve_webhook(fencepost_private.webhook, int) is 'Makes deliveries of the next events of a webhook. Returns how many events were taken.';

-- An event as the body of a message, in the form of Standard Webhooks; times in UTC.
create function fencepost_private.webhook_message(p_event fencepost_private.told_event)
returns jsonb
language sql
stable
set search_path = fencepost_private, pg_temp
as $$
  select jsonb_build_object('type', (p_event).kind, 'timestamp', utc_text((p_event).at), 'data',
    to_jsonb(p_event) || jsonb_build_object('at', utc_text((p_event).at), 'ready_at', utc_text((p_event).ready_at), 'started_at', utc_text((p_event).started_at)))
$$;
comment on function fencepost_private.webhook_message(fencepost_private.told_event) is 'An event as the body of a message.';
