import { whenTrue } from '../../lib/clock.mjs'

/** Sets a system's workflow up in a place of its own, with a starter, a worker and an observer. */
export async function withWorkflow(stage, system, flow, settings, play) {
  const { workflows } = system
  return await stage.with(system, async ({ place, actor, settle, costs }) => {
    await workflows.install?.(place, flow)
    const worker = await actor('runner')
    await worker.call('start', place, { flow, settings })
    const apart = settings.startedBy !== 'worker'
    const starter = apart ? await actor('starter') : worker
    if (apart) await starter.call('open', place, { flow, settings })
    const observer = await workflows.observer(place)
    // A system that starts runs in the worker is given all of them at once, and keeps its own bounds.
    const batch = apart ? 1000 : Number.MAX_SAFE_INTEGER
    const crew = { worker, starter, apart, batch, observer, settle, costs, completed: 0 }
    try {
      return await play(crew)
    } finally {
      await observer.close()
    }
  })
}

/**
 * Starts runs and waits until the *store* says that all have completed. When the first start was called,
 * when the last run had completed, and what starter and worker say of it.
 */
export async function playRuns(crew, runs, within) {
  const { worker, starter, observer } = crew
  await worker.call('expect', runs)
  const [, started] = await Promise.all([
    worker.event('handled', within),
    starter.call('startRuns', { count: runs, size: crew.batch }),
  ])
  const what = 'all runs completed'
  const completedAt = await whenTrue(observer.isSettled, { every: 2, within, what })
  const report = await worker.call('report')
  crew.completed += runs
  const completed = await observer.completed()
  if (completed !== crew.completed) {
    throw new Error(`${completed} runs have completed, not ${crew.completed}`)
  }
  return { startedAt: started.startedAt, completedAt, started, report }
}
