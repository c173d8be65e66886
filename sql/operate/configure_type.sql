-- An operator changes settings of a type. What he sets stays, whatever code declares, until he gives it back with
-- `reset`: the setting then has the value that code last declared, or the default.
--
-- null leaves a setting as it is. "No limit" is 0: max_running => 0, max_pending => 0, timeout => '0'. An empty
-- payload_check is none. A type that does not exist yet is created. Jobs already running keep the limits of their claim.
--
-- Locks: the row of the type. Errors: JE003, naming the setting.
create function fencepost.configure_type(
  type text,
  max_running int default null, max_attempts int default null, timeout interval default null,
  backoff_base interval default null, backoff_factor double precision default null, backoff_cap interval default null, backoff_jitter double precision default null,
  max_pending int default null, max_payload_bytes int default null, payload_check text default null,
  accept boolean default null, publish_enqueued boolean default null, publish_started boolean default null,
  dead_letter_alert int default null, keep_finished interval default null, reset text[] default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_given    jsonb;
  v_returned jsonb;
  v_type     job_type;
  v_name     text;
begin
  v_given := checked_settings(jsonb_strip_nulls(jsonb_build_object(
    'max_running', configure_type.max_running, 'max_attempts', configure_type.max_attempts, 'timeout', configure_type.timeout,
    'backoff_base', configure_type.backoff_base, 'backoff_factor', configure_type.backoff_factor,
    'backoff_cap', configure_type.backoff_cap, 'backoff_jitter', configure_type.backoff_jitter,
    'max_pending', configure_type.max_pending, 'max_payload_bytes', configure_type.max_payload_bytes, 'payload_check', configure_type.payload_check,
    'accept', configure_type.accept, 'publish_enqueued', configure_type.publish_enqueued, 'publish_started', configure_type.publish_started,
    'dead_letter_alert', configure_type.dead_letter_alert, 'keep_finished', configure_type.keep_finished)));
  foreach v_name in array coalesce(configure_type.reset, '{}') loop
    if v_name is null or not exists (select from type_settings() s where s.name = v_name) then
      perform raise_unknown_setting(v_name);
    elsif v_given ? v_name then
      perform raise_error('JE003', format('%s is set and reset at once', v_name), format('received %s = %s', v_name, v_given ->> v_name), 'Do one or the other.');
    end if;
  end loop;

  v_type := lock_type_row(configure_type.type);
  select coalesce(jsonb_object_agg(d.key, d.value), '{}') into v_returned
  from jsonb_each(default_settings() || coalesce((select c.settings from type_declaration c where c.type_id = v_type.type_id), '{}')) as d
  where d.key = any (configure_type.reset);
  perform write_settings(v_type, v_returned || v_given,
    array(select o from unnest(v_type.overridden) as o where o <> all (coalesce(configure_type.reset, '{}'))) || array(select jsonb_object_keys(v_given)),
    'operator');
end
$$;
comment on function fencepost.configure_type(text, int, int, interval, interval, double precision, interval, double precision, int, int, text, boolean, boolean, boolean, int, interval, text[])
  is 'Sets settings of a type over what code declares; null leaves one as it is, 0 is no limit, reset gives settings back to code. Raises JE003.';
