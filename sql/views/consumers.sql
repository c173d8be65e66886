-- Consumers: where each stands, how far behind, and who reads it.
create view fencepost.consumers as
select c.name, fencepost_private.position_text(s.position) as position,
       fencepost_private.unread_count(s.position) as lag_events,
       coalesce(greatest(extract(epoch from fencepost_private.now() - fencepost_private.unread_since(s.position)), 0), 0)::float8 as lag_seconds,
       case when s.leased_until > fencepost_private.now() then s.reader end as reader,
       case when s.leased_until > fencepost_private.now() then s.leased_until end as leased_until,
       (select count(*) from fencepost_private.parked_event p where p.consumer_id = c.consumer_id) as parked,
       c.kinds, c.types, c.tenant, c.max_lag, c.created_at, s.at as moved_at, c.expired_at
from fencepost_private.consumer c
cross join lateral (select n.* from fencepost_private.newest_state(c.consumer_id) as n offset 0) as s;

comment on view fencepost.consumers is 'Readers of the event log: where they stand and how far behind.';
comment on column fencepost.consumers.name is 'Its name.';
comment on column fencepost.consumers.position is 'Everything up to here is acknowledged.';
comment on column fencepost.consumers.lag_events is 'Events after that, of all kinds, also those that its filter holds back; counted to 100,000.';
comment on column fencepost.consumers.lag_seconds is 'For how long the oldest of them has been there to read; 0 when there is none.';
comment on column fencepost.consumers.reader is 'Who holds the lease; null when nobody does.';
comment on column fencepost.consumers.leased_until is 'Until when.';
comment on column fencepost.consumers.parked is 'Events that were set aside.';
comment on column fencepost.consumers.kinds is 'Kinds of events that it gets; null is all.';
comment on column fencepost.consumers.types is 'Types of jobs whose events it gets; null is all.';
comment on column fencepost.consumers.tenant is 'The tenant whose events it gets; null is all.';
comment on column fencepost.consumers.max_lag is 'For how long it may have something to read; null is no limit.';
comment on column fencepost.consumers.created_at is 'When it was created.';
comment on column fencepost.consumers.moved_at is 'When it last read or acknowledged.';
comment on column fencepost.consumers.expired_at is 'Since when it is beyond max_lag: it reads again after seek_consumer().';

-- Events that consumers set aside.
create view fencepost.parked_events as
select c.name as consumer, p.event_id, p.event ->> 'kind' as kind, p.event ->> 'type' as type, (p.event ->> 'job_id')::bigint as job_id,
       (p.event ->> 'run_id')::bigint as run_id, p.reason, p.times, p.parked_at, p.again, p.event
from fencepost_private.parked_event p
join fencepost_private.consumer c on c.consumer_id = p.consumer_id;

comment on view fencepost.parked_events is 'Events that consumers set aside because they could not be delivered; see replay_parked() and discard_parked().';
comment on column fencepost.parked_events.consumer is 'The consumer.';
comment on column fencepost.parked_events.event_id is 'The event.';
comment on column fencepost.parked_events.kind is 'Its kind.';
comment on column fencepost.parked_events.type is 'Type of its job.';
comment on column fencepost.parked_events.job_id is 'Its job.';
comment on column fencepost.parked_events.run_id is 'Its run.';
comment on column fencepost.parked_events.reason is 'Why it was set aside.';
comment on column fencepost.parked_events.times is 'How often it was.';
comment on column fencepost.parked_events.parked_at is 'When it last was.';
comment on column fencepost.parked_events.again is 'True when it is to be delivered again.';
comment on column fencepost.parked_events.event is 'The event as read_events() gives it.';
