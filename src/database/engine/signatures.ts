/**
 * The functions of the schema `fencepost` that this package calls, with their parameters. A test
 * compares the list with the catalog: none may be missing, none may have other parameters.
 */
export const signatures = {
  // producers
  enqueue: [
    'type',
    'payload',
    'priority',
    'run_at',
    'delay',
    'idempotency_key',
    'max_attempts',
    'timeout',
    'headers',
    'tenant',
  ],
  enqueue_many: ['jobs'],
  enqueue_batch: ['type', 'payloads', 'priority', 'delay', 'tenant'],

  // workers
  register_worker: ['name', 'hostname', 'slot', 'types', 'ttl', 'protocol', 'info', 'tenant'],
  claim: ['worker', 'types', 'max', 'ttl'],
  exchange: [
    'worker_id',
    'completed_ids',
    'completed_tokens',
    'completed_results',
    'failed_ids',
    'failed_tokens',
    'failed_errors',
    'failed_details',
    'failed_retry_in',
    'failed_permanent',
    'running_ids',
    'running_tokens',
    'types',
    'max',
  ],
  heartbeat: ['worker', 'job_ids', 'tokens', 'worker_id'],
  complete: ['job_id', 'token', 'result'],
  complete_many: ['job_ids', 'tokens', 'results'],
  fail: ['job_id', 'token', 'error', 'retry_in', 'permanent', 'details'],
  fail_many: ['job_ids', 'tokens', 'errors', 'retry_in', 'permanent', 'details'],
  release: ['job_id', 'token'],
  release_many: ['job_ids', 'tokens'],
  progress: ['job_id', 'token', 'value'],
  step: ['job_id', 'token', 'name', 'value'],
  suspend: ['job_id', 'token', 'wake_at', 'delay', 'waits_for'],
  stop_worker: ['worker_id'],

  // an idle worker
  wake_groups: ['types'],
  sleep_lock: ['groups'],
  sleep_unlock: ['groups'],
  sleep_horizon: [],
  sleep_pending: ['horizon'],
  next_due: ['types'],

  // operators
  cancel: ['job_id', 'reason'],
  replay: ['job_id'],
  discard: ['job_id', 'reason'],
  reprioritize: ['job_id', 'priority'],
  resume: ['job_id', 'data'],
  configure_type: [
    'type',
    'max_running',
    'max_attempts',
    'timeout',
    'backoff_base',
    'backoff_factor',
    'backoff_cap',
    'backoff_jitter',
    'max_pending',
    'max_payload_bytes',
    'payload_check',
    'accept',
    'publish_enqueued',
    'publish_started',
    'dead_letter_alert',
    'keep_finished',
    'reset',
  ],
  pause_type: ['type', 'reason'],
  resume_type: ['type', 'reason'],
  drain_worker: ['worker_id'],
  list_jobs: ['filter', 'after', 'max'],
  explain_job: ['job_id'],
  replay_matching: ['filter', 'dry_run', 'max'],
  discard_matching: ['filter', 'dry_run', 'reason', 'max'],
  stats: ['type'],
  outcome_totals: ['type'],
  declare_type: ['type', 'settings'],
  maintain: [],
  doctor: [],
  check_invariants: ['bodies'],
  after_restore: [],
} as const satisfies Record<string, readonly string[]>

/** A function of the schema `fencepost`. */
export type FunctionName = keyof typeof signatures

/** The parameters of a function, by name. */
export type ParameterName<Name extends FunctionName> = (typeof signatures)[Name][number]
