import { hostname } from 'node:os'
import { connect } from '../../database/database.ts'
import { SHORTEST_POLL } from '../../outbox/pauses.ts'
import { WebhookRelay } from '../../relay/webhook.ts'
import { createLogger } from '../../telemetry/logger.ts'
import { UsageError } from '../arguments.ts'
import type { Command } from '../command.ts'
import { databaseUrl } from '../database.ts'

export const relayWebhook: Command = {
  help: `Delivers events to all webhooks that fencepost webhook create has made, signed as Standard Webhooks say. Each event
is a job of the type fencepost.webhook.NAME: it is tried again with backoff, dead-lettered and replayed like any job,
and carries the same webhook-id each time. 2xx is delivered; 410 pauses the webhook; Retry-After of 429 and 503 is
kept to. Redirects are not followed. Endpoints with private, loopback or link-local addresses, or without TLS, are
refused unless --allow-private is given. As many may run as you like. Logs to standard output.

  fencepost relay webhook`,
  options: {
    'allow-private': { help: 'Deliver to private addresses, and over HTTP without TLS.' },
    concurrency: {
      value: '<n>',
      help: 'How many deliveries run at a time. Default: what all webhooks allow together.',
    },
    poll: { value: '<duration>', help: 'How often to look when there is nothing. Default 1s.' },
    'stop-deadline': {
      value: '<duration>',
      help: 'How long deliveries under way may take. Default 30s.',
    },
  },
  async run(invocation) {
    const { terminal } = invocation
    const url = databaseUrl(invocation)
    const concurrency = invocation.number('concurrency')
    if (concurrency !== undefined && (concurrency < 1 || concurrency > 10_000)) {
      throw new UsageError('--concurrency must be from 1 to 10000', `received ${concurrency}`)
    }
    const poll = invocation.milliseconds('poll', SHORTEST_POLL) ?? 1_000
    const stopDeadline = invocation.milliseconds('stop-deadline') ?? 30_000
    const log = createLogger({ destination: terminal })
    await using db = connect({
      url,
      applicationName: `fencepost relay ${hostname()}`.slice(0, 63),
      onRebuild: (error) => log.warn({ error }, 'a connection to the database failed'),
    })
    const relay = new WebhookRelay({
      db,
      url,
      log,
      concurrency,
      allowPrivate: invocation.has('allow-private'),
      poll,
      stopDeadline,
    })
    log.info({ allow_private: invocation.has('allow-private') }, 'the relay to webhooks begins')
    const running = relay.run()
    const signal = await Promise.race([terminal.untilAsked(), running])
    if (signal !== undefined) log.info({ signal }, 'the relay stops')
    await relay.stop()
    await running
    return undefined
  },
}
