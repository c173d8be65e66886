import { once } from 'node:events'

/** Resolves when the process is asked to end: Ctrl-C, or SIGTERM. A second time ends it at once. */
export async function untilAsked(): Promise<NodeJS.Signals> {
  const controller = new AbortController()
  const { signal } = controller
  const asked = await Promise.race([
    once(process, 'SIGINT', { signal }).then(() => 'SIGINT' as const),
    once(process, 'SIGTERM', { signal }).then(() => 'SIGTERM' as const),
  ])
  controller.abort()
  for (const again of ['SIGINT', 'SIGTERM'] as const) {
    process.once(again, () => process.exit(130))
  }
  return asked
}
