-- Events of each type, kind and outcome since the beginning, with histograms of how long the attempts had waited
-- and ran: what metrics are made of. As fresh as the last maintain().
--   bounds                     upper bounds of the buckets, in seconds
--   wait_counts, run_counts    attempts in each bucket, and last those above all bounds; not cumulative
-- Rows without an outcome end no attempt: they have no times.
create type fencepost.outcome_stats as (
  type text, kind text, outcome text, events bigint, bounds double precision[],
  wait_seconds double precision, wait_counts bigint[], run_seconds double precision, run_counts bigint[]);
comment on type fencepost.outcome_stats is 'A row of fencepost.outcome_totals().';

create function fencepost.outcome_totals(type text default null)
returns setof fencepost.outcome_stats
language sql
stable
security definer
set search_path = fencepost_private, pg_temp
as $$
  select t.type, o.kind::text, o.outcome::text, o.events, duration_bounds(), o.wait_seconds, o.wait_counts, o.run_seconds, o.run_counts
  from outcome_total o
  join job_type t on t.type_id = o.type_id
  where outcome_totals.type is null or t.type = outcome_totals.type
  order by t.type, o.kind, o.outcome
$$;
comment on function fencepost.outcome_totals(text) is 'Events by type, kind and outcome since the beginning, with histograms of wait and run times.';
