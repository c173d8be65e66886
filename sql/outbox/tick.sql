-- Takes a tick, unless the newest is younger than p_every or nothing became visible since. Readers take one when they
-- find the newest old, maintain() does about each second. Takes no lock, waits for nobody: two ticks may be equal.
-- What this transaction wrote itself is not in it. Returns how many were taken, 0 or 1.
create function fencepost_private.tick(p_every interval default '1 second')
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now    timestamptz := fencepost_private.now();
  v_newest event_tick;
  v_taken  bigint;
begin
  if current_setting('transaction_read_only')::boolean or current_setting('transaction_isolation') <> 'read committed' then
    return 0;       -- on a standby ticks come from the primary; an old snapshot makes none
  end if;
  select t.* into v_newest from event_tick t order by t.x desc, t.flight desc limit 1;
  if v_newest.at > v_now - p_every and v_newest.at <= v_now then
    return 0;
  end if;
  insert into event_tick (x, flight, xip, at, last_id)
  select f.xmax, -cardinality(f.xip), f.xip, v_now, s.last_value
  from in_flight() f cross join event_id_seq s
  where v_newest.x is null
     or exists (select from event e where e.xid >= v_newest.x and not e.xid = any (f.xip))
     or exists (select from unnest(v_newest.xip) as i(x) cross join lateral (select from event e where e.xid = i.x limit 1) as e where not i.x = any (f.xip));
  get diagnostics v_taken = row_count;
  return v_taken;
end
$$;
comment on function fencepost_private.tick(interval) is 'A step of maintain(): notes what is visible of the event log, when that is more than before. Returns 0 or 1.';

-- The newest place: all that was committed when the newest tick was taken.
create function fencepost_private.newest_position()
returns fencepost_private.log_position
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select coalesce((select place_of_tick(t.x, t.flight) from event_tick t order by t.x desc, t.flight desc limit 1),
                  place_of_tick(0, 0))
$$;
comment on function fencepost_private.newest_position() is 'The place of the newest tick.';

-- The place up to which everything had been committed before a time.
create function fencepost_private.position_at(p_time timestamptz)
returns fencepost_private.log_position
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select coalesce((select place_of_tick(t.x, t.flight) from event_tick t where t.at <= p_time order by t.at desc, t.x desc, t.flight desc limit 1),
                  place_of_tick(0, 0))
$$;
comment on function fencepost_private.position_at(timestamptz) is 'The place of the last tick at or before a time; the beginning when there is none.';

-- A place by what people write: beginning, now, a time, or a position; that may be of another log. A time that is to come
-- has no place yet; one within the next minute is taken for now, since clocks differ. Errors: JE003; JE004 after a restore.
create function fencepost_private.found_position(p_text text)
returns fencepost_private.log_position
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_at timestamptz;
begin
  perform check_not_restored('a place in the event log');
  if p_text = 'beginning' then
    return place_of_tick(0, 0);
  elsif p_text = 'now' then
    perform tick('0');
    return newest_position();
  elsif p_text ~ '^\d{4}-' then
    begin
      v_at := p_text::timestamptz;
    exception
      when datetime_field_overflow or invalid_datetime_format or invalid_parameter_value then
        perform raise_error('JE003', 'that is not a time', format('received %s', quote_literal(left(p_text, 100))), 'Write it like 2020-01-31T12:00:00Z.');
    end;
    if v_at > fencepost_private.now() + interval '1 minute' then
      perform raise_error('JE003', 'that time has not come yet', format('received %s; it is %s', quote_literal(left(p_text, 100)), fencepost_private.now()),
        'Give now, or a time that is past.');
    end if;
    return position_at(v_at);
  end if;
  if p_text is null or p_text !~ '^\d+\.\d' then
    perform raise_error('JE003', 'that is not a place in the event log', format('received %s', coalesce(quote_literal(left(p_text, 100)), 'null')),
      'Give beginning, now, a time such as 2020-01-31T12:00:00Z, or a position as read_events() and list_events() give it.');
  end if;
  return (parse_position(p_text)).place;
end
$$;
comment on function fencepost_private.found_position(text) is 'A place in the log: beginning, now, a time, or a position. Raises JE003, JE004.';

-- A place whose ticks are still there: itself, or the nearest before it, from which some events come a second time. One
-- that is beyond the newest tick is not of this log, or from before a restore: only the beginning is before it for sure.
create function fencepost_private.kept_position(p_position fencepost_private.log_position)
returns fencepost_private.log_position
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_near event_tick;
begin
  if is_beyond(p_position) then
    return place_of_tick(0, 0);
  end if;
  if (p_position).px > 0 then
    select t.* into v_near from event_tick t where (t.x, t.flight) <= ((p_position).px, (p_position).pflight) order by t.x desc, t.flight desc limit 1;
    if v_near.x is null then
      return place_of_tick(0, 0);
    elsif (v_near.x, v_near.flight) <> ((p_position).px, (p_position).pflight) then
      return place_of_tick(v_near.x, v_near.flight);
    end if;
  end if;
  if (p_position).tx is not null and not exists (select from event_tick t where t.x = (p_position).tx and t.flight = (p_position).tflight) then
    return place_of_tick((p_position).px, (p_position).pflight);
  end if;
  return p_position;
end
$$;
comment on function fencepost_private.kept_position(fencepost_private.log_position) is 'A place in the log, or the nearest before it of which the ticks are kept.';

-- Whether a place lies beyond the newest tick, where no place of this log can be.
create function fencepost_private.is_beyond(p_position fencepost_private.log_position)
returns boolean
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_newest log_position := newest_position();
begin
  return ((p_position).px, (p_position).pflight) > (v_newest.px, v_newest.pflight) or ((p_position).tx, (p_position).tflight) > (v_newest.px, v_newest.pflight);
end
$$;
comment on function fencepost_private.is_beyond(fencepost_private.log_position) is 'Whether a place lies beyond the newest tick.';

-- A place that somebody names for a consumer. Errors: JE003, also for one that is not of this log; JE004 after a restore.
create function fencepost_private.named_position(p_text text)
returns fencepost_private.log_position
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_place log_position := found_position(p_text);
begin
  if is_beyond(v_place) then
    perform raise_error('JE003', 'that position is not of this log', format('received %s; the newest is %s', quote_literal(p_text), position_text(newest_position())),
      'It is of another database, or from before a restore. Give beginning, now or a time.');
  end if;
  return kept_position(v_place);
end
$$;
comment on function fencepost_private.named_position(text) is 'A place that somebody names for a consumer. Raises JE003, JE004.';
