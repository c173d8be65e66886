import { expect, it } from 'vitest'
import { styleFor } from '../../src/cli/terminal.ts'
import { graphLines, levelsOf } from '../../src/cli/watch/graph.ts'
import { picture } from '../../src/cli/watch/picture.ts'
import type { ApprovalRow, ListedTask, RunRow } from '../../src/database/engine.ts'

const screen = { style: styleFor(false), width: 70, height: 40 }

function task(name: string, after: string[], more: Partial<ListedTask> = {}): ListedTask {
  return {
    id: 1,
    name,
    after,
    kind: 'job',
    status: 'pending',
    attempts: 0,
    output: null,
    error: null,
    type: null,
    job_id: null,
    child_run_id: null,
    item: null,
    parent_task_id: null,
    approval_id: null,
    due_at: null,
    ready_at: null,
    started_at: null,
    finished_at: null,
    unmet_parents: 0,
    items: null,
    items_open: null,
    items_failed: null,
    compensation: null,
    ...more,
  }
}

const run = {
  id: 7,
  workflow: 'order',
  version: 3,
  status: 'waiting',
  reason: null,
  created_at: new Date('2030-01-01T00:00:00Z'),
  finished_at: null,
  ended_tasks: 2,
  failed_tasks: 1,
  total_tasks: 9,
} as RunRow

const tasks = [
  task('charge', [], { status: 'completed', compensation: 'running' }),
  task('reserve', [], { status: 'completed', compensation: 'completed' }),
  task('review', ['charge'], { kind: 'approval', status: 'waiting' }),
  task('settle', ['charge'], { kind: 'timer', status: 'waiting', due_at: run.created_at }),
  task('paid', ['charge'], { kind: 'signal', status: 'waiting' }),
  task('parcels', ['review', 'reserve'], {
    kind: 'map',
    status: 'waiting',
    items: 10,
    items_open: 7,
    items_failed: 1,
  }),
  task('invoice', ['parcels'], { kind: 'workflow', status: 'waiting', child_run_id: 12 }),
  task('mail', ['charge'], { status: 'running', attempts: 2 }),
  task('label', ['parcels', 'charge'], { status: 'failed', error: 'no printer\nat line 1' }),
  task('gift', ['charge'], { status: 'skipped' }),
]
const approvals = [{ id: 5, task: 'review', reason: 'Too much?' } as ApprovalRow]

it('a task stands below the lowest that it waits for', () => {
  const names = levelsOf(tasks).map((level) => level.map(({ name }) => name))
  expect(names).toEqual([
    ['charge', 'reserve'],
    ['review', 'settle', 'paid', 'mail', 'gift'],
    ['parcels'],
    ['invoice', 'label'],
  ])
})

it('a picture tells state, progress, and what needs an eye, the worst first', () => {
  expect(
    picture({ run, tasks, partial: false, approvals }, screen, new Date('2030-01-01T00:00:12Z')),
  ).toBe(`run 7 · order 3 · waiting · 2 of 9 tasks ended well, 1 failed · 12 s

  ↶ charge   ↶ reserve
  ↓
  ◷ review   ◷ settle   ◷ paid   ▶ mail   ↷ gift
  ↓
  ◷ parcels 3/10
  ↓
  ◷ invoice   ✘ label

  ✘ label: no printer
  ▶ mail: attempt 2
  ↶ charge is being undone
  ◷ settle waits until 2030-01-01T00:00:00.000Z
  ◷ paid waits for its signal
  ◷ parcels: 7 items open, 1 failed
  ◷ invoice is run 12
  ? review: Too much? · fencepost approval approve 5`)
})

it('a level that is wider than the screen takes more lines', () => {
  const wide = Array.from({ length: 9 }, (_, index) => task(`a-long-name-${index}`, []))
  const lines = graphLines(wide, screen)
  expect(lines).toHaveLength(3)
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(70)
})

it('a picture is never higher than the screen', () => {
  for (const height of [5, 12, 20]) {
    const text = picture({ run, tasks, partial: false, approvals }, { ...screen, height })
    expect(text.split('\n').length).toBeLessThan(height)
  }
})
