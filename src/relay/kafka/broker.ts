/** Where a broker listens. */
export interface Broker {
  readonly host: string
  readonly port: number
}

/** The port of brokers that are given without one. */
const PORT = '9092'

/** Reads `host`, `host:port` or `[IPv6]:port`; undefined when it is none of them. */
export function brokerOf(text: string): Broker | undefined {
  const found = /^(?:\[([0-9a-f.]*:[0-9a-f:.]*)\]|([^\s:[\]/]+))(?::(\d{1,5}))?$/i.exec(text)
  if (found === null) return undefined
  const [, address, name, digits = PORT] = found
  const port = Number(digits)
  return port >= 1 && port <= 65_535 ? { host: (address ?? name) as string, port } : undefined
}

/** A broker as people write it. */
export function brokerText({ host, port }: Broker): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}
