import { lookup as resolve } from 'node:dns'
import { type ClientRequest, type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { isPublicAddress } from './address.ts'

/** A request as it is sent. */
export interface Post {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** Private addresses, and HTTP without TLS. */
  readonly allowPrivate: boolean
  readonly signal: AbortSignal
}

/** What the endpoint answered. */
export interface Answer {
  readonly status: number
  readonly retryAfter: string | undefined
  /** The beginning of the body, for people: of a refusal, when it came soon. */
  readonly excerpt: string
}

/** The endpoint is none that we would talk to. */
export class ForbiddenEndpointError extends Error {
  override readonly name = 'ForbiddenEndpointError'
}

/** The most of an answer that is read, in bytes. */
const MOST = 2048
/** Nobody here reads what is compressed. */
const PLAIN = { 'accept-encoding': 'identity' }
/** How long the body of an answer is waited for, in ms: nothing hangs on it, be it an explanation. */
const SOON = 1_000
/** How long an endpoint that accepted a request may take to read the rest of it, in ms. */
const REST = 10_000

/**
 * Sends one POST. Its status is the answer, whatever becomes of the body after it: of a refusal the beginning is read
 * for as long as a second, of anything else nothing. An endpoint that accepts before it has read all is still sent
 * the rest. Follows no redirects, uses no proxy, and connects to no address but those that were judged: what a name
 * leads to is looked up and judged for this connection.
 *
 * @throws ForbiddenEndpointError, and whatever connections fail with
 */
export async function post({ url, headers, body, allowPrivate, signal }: Post): Promise<Answer> {
  const target = new URL(url)
  if (!allowPrivate) refusePrivate(target)
  const request = target.protocol === 'https:' ? requestHttps : requestHttp
  return new Promise((resolve, reject) => {
    const failed = (error: Error) => reject(signal.aborted ? signal.reason : error)
    const sent = request(target, {
      method: 'POST',
      headers: { ...headers, ...PLAIN, 'content-length': String(Buffer.byteLength(body)) },
      agent: false,
      signal,
      ...(allowPrivate ? {} : { lookup: lookupPublic }),
    })
    const answered = (response: IncomingMessage, excerpt: string) => {
      const { statusCode: status = 0, headers } = response
      resolve({ status, retryAfter: headers['retry-after'], excerpt })
    }
    sent.on('error', failed)
    sent.on('response', (response) => {
      // the answer is there: nothing that happens to the connection from here on changes it
      sent.off('error', failed).on('error', () => {})
      if ((response.statusCode ?? 0) < 300) {
        finish(sent, response)
        answered(response, '')
      } else {
        void beginning(response).then((excerpt) => {
          sent.destroy()
          answered(response, excerpt)
        })
      }
    })
    sent.on('upgrade', (response, socket) => {
      socket.destroy()
      answered(response, '')
    })
    sent.end(body)
  })
}

/**
 * Lets what is left of an accepted request arrive: the connection ends by itself once both sides have said all, else
 * when its time is over. It reads on, as a connection that is closed over unread bytes takes back what it sent.
 */
function finish(sent: ClientRequest, response: IncomingMessage): void {
  response.resume()
  const timer = setTimeout(() => sent.destroy(), sent.writableFinished ? SOON : REST)
  sent.once('close', () => clearTimeout(timer))
}

/** Judges what needs no lookup. The URL parser has made one form of all spellings of IPv4, as `0x7f.1`. */
function refusePrivate({ protocol, hostname }: URL): void {
  if (protocol !== 'https:') {
    throw new ForbiddenEndpointError('the endpoint has no TLS, and --allow-private was not given')
  }
  const host = hostname.replace(/^\[|\]$/g, '')
  if (isIP(host) !== 0 && !isPublicAddress(host)) throw forbidden(host)
}

/** Looks a name up as connections do, and leaves out what is not public. */
const lookupPublic: LookupFunction = (hostname, options, callback) => {
  resolve(hostname, { ...options, all: true }, (error, addresses) => {
    if (error !== null) return callback(error, '', 0)
    const found = addresses.filter(({ address }) => isPublicAddress(address))
    const [first] = found
    if (first === undefined) callback(forbidden(hostname), '', 0)
    else if (options.all) callback(null, found)
    else callback(null, first.address, first.family)
  })
}

function forbidden(host: string): ForbiddenEndpointError {
  return new ForbiddenEndpointError(
    `${host} is not a public address, and --allow-private was not given`,
  )
}

/** What comes of the body until it is enough, takes too long or breaks off. */
async function beginning(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  const timer = setTimeout(() => response.destroy(), SOON)
  try {
    for await (const chunk of response) {
      chunks.push(chunk as Buffer)
      length += (chunk as Buffer).length
      if (length >= MOST) break
    }
  } catch {
  } finally {
    clearTimeout(timer)
  }
  return textOf(Buffer.concat(chunks).subarray(0, MOST))
}

/** The text of bytes; none where they are no text, as when they are compressed against our wish. */
function textOf(bytes: Buffer): string {
  const text = new TextDecoder().decode(bytes, { stream: true }) // without the half of a last character
  return /[^\P{Cc}\s]/u.test(text) ? '' : text
}
