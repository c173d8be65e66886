-- A place in the event log. The log is read from tick to tick (see tables/outbox.sql): what became visible between two
-- ticks is a batch, read in order of id. A place is "all up to the tick (px, pflight)", and within the batch that leads
-- from there to (tx, tflight) also all up to last_id; tx is null between batches.
create type fencepost_private.log_position as (px bigint, pflight int, tx bigint, tflight int, last_id bigint);
comment on type fencepost_private.log_position is 'A place in the event log: a tick, and how far the batch after it was read.';

create type fencepost_private.parsed_position as (place fencepost_private.log_position, parked_id bigint, token bigint);
comment on type fencepost_private.parsed_position is 'What a position says: a place in the log or a parked event, and the token of a lease.';
