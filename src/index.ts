/// <reference types="node" preserve="true" />
/// <reference lib="esnext.disposable" preserve="true" />

// What the package offers. Everything else may change with any release.

export type { EventHandler } from './client/consumption.ts'
export type { AckOptions, EventBatch, LogEvent } from './client/event-batch.ts'
export type { ConsumerInfo, ParkedEvent } from './client/event-client.ts'
export type {
  ConsumeOptions,
  ConsumerOptions,
  EventFilter,
  FollowLogOptions,
  PollOptions,
  SubscribeOptions,
} from './client/event-options.ts'
export {
  type EnqueuedJob,
  Fencepost,
  type FencepostOptions,
  type Job,
  type JobAttempt,
  type JobEvent,
  type JobFilter,
  type JobReason,
  type MatchingOptions,
  type TypeStats,
  type WorkerInfo,
} from './client/fencepost.ts'
export type { EnqueueOptions, JobRequest, TransactionOption } from './client/new-job.ts'
export {
  type MigrationChange,
  Run,
  type RunInfo,
  type RunListing,
  type TaskInfo,
  type TaskQuery,
  type TaskReason,
} from './client/run.ts'
export { RunFailedError, RunTimeoutError, type TaskFailure } from './client/run-ends.ts'
export type { ResultOptions } from './client/run-result.ts'
export type {
  ApprovalFilter,
  ApprovalInfo,
  DecisionOptions,
  RunFilter,
  StartOptions,
  WorkflowDifference,
} from './client/workflow-client.ts'
export type { TransactionHandle } from './database/adopt.ts'
export {
  ConnectionLostError,
  connect,
  type Database,
  DatabaseError,
  type DatabaseOptions,
  isConnectionError,
  json,
  QueryAbortedError,
  type Queryable,
  type QueryOptions,
  QueryTimeoutError,
} from './database/database.ts'
export { type MigrateOptions, type MigrateResult, migrate } from './database/migrate.ts'
export {
  defineJob,
  type Handler,
  JobDefinition,
  type JobOptions,
} from './definitions/define-job.ts'
export {
  defineWorkflow,
  type RunOutput,
  WorkflowDefinition,
  type WorkflowOptions,
} from './definitions/define-workflow.ts'
export type { Duration } from './definitions/duration.ts'
export type { Schema } from './definitions/schema.ts'
export type { RetryPolicy, TypeSettings } from './definitions/settings.ts'
export type {
  ApprovalOptions,
  ChildOptions,
  Decision,
  JobTaskOptions,
  MapOptions,
  SignalOptions,
  TaskOptions,
  TimerOptions,
} from './definitions/workflow-tasks.ts'
export { type ErrorCode, errorCatalogue, FencepostError } from './errors.ts'
export { createLogger, type Logger, type LoggerOptions, silentLogger } from './telemetry/logger.ts'
export { type AbortCause, AttemptAbortedError } from './worker/abort.ts'
export type { JobContext } from './worker/context.ts'
export { PermanentError, RetryError } from './worker/failure.ts'
export type { StopOptions, WorkerOptions } from './worker/options.ts'
export type { AttemptReport, ReportedOutcome, WorkerCounters } from './worker/report.ts'
export type { Worker, WorkerSlots, WorkerState } from './worker/worker.ts'
