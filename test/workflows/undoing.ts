import { expect } from 'vitest'
import type { Queryable } from '../../src/database/database.ts'
import { type Claimed, claim, complete, freshType } from '../support/engine.ts'
import { expectSound, type TaskSpec } from '../support/runs.ts'

/** What makes a workflow undo what a failed run of it has done. */
export const saga = { on_failure: 'compensate' }

/** How tasks are undone: by jobs of one type of its own, so that one claim finds whatever is to be undone now. */
export class Undoing {
  readonly type = freshType('undo')
  readonly #db: Queryable

  constructor(db: Queryable) {
    this.#db = db
  }

  /** A task that is undone by it. */
  of(...after: string[]): TaskSpec {
    return { compensate: this.type, after }
  }

  /** Claims the only job that there is. */
  async claim(): Promise<Claimed> {
    const jobs = await claim(this.#db, this.type, 10)
    expect(jobs).toHaveLength(1)
    return jobs[0] as Claimed
  }

  /** Claims the only two jobs that there are. */
  async both(): Promise<[Claimed, Claimed]> {
    const jobs = await claim(this.#db, this.type, 10)
    expect(jobs).toHaveLength(2)
    return jobs as [Claimed, Claimed]
  }

  /** Undoes, one task at a time, until nothing is left; returns the tasks, in that order. */
  async all(): Promise<string[]> {
    const tasks: string[] = []
    for (;;) {
      const [job, more] = await claim(this.#db, this.type, 10)
      expect(more).toBeUndefined()
      if (job === undefined) return tasks
      tasks.push((job.payload as { task: string }).task)
      await complete(this.#db, job)
      await expectSound(this.#db)
    }
  }
}
