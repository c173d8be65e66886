import type { Address, Host } from './address.ts'
import { openSocket } from './socket.ts'

/** What the server told a connection at its start, so that it can ask for a statement to be stopped. */
export interface Backend {
  readonly pid: number
  readonly secret: number
}

const CANCEL_REQUEST = 80877102
const CANCEL_TIMEOUT = 2_000

/** Asks the server, on a connection of its own, to stop what a session does. Resolves in any case, soon. */
export async function cancelStatement(
  address: Address,
  host: Host,
  { pid, secret }: Backend,
): Promise<void> {
  const message = Buffer.alloc(16)
  message.writeInt32BE(16, 0)
  message.writeInt32BE(CANCEL_REQUEST, 4)
  message.writeUInt32BE(pid >>> 0, 8)
  message.writeUInt32BE(secret >>> 0, 12)
  const signal = AbortSignal.timeout(CANCEL_TIMEOUT)
  try {
    const socket = await openSocket(address, host, signal)
    await new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => socket.destroy())
      socket.once('close', () => resolve())
      socket.resume()
      // The other side closes. Closing our half first made PgBouncer 1.18 exit.
      socket.write(message)
    })
  } catch {} // it was worth a try; the server finds out when it next writes
}
