-- The two rooms of the engine. `fencepost` is what people and programs use and what we keep stable;
-- `fencepost_private` is where the tables and helpers live, and may change with any release.
create schema if not exists fencepost;
comment on schema fencepost is 'Fencepost, a durable job engine: the stable functions and views. Start with \df+ fencepost.* and fencepost.doctor().';

create schema if not exists fencepost_private;
comment on schema fencepost_private is 'Tables and helpers behind the schema fencepost. Read them freely; only functions of fencepost write them.';
