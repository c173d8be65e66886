import { batchEnqueue } from './batch-enqueue.mjs'
import { consumers } from './consumers.mjs'
import { drain } from './drain.mjs'
import { engine } from './engine.mjs'
import { floor } from './floor.mjs'
import { heldSnapshot } from './held-snapshot.mjs'
import { singleEnqueue } from './single-enqueue.mjs'
import { wakeUp } from './wake-up.mjs'
import { workflowFan } from './workflow-fan.mjs'
import { workflowLinear } from './workflow-linear.mjs'

/**
 * Each has a `name`, a `title`, what it measures in `about`, its main figure's `unit` and whether
 * `higher` is better, its size in each mode, `round(stage, system, size)`, which returns an object whose
 * `value` is the main figure, and, where not every system can play, `suits(system)`.
 */
export const scenarios = [
  drain,
  batchEnqueue,
  singleEnqueue,
  wakeUp,
  heldSnapshot,
  workflowLinear,
  workflowFan,
  consumers,
  engine,
  floor,
]
