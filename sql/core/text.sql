-- Small words for messages and checks.

-- The candidate nearest to what was typed, for "did you mean": most pairs of letters of the word are in it, and it is not
-- much longer, unless it shares more than one of them.
create function fencepost_private.did_you_mean(p_word text, p_candidates text[]) returns text
language sql immutable
set search_path = fencepost_private, pg_temp
as $$
  select 'did you mean ' || quote_literal(c.name) || '? '
  from unnest(p_candidates) as c(name)
  cross join lateral (
    select count(*) as shared
    from generate_series(1, greatest(length(p_word) - 1, 0)) as i
    where position(substr(lower(replace(p_word, '_', '')), i, 2) in lower(replace(c.name, '_', ''))) > 0
      and length(substr(lower(replace(p_word, '_', '')), i, 2)) = 2
  ) as s
  where s.shared * 2 >= length(replace(p_word, '_', '')) - 1 and s.shared > 0 and (s.shared > 1 or length(c.name) <= length(p_word) + 2)
  order by s.shared desc, abs(length(c.name) - length(p_word)), c.name
  limit 1
$$;
comment on function fencepost_private.did_you_mean(text, text[]) is 'A hint that names the candidate nearest to a misspelt word, or null.';

-- Cut a text for storage, and say so: what is kept ends with the last character that lies whole within p_bytes, in which
-- UTF-8 begins each character with a byte that is not 10xxxxxx.
create function fencepost_private.clipped(p_text text, p_bytes int default 65536) returns text
language plpgsql immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_bytes bytea;
  v_end   int := p_bytes;
begin
  if octet_length(p_text) <= p_bytes then
    return p_text;
  end if;
  v_bytes := convert_to(p_text, 'UTF8');
  while v_end > 0 and get_byte(v_bytes, v_end) & 192 = 128 loop
    v_end := v_end - 1;
  end loop;
  return convert_from(substr(v_bytes, 1, v_end), 'UTF8') || format(' … (cut from %s bytes)', octet_length(p_text));
end
$$;
comment on function fencepost_private.clipped(text, int) is 'The first p_bytes bytes of a text, whole characters only: longer ones are cut and say so.';

-- What is given to runs may be as large as a payload of jobs is by default. Errors: JE006.
create function fencepost_private.check_size(p_value jsonb, p_what text) returns void
language plpgsql immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if octet_length(p_value::text) > 1048576 then
    perform raise_error('JE006', format('%s is too large', p_what), format('received %s bytes; the limit is 1048576', octet_length(p_value::text)),
      'Store large data elsewhere and give a reference to it.');
  end if;
end
$$;
comment on function fencepost_private.check_size(jsonb, text) is 'Raises JE006 for JSON of more than 1 MiB.';

-- Errors: JE003 for a text that is longer than what people write.
create function fencepost_private.check_length(p_text text, p_what text, p_most int default 10000) returns void
language plpgsql immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if length(p_text) > p_most then
    perform raise_error('JE003', format('%s must have at most %s characters', p_what, p_most), format('received %s characters', length(p_text)), 'Keep it short: what is long belongs into data.');
  end if;
end
$$;
comment on function fencepost_private.check_length(text, text, int) is 'Raises JE003 for a text that is too long.';
