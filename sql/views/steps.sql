-- What handlers have recorded on their way, for the attempts that come after.
create view fencepost.steps as
select s.job_id, s.name, fencepost_private.shown(s.value) as value, s.token, s.at
from fencepost_private.step s;

comment on view fencepost.steps is 'Checkpoints of jobs: recorded once by step(), given back to every later attempt.';
comment on column fencepost.steps.job_id is 'The job.';
comment on column fencepost.steps.name is 'The step, unique in the job.';
comment on column fencepost.steps.value is 'What was recorded.';
comment on column fencepost.steps.token is 'The attempt that recorded it.';
comment on column fencepost.steps.at is 'When.';
