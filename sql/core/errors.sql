-- Every error that the engine raises on purpose has a code of class JE, listed once, here.
create table fencepost_private.error_code (
  code    text primary key constraint error_code_is_je check (code ~ '^JE\d{3}$'),
  name    text not null unique,
  meaning text not null
);
comment on table fencepost_private.error_code is 'The engine''s own SQLSTATEs. SQL, TypeScript, HTTP and the documentation are compared with this list.';
comment on column fencepost_private.error_code.code is 'The SQLSTATE.';
comment on column fencepost_private.error_code.name is 'A short name in snake case, the same in every language.';
comment on column fencepost_private.error_code.meaning is 'What it means, in a sentence.';

insert into fencepost_private.error_code (code, name, meaning) values
  ('JE001', 'lease_lost',            'The job is not (or no longer) leased under this token: another attempt owns it, or it has ended.'),
  ('JE002', 'not_found',             'Nothing of that id or name exists.'),
  ('JE003', 'invalid_argument',      'An argument is missing, malformed or out of range.'),
  ('JE004', 'illegal_transition',    'The thing exists, but its present state does not allow this.'),
  ('JE005', 'idempotency_conflict',  'The idempotency key was already used for a job with another payload.'),
  ('JE006', 'payload_rejected',      'The payload or result is too large or does not satisfy the check of its type.'),
  ('JE007', 'enqueue_refused',       'The type does not accept jobs now, or its queue is full.'),
  ('JE008', 'definition_invalid',    'A workflow definition is invalid.'),
  ('JE009', 'not_allowed',           'This tenant or role may not do that.'),
  ('JE010', 'worker_lost',           'The worker is unknown, was declared lost or has stopped: it must register anew.'),
  ('JE011', 'protocol_mismatch',     'The client is too old or too new for this schema.');

-- The single place that raises. Returns nothing ever; typed so that it can stand in an expression.
create function fencepost_private.raise_error(p_code text, p_message text, p_detail text default null, p_hint text default null)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  raise exception using
    errcode = p_code,
    message = p_message,
    detail = coalesce(p_detail, ''),
    hint = rtrim(coalesce(p_hint, ''));
end
$$;
comment on function fencepost_private.raise_error(text, text, text, text) is 'Raises an engine error: code, what was wrong, what was received (detail), what would be right (hint).';

create view fencepost.error_codes as
select e.code, e.name, e.meaning from fencepost_private.error_code e order by e.code;
comment on view fencepost.error_codes is 'Every error code that the engine raises, and what it means.';
comment on column fencepost.error_codes.code is 'The SQLSTATE.';
comment on column fencepost.error_codes.name is 'A short name, the same in every language.';
comment on column fencepost.error_codes.meaning is 'What it means, in a sentence.';
