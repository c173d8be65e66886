-- What an attempt needs to deliver: where to, the body as it is to be sent, the id of the message (the same at each
-- attempt), and the secrets to sign with, newest first. Only whoever holds the lease of the delivery gets it.
-- Locks: none. Errors: JE001 (stale token); JE002 when the job is no delivery, or its webhook was removed.
create function fencepost.webhook_delivery(job_id bigint, token int)
returns table (url text, message_id text, body text, secrets text[])
language plpgsql
stable
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_job job;
begin
  if not exists (select from lease l where l.id = webhook_delivery.job_id and l.token = webhook_delivery.token) then
    perform raise_lease_lost(webhook_delivery.job_id, webhook_delivery.token);
  end if;
  select j.* into v_job from job j where j.id = webhook_delivery.job_id;
  return query
    select w.url, coalesce(v_job.idempotency_key, v_job.id::text), (v_job.payload -> 'message')::text,
           array(select s.secret from webhook_secret s
                 where s.webhook_id = w.webhook_id and (s.expires_at is null or s.expires_at > fencepost_private.now())
                 order by s.expires_at desc nulls first, s.created_at desc)
    from webhook w join job_type t on t.type = webhook_type(w.name) join lane l on l.type_id = t.type_id
    where l.lane_id = v_job.lane_id and v_job.payload ? 'message';
  if not found then
    perform raise_error('JE002', format('the webhook of job %s does not exist', webhook_delivery.job_id), format('received job_id = %s', webhook_delivery.job_id),
      'It was removed, or the job is no delivery of an event: discard it.');
  end if;
end
$$;
comment on function fencepost.webhook_delivery(bigint, int) is 'Where a delivery goes, its body, and the secrets to sign it with, for who holds its lease. Raises JE001, JE002.';
revoke execute on function fencepost.webhook_delivery(bigint, int) from public;
