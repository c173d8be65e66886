-- All housekeeping, in small bounded steps: promotes delayed jobs, takes back the work of lost workers, resumes what
-- is due, folds counters, removes what is old, keeps partitions ahead. Any worker calls it each second; a scheduler or
-- a person may. It costs next to nothing when there is nothing to do, and writes nothing then, but for a mark each
-- minute.
--
-- The steps are the rows of maintain_step. One that fails does not stop the others: its error is shown and the step
-- backs off. Those that look for work once a minute or an hour run at every pass while they find some. A step that
-- changes tables (creating or dropping a partition) is the only one of its pass, so that its locks last no longer
-- than itself.
--
-- Returns what each step did, in rows or jobs; no row at all when another maintain() is running.
-- Locks: the advisory lock (housekeeping, 1), tried; then as each step says, none for longer than a second. Call it in
-- a transaction of its own.
-- Errors: JE003 outside READ COMMITTED; JE004 after a logical restore, until after_restore() was called.
create function fencepost.maintain()
returns table (step text, done bigint, error text)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
  v_now  timestamptz := fencepost_private.now();
  v_step maintain_step;
  v_code text;
begin
  perform check_read_committed('maintain()');
  if not pg_try_advisory_xact_lock(lock_housekeeping(), 1) then
    return;
  end if;
  perform check_not_restored('maintain()');

  for v_step in select m.* from maintain_step m where m.next_at <= v_now order by m.ordinal loop
    step := v_step.step;
    error := null;
    begin
      execute 'select fencepost_private.' || v_step.call into done;
    exception
      when others then
        done := 0;
        v_code := sqlstate;
        error := format('%s: %s', sqlstate, sqlerrm);
    end;
    return next;

    if error is not null then
      update maintain_step m
      set failures = m.failures + 1, error = maintain.error,
          next_at = v_now + retry_after(v_code, m.failures, greatest(m.every, interval '1 second'))
      where m.step = v_step.step;
    elsif v_step.every > '0' or v_step.failures > 0 then
      update maintain_step m
      set failures = 0, error = null, last_at = v_now, next_at = case when done > 0 then '-infinity' else v_now + m.every end
      where m.step = v_step.step;
    end if;
    exit when v_step.alone and done > 0;
  end loop;
end
$$;
comment on function fencepost.maintain() is 'Housekeeping in bounded steps: call it about each second, from anywhere. Returns what each step did; nothing when another is running. Raises JE003, JE004.';

-- Housekeeping, and whoever moves a consumer, decide by what was committed a moment ago, after a lock. Errors: JE003.
create function fencepost_private.check_read_committed(p_what text)
returns void
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform raise_error('JE003', format('%s runs in READ COMMITTED only', p_what), format('received a transaction that is %s', upper(current_setting('transaction_isolation'))),
      'It must see what was committed a moment ago: begin the transaction with ISOLATION LEVEL READ COMMITTED.');
  end if;
end
$$;
comment on function fencepost_private.check_read_committed(text) is 'Raises JE003 outside READ COMMITTED.';
