-- How long to wait before the next attempt: least(cap, base * factor ^ (attempt - 1)), of which the share `jitter`
-- is drawn at random: with jitter 0.5 the wait is uniform between half of it and all of it.
create function fencepost_private.retry_delay(
  p_attempt int, p_base interval, p_factor double precision, p_cap interval, p_jitter double precision,
  p_random double precision default random())
returns interval
language sql volatile parallel safe
return make_interval(secs =>
  least(extract(epoch from p_cap)::double precision,
        extract(epoch from p_base)::double precision * least(power(p_factor, least(p_attempt - 1, 100)), 1e15))
  * (1 - p_jitter * p_random));

comment on function fencepost_private.retry_delay(int, interval, double precision, interval, double precision, double precision)
  is 'Wait before the attempt after p_attempt: least(cap, base * factor ^ (attempt - 1)), less up to the share jitter, at random.';
