import { BlockList, isIP } from 'node:net'

/**
 * IPv4 that is not the public Internet: private, loopback, link-local (clouds keep credentials there), shared …; and
 * the one where Azure does, which looks public.
 */
const notPublic4: readonly (readonly [network: string, prefix: number])[] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['168.63.129.16', 32],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
]
const special4 = new BlockList()
for (const [network, prefix] of notPublic4) special4.addSubnet(network, prefix, 'ipv4')

/** Of IPv6 only what is handed out as global unicast, without documentation, tunnels and protocol assignments. */
const global6 = new BlockList()
global6.addSubnet('2000::', 3, 'ipv6')
const special6 = new BlockList()
for (const [network, prefix] of [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const) {
  special6.addSubnet(network, prefix, 'ipv6')
}

/** True for an address of the public Internet. IPv6 that stands for IPv4 (mapped, NAT64) is judged as that. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address)
  if (family === 4) return !special4.check(address, 'ipv4')
  if (family !== 6 || address.includes('%')) return false // a zone means link-local
  const inside = embedded4(address)
  if (inside !== undefined) return isPublicAddress(inside)
  return global6.check(address, 'ipv6') && !special6.check(address, 'ipv6')
}

/** The IPv4 address within `::ffff:a.b.c.d` or `64:ff9b::a.b.c.d`. */
function embedded4(address: string): string | undefined {
  // The URL parser writes every spelling of an address in one way.
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1)
  const match = /^(?:::ffff|64:ff9b:):([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical)
  if (match === null) return undefined
  const [high, low] = [match[1], match[2]].map((part) => Number.parseInt(part as string, 16)) as [
    number,
    number,
  ]
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}
