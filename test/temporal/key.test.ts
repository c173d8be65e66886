import { describe, expect, it } from 'vitest'
import { idempotencyKey } from '../../src/temporal/key.ts'

const runId = '3f0c8a52-6d0e-4d5c-9f49-0b7f0f4f9a10'
const key = (workflowId: string, activityId = '1') =>
  idempotencyKey({ workflowExecution: { workflowId, runId }, activityId })

describe('the idempotency key of an activity', () => {
  it('names its workflow, the run and itself', () => {
    expect(key('billing')).toBe(`billing/${runId}/1`)
  })

  it('names the run of an activity outside of a workflow', () => {
    expect(idempotencyKey({ activityId: 'import', activityRunId: runId })).toBe(`import/${runId}`)
  })

  it('fits the engine however long the names are, and still differs', () => {
    const long = 'w'.repeat(1_000)
    expect(key(long)).toMatch(/^sha256:[0-9a-f]{64}$/)
    expect(key(long)).toBe(key(long))
    expect(key(long)).not.toBe(key(long, '2'))
  })
})
