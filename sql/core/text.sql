-- Small words for messages and checks.

-- The candidate nearest to what was typed, for "did you mean": shares the first letters, or contains the word.
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
  where s.shared * 2 >= length(replace(p_word, '_', '')) - 1 and s.shared > 0
  order by s.shared desc, abs(length(c.name) - length(p_word)), c.name
  limit 1
$$;
comment on function fencepost_private.did_you_mean(text, text[]) is 'A hint that names the candidate nearest to a misspelt word, or null.';

-- Cut a text for storage, and say so.
create function fencepost_private.clipped(p_text text, p_bytes int default 65536) returns text
language sql immutable
return case when octet_length(p_text) <= p_bytes then p_text
            else left(p_text, p_bytes / 4) || format(' … (cut from %s bytes)', octet_length(p_text)) end;
comment on function fencepost_private.clipped(text, int) is 'A text of at most about p_bytes bytes: longer ones are cut and say so.';
