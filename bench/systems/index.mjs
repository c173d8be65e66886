import { absurd } from './absurd.mjs'
import { bullmq, bullmqAlways } from './bullmq.mjs'
import { dbos } from './dbos.mjs'
import { engine } from './engine.mjs'
import { fencepost } from './fencepost.mjs'
import { floor } from './floor.mjs'
import { graphileWorker } from './graphile-worker.mjs'
import { pgBoss } from './pg-boss.mjs'
import { pgflow } from './pgflow.mjs'

/** In the order of the tables. The first that is here is what the others are compared with. */
export const systems = [
  fencepost,
  graphileWorker,
  pgBoss,
  bullmq,
  bullmqAlways,
  dbos,
  absurd,
  pgflow,
  engine,
  floor,
]

export function systemNamed(name) {
  const system = systems.find((each) => each.name === name)
  if (system === undefined) {
    throw new Error(`No system "${name}"; there are ${systems.map((each) => each.name).join(', ')}`)
  }
  return system
}
