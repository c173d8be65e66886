import { z } from '@hono/zod-openapi'
import { anyJson } from './fields.ts'

// What answers about workflows look like, for the reference: rows of the stable views, as they are.

const id = z.int().openapi({ format: 'int64', example: 42 })
const time = z.iso.datetime().openapi({ example: '2030-01-01T00:00:00.000Z' })
const text = z.string()
const count = z.int()

/** A definition, as it was published. */
export const Definition = z.record(z.string(), z.unknown()).openapi('Definition', {
  description: 'The tasks by name, with what each waits for and needs.',
  example: {
    tasks: {
      charge: { type: 'payment.charge' },
      review: { kind: 'approval', after: ['charge'], when: '$.input.amount > 1000' },
      ship: { type: 'shipment.create', after: ['review'] },
    },
  },
})

/** A row of `fencepost.workflows`. */
export const Workflow = z
  .object({
    name: text.openapi({ example: 'order.fulfil' }),
    latest_version: count,
    tasks: count.openapi({ description: 'How many tasks its latest version has.' }),
    keep_finished: text.openapi({
      description: 'How long its finished runs are kept.',
      example: '7 days',
    }),
    created_at: time,
    updated_at: time.openapi({ description: 'When its latest version was published.' }),
    updated_by: text,
  })
  .openapi('Workflow')

/** A row of `fencepost.workflow_versions`, without its definition. */
export const Version = z
  .object({
    workflow: text,
    version: count,
    checksum: text.openapi({ description: 'Equal definitions have equal ones.' }),
    tasks: count,
    created_at: time,
    created_by: text,
  })
  .openapi('WorkflowVersion')

/** A run in a list. */
export const ListedRun = z
  .object({
    id,
    workflow: text,
    version: count.openapi({ description: 'The version that it is pinned to.' }),
    status: z
      .enum([
        'running',
        'waiting',
        'paused',
        'completed',
        'failed',
        'cancelled',
        'compensating',
        'compensated',
      ])
      .openapi({ description: 'Derived from its tasks.' }),
    input: anyJson,
    created_at: time,
    finished_at: time.nullable(),
    pending_tasks: count,
    queued_tasks: count,
    waiting_tasks: count,
    ended_tasks: count,
    failed_tasks: count,
    total_tasks: count,
    tags: z.array(text),
    priority: count,
    tenant: text.nullable(),
    idempotency_key: text.nullable(),
    reason: text.nullable().openapi({ description: 'Why it was paused or cancelled.' }),
    paused_at: time.nullable(),
    cancelled_at: time.nullable(),
    parent_run_id: id.nullable(),
    parent_task_id: id.nullable(),
    root_run_id: id,
    restarted_from: id.nullable(),
  })
  .openapi('ListedRun')

/** A row of `fencepost.runs`. */
export const Run = ListedRun.extend({
  output: z.record(text, z.unknown()).nullable().openapi({
    description:
      'Outputs of the tasks that no other waits for, by name; null until it has completed.',
  }),
}).openapi('Run')

/** A row of `fencepost.tasks`. */
export const Task = z
  .object({
    id,
    run_id: id,
    name: text,
    kind: z.enum(['job', 'approval', 'timer', 'signal', 'map', 'workflow', 'item', 'compensation']),
    status: z.enum([
      'pending',
      'queued',
      'running',
      'waiting',
      'completed',
      'failed',
      'skipped',
      'cancelled',
    ]),
    attempts: count,
    output: anyJson,
    error: text.nullable().openapi({ description: 'Why it failed or was skipped.' }),
    type: text.nullable().openapi({ description: 'Of its jobs, or the workflow that it runs.' }),
    job_id: id.nullable(),
    child_run_id: id.nullable(),
    item: count.nullable().openapi({ description: 'The place of an item of a map, from 0.' }),
    parent_task_id: id.nullable().openapi({
      description: 'The map of an item, or the task that a compensation undoes.',
    }),
    approval_id: id.nullable().openapi({ description: 'The gate before it.' }),
    due_at: time.nullable().openapi({ description: 'When its time comes, or its wait expires.' }),
    ready_at: time.nullable().openapi({ description: 'When its parents were done.' }),
    started_at: time.nullable().openapi({ description: 'While it runs.' }),
    finished_at: time.nullable(),
    unmet_parents: count.openapi({ description: 'Parents and gates that it still waits for.' }),
    after: z.array(text).openapi({ description: 'The tasks that it waits for.' }),
    items: count.nullable().openapi({ description: 'Of a map: how many.' }),
    items_open: count.nullable().openapi({ description: 'Of a map: how many have not ended.' }),
    items_failed: count.nullable().openapi({ description: 'Of a map: how many failed.' }),
  })
  .openapi('Task')

/** A task in a list. */
export const ListedTask = Task.extend({
  compensation: Task.shape.status.nullable().openapi({
    description: 'The status of the task that undoes it; null when there is none.',
  }),
}).openapi('ListedTask')

/** A row of `fencepost.approvals`. */
export const Approval = z
  .object({
    id,
    run_id: id,
    task: text,
    status: z.enum(['pending', 'approved', 'rejected', 'expired', 'withdrawn']),
    workflow: text,
    task_id: id,
    is_gate: z.boolean().openapi({ description: 'True when it was put before a task by hand.' }),
    reason: text.nullable(),
    requested_at: time,
    requested_by: text,
    expires_at: time.nullable(),
    decided_at: time.nullable(),
    decided_by: text.nullable(),
    comment: text.nullable(),
    data: anyJson,
    tenant: text.nullable(),
  })
  .openapi('Approval')

/** A row of `fencepost.signals`. */
export const Signal = z
  .object({
    id,
    run_id: id,
    name: text,
    payload: anyJson,
    received_at: time,
    sent_by: text,
    task_id: id.nullable().openapi({ description: 'The task that took it.' }),
  })
  .openapi('Signal')
