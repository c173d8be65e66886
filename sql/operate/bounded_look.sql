-- What lists share: a look at the newest rows of a source below an id, bounded however few of them fit.
--   p_source  SQL of the ids to look at, as a column `id` (others may be used by p_fitting)
--   p_fitting SQL that joins and filters the looked-at rows `c`
--   p_filter  the filter, a record: $3 in both
-- Looks at no more than 10,000 rows. Returns up to p_max ids that fit, newest first; and, when the bound cut the look
-- short, how far it went.
create function fencepost_private.bounded_look(
  p_source text, p_fitting text, p_filter anyelement, p_below bigint, p_max int, out ids bigint[], out cut_at bigint)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set jit = off
as $$
declare
  v_budget constant int := 10000;
  v_below  bigint := coalesce(p_below, 9223372036854775807);
begin
  execute format($query$
    select array(
      select c.id
      from (select s.* from (%s) as s where s.id < $1 order by s.id desc limit $2) as c
      %s
      order by c.id desc
      limit $4)
    $query$, p_source, p_fitting) into ids using v_below, v_budget, p_filter, p_max;
  if cardinality(ids) < p_max then
    execute format('select s.id from (%s) as s where s.id < $1 order by s.id desc offset $2 limit 1', p_source)
      into cut_at using v_below, v_budget - 1, p_filter;
  end if;
end
$$;
comment on function fencepost_private.bounded_look(text, text, anyelement, bigint, int)
  is 'Ids of a source that fit, newest first, of the newest 10,000 below an id; and how far the look went when that cut it short.';
