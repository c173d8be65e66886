import type { Queryable } from '../../database/database.ts'
import { attempts, leasesOf, workerPage } from '../../database/engine.ts'

/** An attempt that was under way when its worker died. */
interface Interrupted {
  readonly job_id: number
  readonly token: number
}

/** How often we look whether an attempt was followed by another, in ms. */
const LOOK_AGAIN = 200
/** How long we look, in ms. */
const PATIENCE = 60_000
/** How many jobs are told of one by one. */
const SHOWN = 5

/** What the worker of this name holds, as a death is noticed. */
export async function heldBy(db: Queryable, name: string): Promise<Interrupted[]> {
  const active = await workerPage(db, { status: 'active', limit: 200 })
  const held = await Promise.all(
    active.filter((each) => each.name === name).map(({ id }) => leasesOf(db, id, 1_000)),
  )
  return held.flat()
}

/** Watches jobs until each was claimed again, and tells what became of their attempts. */
export async function watchRecovery(
  db: Queryable,
  interrupted: readonly Interrupted[],
  say: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const deadline = Date.now() + PATIENCE
  const open = new Map(interrupted.map((each) => [each.job_id, each.token]))
  let told = 0
  while (open.size > 0 && Date.now() < deadline && !signal.aborted) {
    for (const [job, token] of open) {
      const story = await attempts(db, job)
      const next = story.find((each) => each.token > token)
      if (next === undefined) continue
      open.delete(job)
      const before = story.find((each) => each.token === token)
      if (++told <= SHOWN) {
        say(
          `  job ${job}: token ${token} ${before?.outcome ?? 'gone'}, runs again under token ${next.token}`,
        )
      }
    }
    if (open.size > 0) await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN))
  }
  if (signal.aborted) return
  const recovered = interrupted.length - open.size
  if (told > SHOWN) say(`  … and ${told - SHOWN} more`)
  say(`  ${recovered} of ${interrupted.length} interrupted jobs recovered.`)
}
