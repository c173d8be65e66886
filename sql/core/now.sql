-- The one clock of the engine. Every function reads it once per call and hands the instant on; tests replace
-- this function, never its callers. It is the database's wall clock: a worker's clock decides nothing.
create function fencepost_private.now() returns timestamptz
language sql volatile parallel safe
return clock_timestamp();

comment on function fencepost_private.now() is 'The engine''s clock: the database''s wall clock, read once per call. Tests replace this function to move time.';
