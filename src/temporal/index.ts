/// <reference types="node" preserve="true" />
/// <reference lib="esnext.disposable" preserve="true" />

// What `fencepost/temporal` offers. It needs the optional peer @temporalio/activity.

export { type JobActivity, type JobActivityOptions, jobActivity } from './job-activity.ts'
