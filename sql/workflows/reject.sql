-- Decides an approval: rejected. What that does to the run is told by on_reject of the task: fail (default), skip,
-- continue; behind a gate the task fails.
-- Locks: the root run, the approval. Errors: JE002, JE003, JE006 (as approve); JE004 when it was decided before, or its time is
-- over.
create function fencepost.reject(approval_id bigint, decided_by text default null, comment text default null, data jsonb default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform decide(reject.approval_id, 'rejected', coalesce(reject.decided_by, actor()), reject.comment, reject.data, fencepost_private.now());
end
$$;
comment on function fencepost.reject(bigint, text, text, jsonb) is 'Rejects, with the consequence that the task''s on_reject names. One decision only; a second raises JE004. Raises JE002, JE003, JE006.';
