-- A place within a batch, but for the id that follows: the same for all of the batch.
create function fencepost_private.place_text(p_position fencepost_private.log_position)
returns text
language sql
immutable
return (p_position).px || '.' || -(p_position).pflight || '-' || (p_position).tx || '.' || -(p_position).tflight || '-';
comment on function fencepost_private.place_text(fencepost_private.log_position) is 'A place within a batch as readers see it, but for the id that follows.';

-- Positions as texts. Readers treat them as opaque; a person sees in `7431.2` the tick below transaction 7431 with two
-- in flight, in `7431.2-7440.0-981` the event 981 of the batch from there to the tick 7440.0, and in `…~12` the token of
-- the lease under which it was read. `p981~12` is a parked event that is delivered again.
create function fencepost_private.position_text(p_position fencepost_private.log_position)
returns text
language sql
immutable
return case when (p_position).tx is null then (p_position).px || '.' || -(p_position).pflight
            else fencepost_private.place_text(p_position) || (p_position).last_id end;
comment on function fencepost_private.position_text(fencepost_private.log_position) is 'A position as readers see it.';

-- Errors: JE003.
create function fencepost_private.parse_position(p_text text)
returns fencepost_private.parsed_position
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_part text[] := regexp_match(p_text, '^(?:(\d{1,18})\.(\d{1,9})(?:-(\d{1,18})\.(\d{1,9})-(\d{1,18}))?|p(\d{1,18}))(?:~(\d{1,18}))?$');
  v_said parsed_position;
begin
  if v_part is null then
    perform raise_error('JE003', 'that is not a position in the event log', format('received position = %s', coalesce(quote_literal(left(p_text, 100)), 'null')),
      'Hand back a position exactly as read_events() or list_events() gave it.');
  end if;
  if v_part[6] is null then
    v_said.place := row(v_part[1]::bigint, -v_part[2]::int, v_part[3]::bigint, -v_part[4]::int, v_part[5]::bigint)::log_position;
  end if;
  v_said.parked_id := v_part[6]::bigint;
  v_said.token := v_part[7]::bigint;
  return v_said;
end
$$;
comment on function fencepost_private.parse_position(text) is 'A position from its text. Raises JE003.';

-- Whether the first comes after the second. Both must be places of the same reader: then batches do not overlap.
create function fencepost_private.is_after(p_one fencepost_private.log_position, p_other fencepost_private.log_position)
returns boolean
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select ((p_one).px, (p_one).pflight, coalesce((p_one).last_id, 0)) > ((p_other).px, (p_other).pflight, coalesce((p_other).last_id, 0))
$$;
comment on function fencepost_private.is_after(fencepost_private.log_position, fencepost_private.log_position) is 'Whether one position of a reader comes after another.';

-- The place right at a tick.
create function fencepost_private.place_of_tick(p_x bigint, p_flight int)
returns fencepost_private.log_position
language sql
immutable
return row(p_x, p_flight, null, null, null)::fencepost_private.log_position;
comment on function fencepost_private.place_of_tick(bigint, int) is 'The place right at a tick: all that it saw has been passed.';
