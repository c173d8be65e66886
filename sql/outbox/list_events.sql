-- Reads the event log without a consumer: the next events after a position, in commit order, at most `max` (1 to
-- 10,000), oldest first. `after` is a position that this function or event_position() gave, or beginning; who keeps the
-- last one goes on without a gap. Filters are those of create_consumer().
--
-- The last row may hold a position only: the look went so far, and found nothing more that matches.
-- A position is good for as long as its events are kept; an old one may give some events a second time.
-- Locks: none. Errors: JE003; JE004 after a logical restore, until after_restore() was called.
create function fencepost.list_events(after text default 'beginning', max int default 100, filter jsonb default '{}')
returns table ("position" text, id bigint, kind text, at timestamptz, tenant text, type text, job_id bigint, run_id bigint, task_id bigint, workflow text,
               attempt int, outcome text, worker text, ready_at timestamptz, started_at timestamptz, actor text, data jsonb)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_from   log_position;
  v_filter record;
  v_wanted wanted_events;
  v_read   unread_events;
begin
  perform check_read(list_events.max);
  select p.* into v_filter from parsed_consumer_filter(list_events.filter) as p;
  v_from := found_position(list_events.after);
  perform tick('100 milliseconds');
  v_wanted := row(v_filter.kinds, v_filter.types, v_filter.tenant, true);
  v_read := unread(v_from, list_events.max, v_wanted);
  if cardinality(v_read.events) = 0 and v_read.reached = newest_position() and tick('0') > 0 then
    v_read := unread(v_read.reached, list_events.max, v_wanted);     -- what was committed a moment ago
  end if;
  return query select * from told(v_read);
  if v_read.reached is distinct from coalesce(v_read.sent, v_from) then
    position := position_text(v_read.reached);
    return next;
  end if;
end
$$;
comment on function fencepost.list_events(text, int, jsonb)
  is 'The next events after a position, in commit order, without a consumer; the last row may hold only the position that was reached. Raises JE003, JE004.';
