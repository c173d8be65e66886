-- Endpoints that get events by HTTP: their settings, and how they stand. Secrets are never shown.
create view fencepost.webhooks as
select w.name, w.url, c.kinds, c.types, c.tenant, coalesce(t.paused, false) as paused, p.reason as paused_reason,
       t.max_attempts, t.timeout, t.max_running, t.backoff_base, t.backoff_cap,
       fencepost_private.pending(t.type_id) as waiting,
       (select count(*) from fencepost_private.dead_letter d join fencepost_private.lane l on l.lane_id = d.lane_id where l.type_id = t.type_id) as dead_letters,
       fencepost_private.unread_count(s.position) as lag_events,
       (select max(o.expires_at) from fencepost_private.webhook_secret o where o.webhook_id = w.webhook_id and o.expires_at > fencepost_private.now()) as old_secret_until,
       w.error, w.error_at, fencepost_private.webhook_consumer(w.name) as consumer, fencepost_private.webhook_type(w.name) as type,
       w.created_at, w.updated_at
from fencepost_private.webhook w
left join fencepost_private.job_type t on t.type = fencepost_private.webhook_type(w.name)
left join fencepost_private.type_pause p on p.type_id = t.type_id
left join fencepost_private.consumer c on c.name = fencepost_private.webhook_consumer(w.name)
left join lateral (select n.* from fencepost_private.newest_state(c.consumer_id) as n offset 0) as s on true;

comment on view fencepost.webhooks is 'Endpoints that get events by HTTP, and how they stand.';
comment on column fencepost.webhooks.name is 'Its name.';
comment on column fencepost.webhooks.url is 'Where messages go.';
comment on column fencepost.webhooks.kinds is 'Kinds of events that it gets; null is all.';
comment on column fencepost.webhooks.types is 'Types of jobs whose events it gets; null is all.';
comment on column fencepost.webhooks.tenant is 'The tenant whose events it gets; null is all.';
comment on column fencepost.webhooks.paused is 'True: nothing is sent, events wait in the log.';
comment on column fencepost.webhooks.paused_reason is 'Why it was paused.';
comment on column fencepost.webhooks.max_attempts is 'How often a message is tried before it is dead-lettered.';
comment on column fencepost.webhooks.timeout is 'How long one attempt may take.';
comment on column fencepost.webhooks.max_running is 'How many messages are on their way at once.';
comment on column fencepost.webhooks.backoff_base is 'Wait before the second attempt.';
comment on column fencepost.webhooks.backoff_cap is 'The longest wait between attempts.';
comment on column fencepost.webhooks.waiting is 'Deliveries that wait for their first or next attempt.';
comment on column fencepost.webhooks.dead_letters is 'Messages that were given up; replay() tries them again.';
comment on column fencepost.webhooks.lag_events is 'Events in the log that are no deliveries yet, of all kinds; counted to 100,000.';
comment on column fencepost.webhooks.old_secret_until is 'Until when messages are signed with an old secret, too; null when there is none.';
comment on column fencepost.webhooks.error is 'Why events could not be made deliveries at the last try; null when they were.';
comment on column fencepost.webhooks.error_at is 'Since when.';
comment on column fencepost.webhooks.consumer is 'Its consumer of the event log.';
comment on column fencepost.webhooks.type is 'The type of its deliveries.';
comment on column fencepost.webhooks.created_at is 'When it was created.';
comment on column fencepost.webhooks.updated_at is 'When its URL, filter or secret last changed.';
