-- Starts many runs of one workflow, one for each input, all or nothing, the fast way. Returns their ids in that order.
-- Errors: JE002, JE003, JE006 (the message names the place in the list, counted from 1).
create function fencepost.start_runs(workflow text, inputs jsonb[], version int default null, tags text[] default '{}', priority int default null, tenant text default null)
returns bigint[]
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now     timestamptz := fencepost_private.now();
  v_version record;
  v_problem record;
  v_ids     bigint[];
begin
  if start_runs.inputs is null or cardinality(start_runs.inputs) = 0 then
    return '{}'::bigint[];
  end if;
  v_version := find_version(start_runs.workflow, start_runs.version);
  perform check_lane('run', coalesce(start_runs.priority, 5)), check_job_options(null, null, null, null, null, null, start_runs.tenant), check_tags(start_runs.tags);
  perform check_size(i.input, format('input %s of the list', i.place)) from unnest(start_runs.inputs) with ordinality as i(input, place);
  if v_version.definition ? 'input' then
    select i.place, s.problem into v_problem
    from unnest(start_runs.inputs) with ordinality as i(input, place)
    cross join lateral schema_problem(v_version.definition -> 'input', coalesce(i.input, '{}'), 'input') as s(problem)
    where s.problem is not null limit 1;
    if found then
      perform raise_error('JE003', format('input %s of the list does not fit the schema of %s version %s', v_problem.place, start_runs.workflow, v_version.version), v_problem.problem, 'See the definition of the version.');
    end if;
  end if;
  v_ids := create_runs(v_version.workflow_id, v_version.version_id, coalesce(start_runs.tenant, current_tenant()),
    array(select coalesce(i.input, '{}') from unnest(start_runs.inputs) with ordinality as i(input, place) order by i.place),
    null, coalesce(start_runs.tags, '{}'), start_runs.priority, null, null, v_now);
  perform start_roots(v_ids, v_now);
  return v_ids;
end
$$;
comment on function fencepost.start_runs(text, jsonb[], int, text[], int, text) is 'Starts one run for each input, all or nothing, and returns their ids in that order. Raises JE002, JE003, JE006.';
