/** Signals that ask a process to end. */
const ENDING = ['SIGINT', 'SIGTERM'] as const

/** A repeated signal is impatience only after this long, in ms: npm passes on what Ctrl-C sent us too. */
const ONCE = 1_500

/**
 * Resolves when the process is asked to end: by Ctrl-C or SIGTERM. Asked again later, because it takes
 * long, the process ends at once.
 */
export function untilAsked(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let askedAt: number | undefined
    const heard = (signal: NodeJS.Signals) => {
      askedAt ??= Date.now()
      if (Date.now() - askedAt > ONCE) process.exit(130)
      resolve(signal)
    }
    for (const signal of ENDING) process.on(signal, heard)
  })
}
