-- Sets one event aside because it cannot be delivered, with the reason: the reader then acknowledges it like any other
-- and goes on. It is kept whole, is seen in `parked_events`, and comes again after replay_parked(). One that comes again
-- and is set aside again stays, with the new reason.
-- `event_position` is the one that read_events() gave with the event.
-- Locks: the consumer, until commit; waits two seconds at most.
-- Errors: JE001 when the lease was lost; JE002 when there is no such consumer, or no such event under this lease; JE003.
create function fencepost.park_event(consumer text, event_position text, reason text)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_consumer consumer := find_consumer(park_event.consumer);
  v_given    parsed_position;
  v_state    consumer_state;
  v_event    told_event;
begin
  if coalesce(btrim(park_event.reason), '') = '' then
    perform raise_error('JE003', 'an event is set aside with a reason', format('received reason = %s', coalesce(quote_literal(park_event.reason), 'null')), 'Say why it cannot be delivered.');
  end if;
  v_given := parse_position(park_event.event_position);
  v_state := leased_state(v_consumer, v_given.token);

  if v_given.parked_id is not null then
    update parked_event p
    set again = false, given = null, times = p.times + 1, reason = clipped(park_event.reason, 4096), parked_at = fencepost_private.now()
    where p.consumer_id = v_consumer.consumer_id and p.event_id = v_given.parked_id;
  else
    select t.id, t.kind, t.at, t.tenant, t.type, t.job_id, t.run_id, t.task_id, t.workflow, t.attempt, t.outcome, t.worker, t.ready_at, t.started_at, t.actor, t.data
      into v_event
    from told(unread(row((v_given.place).px, (v_given.place).pflight, (v_given.place).tx, (v_given.place).tflight, (v_given.place).last_id - 1), 1,
                     row(v_consumer.kinds, v_consumer.types, v_consumer.tenant, v_consumer.deliveries)::wanted_events)) as t
    where t.id = (v_given.place).last_id and not is_after(v_given.place, v_state.sent) and is_after(v_given.place, v_state.position);
    insert into parked_event as p (consumer_id, event_id, event, reason, parked_at)
    select v_consumer.consumer_id, v_event.id, to_jsonb(v_event), clipped(park_event.reason, 4096), fencepost_private.now()
    where v_event.id is not null
    on conflict on constraint parked_event_pkey do update set reason = excluded.reason, parked_at = excluded.parked_at;
  end if;
  if not found then
    perform raise_error('JE002', 'there is no such event', format('received event_position = %L', park_event.event_position), 'Give the position that read_events() gave with the event, before it is acknowledged.');
  end if;
end
$$;
comment on function fencepost.park_event(text, text, text) is 'Sets an event aside that cannot be delivered, with the reason. Raises JE001, JE002, JE003.';
