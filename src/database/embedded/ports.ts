import { createServer } from 'node:net'

/** The wanted port of 127.0.0.1 when nobody listens there, else one that the system finds free. */
export async function freePort(wanted?: number): Promise<number> {
  if (wanted !== undefined && (await tryPort(wanted)) !== undefined) return wanted
  const found = await tryPort(0)
  if (found === undefined) throw new Error('no free port on 127.0.0.1')
  return found
}

function tryPort(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(undefined))
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      const address = server.address()
      const bound = typeof address === 'object' && address !== null ? address.port : undefined
      server.close(() => resolve(bound))
    })
  })
}
