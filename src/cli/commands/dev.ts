import { closeSync, mkdirSync, writeSync } from 'node:fs'
import path from 'node:path'
import { type ApiServer, DEFAULT_PORT, serveApi } from '../../api/server.ts'
import { connect, type Database } from '../../database/database.ts'
import { startEmbedded } from '../../database/embedded.ts'
import { migrate } from '../../database/migrate.ts'
import { createLogger } from '../../telemetry/logger.ts'
import { UsageError } from '../arguments.ts'
import type { Command, Invocation } from '../command.ts'
import { Cleanup } from '../dev/cleanup.ts'
import { openLog } from '../dev/log-file.ts'
import { Screen } from '../dev/screen.ts'
import { ServerKeeper } from '../dev/server-keeper.ts'
import { startExample } from '../dev/start-example.ts'
import { dataDirectory, removeDevState, runningDev, writeDevState } from '../dev/state.ts'
import { portOf } from '../port.ts'

/** How many ports after the wanted one are tried. */
const MORE_PORTS = 50

export const dev: Command = {
  help: `Starts PostgreSQL here (or uses DATABASE_URL), migrates it, serves the API and runs a worker, in a process of its
own, on an example: it loads a public data set of 53,940 diamonds. Kill the worker and watch its jobs recover. A workflow
runs beside it and waits for your approval. Ctrl-C stops everything; the next start goes on where this one was.
FENCEPOST_DATA_DIR keeps the data, default .fencepost.`,
  options: {
    port: {
      value: '<n>',
      help: `The API's port, or the next free one. Default PORT, else ${DEFAULT_PORT}.`,
    },
    'no-example': { help: 'Only PostgreSQL, schema and API.' },
  },
  async run(invocation) {
    const { env } = invocation.terminal
    const running = runningDev(env)
    if (running !== undefined) {
      throw new UsageError(
        `fencepost dev runs already in ${dataDirectory(env)} (process ${running.pid})`,
        `Its API answers at ${running.apiUrl}. Another directory: FENCEPOST_DATA_DIR.`,
      )
    }
    const asked = invocation.terminal.untilAsked()
    const screen = new Screen(invocation.terminal)
    await using cleanup = new Cleanup()
    await start(invocation, screen, cleanup)
    const signal = await asked
    screen.end()
    screen.say(`${signal}: what runs is finished, then everything stops.`)
    return undefined
  },
}

async function start(invocation: Invocation, screen: Screen, cleanup: Cleanup): Promise<void> {
  const { env, style } = invocation.terminal
  const directory = dataDirectory(env)
  mkdirSync(directory, { recursive: true })
  const given = invocation.text('url') ?? env.DATABASE_URL
  const url = given || (await embedded(directory, screen, cleanup))
  const { applied } = await migrate(url)
  for (const name of applied) screen.say(`Migrated: ${name}`)

  const db = cleanup.use(connect({ url, applicationName: 'fencepost dev' }))
  const server = await serve(invocation, db, directory, cleanup)
  writeDevState(env, {
    pid: process.pid,
    apiUrl: server.url,
    ...(given ? {} : { databaseUrl: url }),
  })
  cleanup.add(() => removeDevState(env))

  screen.say(`
${style.bold('Fencepost runs.')} Ctrl-C stops it, and the next start goes on where it was.
  API    ${server.url}/docs  (for this machine only: there are no keys yet)
         ${server.url}/jobs  ${server.url}/runs  ${server.url}/approvals  ${server.url}/stats
  SQL    npx fencepost sql "select * from fencepost.stats()"
  Logs   ${path.join(directory, '*.log')}
`)
  if (!invocation.has('no-example')) {
    cleanup.use(await startExample({ db, url, directory, env, screen }))
  }
}

/** A server of our own, which is started again when it dies, and stops with us. */
async function embedded(directory: string, screen: Screen, cleanup: Cleanup): Promise<string> {
  const server = await startEmbedded({ dataDir: directory, log: (line) => screen.say(line) })
  cleanup.use(new ServerKeeper(server, (line) => screen.say(line)))
  return server.url
}

async function serve(
  invocation: Invocation,
  db: Database,
  directory: string,
  cleanup: Cleanup,
): Promise<ApiServer> {
  const { fd } = openLog(directory, 'api.log')
  cleanup.add(() => closeSync(fd))
  const server = await serveApi({
    db,
    log: createLogger({ destination: { write: (text) => writeSync(fd, text) } }),
    port: portOf(invocation),
    portsToTry: MORE_PORTS,
  })
  return cleanup.use(server)
}
