-- Stops claims of a type, until resume_type: jobs that run go on, enqueues too (see configure_type, accept).
-- Pausing a paused type changes nothing. A type that does not exist yet is created, paused.
-- Locks: the row of the type. Errors: JE003 (name).
create function fencepost.pause_type(type text, reason text default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform set_paused(pause_type.type, true, pause_type.reason);
end
$$;
comment on function fencepost.pause_type(text, text) is 'Stops claims of a type; running jobs and enqueues go on. Raises JE003.';

-- Writes the flag if that changes it, with an event.
create function fencepost_private.set_paused(p_type text, p_paused boolean, p_reason text)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now  timestamptz := fencepost_private.now();
  v_type job_type := lock_type_row(p_type);
begin
  if v_type.paused = p_paused then
    return;
  end if;
  update job_type t set paused = p_paused, updated_at = v_now where t.type_id = v_type.type_id;
  insert into event (xid, at, tenant, kind, actor, data)
  values (xid(), v_now, current_tenant(), (case when p_paused then 'operator.type_paused' else 'operator.type_resumed' end)::event_kind, actor(),
          jsonb_strip_nulls(jsonb_build_object('type', p_type, 'reason', p_reason)));
  if p_paused then
    insert into type_pause (type_id, paused_at, paused_by, reason) values (v_type.type_id, v_now, actor(), p_reason);
  else
    delete from type_pause p where p.type_id = v_type.type_id;
    perform wake(array[v_type.type_id]);
  end if;
end
$$;
comment on function fencepost_private.set_paused(text, boolean, text) is 'Pauses or resumes a type, with an event; wakes workers when it resumes.';
