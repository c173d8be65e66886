import { serveApi } from '../../api/server.ts'
import { connect } from '../../database/database.ts'
import { createLogger } from '../../telemetry/logger.ts'
import { Housekeeping } from '../../worker/housekeeping.ts'
import type { Command } from '../command.ts'
import { databaseUrl } from '../database.ts'
import { portOf } from '../port.ts'

/** How often housekeeping is done, in ms. */
const MAINTAIN_EVERY = 1_000

export const serve: Command = {
  help: `Serves the HTTP API of a database that fencepost migrate has prepared. It listens on this machine only, since it
has no keys yet: reach it from elsewhere through a tunnel that knows who may. Does the database's housekeeping beside, as
every worker does. Logs to standard output.`,
  options: {
    port: { value: '<n>', help: 'Default PORT, else 3773.' },
    host: { value: '<address>', help: 'An address of this machine. Default 127.0.0.1.' },
    'without-keys': { help: 'Allow a host that others reach: they may do everything.' },
    'no-maintain': {
      help: 'Leave housekeeping (maintain() each second) to workers, or to a scheduler.',
    },
    'body-limit': { value: '<bytes>', help: 'The largest body that is read. Default 4194304.' },
  },
  async run(invocation) {
    const { terminal } = invocation
    const log = createLogger({ destination: terminal })
    await using db = connect({
      url: databaseUrl(invocation),
      applicationName: 'fencepost api',
      onRebuild: (err) => log.warn({ err }, 'a connection to the database failed'),
    })
    await using housekeeping = new Housekeeping(db, MAINTAIN_EVERY, (message) =>
      log.error({}, `housekeeping fails: ${message}`),
    )
    if (!invocation.has('no-maintain')) housekeeping.start()
    const host = invocation.text('host')
    const bodyLimit = invocation.number('body-limit')
    await using server = await serveApi({
      db,
      log,
      port: portOf(invocation),
      withoutKeys: invocation.has('without-keys'),
      ...(host === undefined ? {} : { host }),
      ...(bodyLimit === undefined ? {} : { bodyLimit }),
    })
    const who = invocation.has('without-keys') ? 'whoever reaches it' : 'this machine only'
    log.info({ url: server.url, docs: `${server.url}/docs` }, `the API answers ${who}`)
    const signal = await terminal.untilAsked()
    log.info({ signal }, 'the API stops')
    return undefined
  },
}
