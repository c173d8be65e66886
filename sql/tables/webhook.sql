-- Endpoints that get events by HTTP. Each has a consumer (webhook:NAME) and a type of job (fencepost.webhook.NAME) of its
-- own: where it stands in the log, whether it is paused and how often it is tried are theirs, and stored nowhere else.
create table fencepost_private.webhook (
  webhook_id int generated always as identity primary key,
  name       text not null constraint webhook_name_unique unique
             constraint webhook_name_well_formed check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,99}$'),
  url        text not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  error      text,
  error_at   timestamptz
) with (fillfactor = 50);
comment on table fencepost_private.webhook is 'Endpoints that get events by HTTP.';
comment on column fencepost_private.webhook.webhook_id is 'Internal number, never used twice: with the id of an event it makes the id of a message.';
comment on column fencepost_private.webhook.name is 'Its name.';
comment on column fencepost_private.webhook.url is 'Where messages go.';
comment on column fencepost_private.webhook.created_at is 'When it was created.';
comment on column fencepost_private.webhook.updated_at is 'When its URL, filter or secret last changed.';
comment on column fencepost_private.webhook.error is 'Why its events could not be made deliveries at the last try; null when they were.';
comment on column fencepost_private.webhook.error_at is 'Since when.';

create table fencepost_private.webhook_secret (
  webhook_id int not null,
  secret     text not null,
  created_at timestamptz not null,
  expires_at timestamptz,
  constraint webhook_secret_pkey primary key (webhook_id, secret)
);
comment on table fencepost_private.webhook_secret is 'The secrets that messages are signed with. They are needed as they are, so they are stored so: no view shows them.';
comment on column fencepost_private.webhook_secret.webhook_id is 'The webhook.';
comment on column fencepost_private.webhook_secret.secret is 'whsec_ and base64.';
comment on column fencepost_private.webhook_secret.created_at is 'When it was made.';
comment on column fencepost_private.webhook_secret.expires_at is 'Until when it signs; null for the present one.';
