-- Who acts, and for whom. Access control replaces the bodies of these two functions, and nothing else.

create function fencepost_private.current_tenant() returns text
language sql stable
return coalesce(current_setting('fencepost.tenant', true), '');
comment on function fencepost_private.current_tenant() is 'The tenant of this session (setting fencepost.tenant), '''' when there is none.';

create function fencepost_private.actor() returns text
language sql stable
return coalesce(nullif(current_setting('fencepost.actor', true), ''), session_user);
comment on function fencepost_private.actor() is 'Who is acting: the setting fencepost.actor, else the session''s role. Written into operator events.';

-- Every payload, result and error on its way to a reader passes through here, so that hiding what is sensitive
-- will be one change.
create function fencepost_private.shown(p_value jsonb) returns jsonb
language sql immutable
return p_value;
comment on function fencepost_private.shown(jsonb) is 'A payload, result or error as readers may see it.';
