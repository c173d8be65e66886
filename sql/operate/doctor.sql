-- What is wrong or about to go wrong, why it matters, and what mends it. Changes nothing.
--   severity  error: work stops, or will soon · warning: look at it today · info: good to know
--   finding   what was found, with names and numbers
--   why       what comes of it
--   remedy    what mends it: mostly a statement
--   topic     a word, for programs
-- Some findings need the role pg_monitor, to see other sessions; without it, it says so.
create function fencepost.doctor()
returns table (severity text, finding text, why text, remedy text, topic text)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set jit = off
as $$
declare
  v_now timestamptz := fencepost_private.now();
begin
  return query
  select d.severity, d.finding, d.why, d.remedy, d.topic
  from (
    select f.* from doctor_work(v_now) as f
    union all select f.* from doctor_workflows(v_now) as f
    union all select f.* from doctor_housekeeping(v_now) as f
    union all select f.* from doctor_outbox(v_now) as f
    union all select f.* from doctor_webhooks(v_now) as f
    union all select f.* from doctor_sessions() as f
    union all select f.* from doctor_server() as f
  ) as d
  order by array_position(array['error', 'warning', 'info'], d.severity), d.topic, d.finding;
end
$$;
comment on function fencepost.doctor() is 'What is wrong or about to go wrong, why it matters and what mends it; changes nothing.';
