-- Filters of jobs, as list_jobs, replay_matching and discard_matching take them.
create type fencepost_private.job_filter as (
  type            text,
  status          text,
  tenant          text,
  priority        int,
  created_after   timestamptz,
  created_before  timestamptz,
  failed_after    timestamptz,
  failed_before   timestamptz,
  attempts        int,
  error           text,
  error_matches   text,
  idempotency_key text,
  worker          text
);
comment on type fencepost_private.job_filter is 'A filter of jobs; nulls do not filter.';

-- Reads a filter into a row of its kind: p_known names the keys that make sense here, each a single value.
-- Errors: JE003, naming the key.
create function fencepost_private.read_filter(p_empty anyelement, p_filter jsonb, p_known text[], p_kinds text)
returns anyelement
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_key text;
begin
  if p_filter is null then
    return p_empty;
  end if;
  if jsonb_typeof(p_filter) <> 'object' then
    perform raise_error('JE003', 'the filter must be a JSON object', format('received %s', left(p_filter::text, 200)), format('For example {"%s": …}.', p_known[1]));
  end if;
  for v_key in select jsonb_object_keys(p_filter) loop
    if not v_key = any (p_known) then
      perform raise_error('JE003', format('the filter has the unknown key %s', quote_literal(v_key)), format('received %s', quote_literal(v_key)),
        coalesce(did_you_mean(v_key, p_known), '') || 'Known keys: ' || array_to_string(p_known, ', ') || '.');
    end if;
    if jsonb_typeof(p_filter -> v_key) in ('object', 'array') then
      perform raise_error('JE003', format('%s of the filter must be a single value', v_key), format('received %s', left((p_filter -> v_key)::text, 200)), 'Ask once for each value.');
    end if;
    begin
      p_empty := jsonb_populate_record(p_empty, jsonb_build_object(v_key, p_filter -> v_key));
    exception
      when data_exception then
        perform raise_error('JE003', format('%s of the filter has the wrong kind', v_key), format('received %s = %s', v_key, left(p_filter ->> v_key, 200)), p_kinds);
    end;
  end loop;
  return p_empty;
end
$$;
comment on function fencepost_private.read_filter(anyelement, jsonb, text[], text) is 'A filter from JSON, as a row of the type of p_empty. Raises JE003 for unknown keys and values of the wrong kind.';

create function fencepost_private.check_status(p_status text, p_known text[], p_what text)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if not p_status = any (p_known) then
    perform raise_error('JE003', format('there is no status %s', quote_literal(p_status)), format('received status = %s', quote_literal(p_status)),
      coalesce(did_you_mean(p_status, p_known), '') || p_what || ' is ' || array_to_string(p_known, ', ') || '.');
  end if;
end
$$;
comment on function fencepost_private.check_status(text, text[], text) is 'Raises JE003 for a status that is not one of those known.';

create function fencepost_private.check_max(p_max int)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_max is null or p_max not between 1 and 1000 then
    perform raise_error('JE003', 'max must be from 1 to 1000', format('received max = %s', coalesce(p_max::text, 'null')), 'Ask for the next page with after.');
  end if;
end
$$;
comment on function fencepost_private.check_max(int) is 'Raises JE003 for a length of a list that is out of range.';

-- A filter of jobs, of which p_known names the keys that make sense here.
-- Errors: JE003, naming the key.
create function fencepost_private.parsed_filter(p_filter jsonb, p_known text[])
returns fencepost_private.job_filter
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_filter job_filter;
begin
  v_filter := read_filter(v_filter, p_filter, p_known, 'priority and attempts are whole numbers; created_after and the like are times such as 2030-01-31T12:00:00Z.');
  perform check_status(v_filter.status, array['pending', 'running', 'waiting', 'completed', 'dead_letter', 'cancelled', 'discarded'], 'A job');
  if v_filter.error_matches is not null then
    begin
      perform '' ~ v_filter.error_matches;
    exception
      when invalid_regular_expression then
        perform raise_error('JE003', 'error_matches of the filter is not a regular expression', format('received %s', left(v_filter.error_matches, 200)), sqlerrm);
    end;
  end if;
  return v_filter;
end
$$;
comment on function fencepost_private.parsed_filter(jsonb, text[]) is 'A filter of jobs from JSON. Raises JE003 for unknown keys and values of the wrong kind.';
