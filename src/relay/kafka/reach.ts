import { once } from 'node:events'
import { connect } from 'node:net'
import { type Broker, brokerText } from './broker.ts'

/**
 * Why no broker of these takes connections; undefined when one does. Nothing is said to it. A client connects only
 * when there is something to publish, and so an address that is wrong would be noticed late.
 *
 * @param signal ends the wait for those that do not answer
 */
export async function whyUnreachable(
  brokers: readonly Broker[],
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    await Promise.any(brokers.map((broker) => reach(broker, signal)))
    return undefined
  } catch (error) {
    const { errors } = error as AggregateError
    return brokers
      .map((broker, index) => `${brokerText(broker)}: ${reasonOf(errors[index])}`)
      .join('; ')
  }
}

async function reach({ host, port }: Broker, signal: AbortSignal): Promise<void> {
  const socket = connect({ host, port, signal })
  try {
    await once(socket, 'connect')
  } finally {
    socket.destroy()
  }
}

function reasonOf({ name, code, message }: NodeJS.ErrnoException): string {
  return name === 'AbortError' ? 'no answer' : (code ?? message)
}
