import type fc from 'fast-check'
import { expect } from 'vitest'
import type { Queryable } from '../../src/database/database.ts'
import { violations } from '../support/engine.ts'
import type { Model } from './model.ts'
import type { Job } from './state.ts'

/** The engine under test, with names of a run's own: runs share a database. */
export interface Real {
  readonly db: Queryable
  readonly run: string
}

type Act = (model: Model, real: Real) => Promise<void>

/** One call of the engine beside the same step of the model. They agree on its answer, and on all jobs after it. */
export class Step implements fc.AsyncCommand<Model, Real> {
  constructor(
    private readonly name: string,
    private readonly act: Act,
    private readonly needsJobs = true,
  ) {}

  check(model: Readonly<Model>): boolean {
    return !this.needsJobs || model.jobs.size > 0
  }

  async run(model: Model, real: Real): Promise<void> {
    model.begin()
    await this.act(model, real)
    await agree(model, real)
  }

  toString(): string {
    return this.name
  }
}

/** All jobs stand where the model says, under the same token and priority, and the engine finds nothing wrong. */
async function agree(model: Model, real: Real): Promise<void> {
  const rows = await real.db.query<Pick<Job, 'id' | 'place' | 'attempts' | 'token' | 'priority'>>(
    `select p.id, coalesce(h.place, p.status) as place, p.attempts, p.token, n.priority
     from fencepost_private.job_place p
     left join fencepost_private.held_places() h on h.id = p.id
     join fencepost_private.lane n on n.lane_id = p.lane_id
     where p.id = any ($1) order by p.id`,
    [[...model.jobs.keys()]],
  )
  const expected = [...model.jobs.values()]
    .sort((a, b) => a.id - b.id)
    .map(({ id, place, attempts, token, priority }) => {
      return { id, place, attempts, token, priority }
    })
  expect(rows).toEqual(expected)
  expect(await violations(real.db)).toEqual([])
}
