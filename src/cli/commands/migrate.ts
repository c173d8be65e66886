import { migrate, pendingScript } from '../../database/migrate.ts'
import { fullScript } from '../../database/migrations.ts'
import type { Command } from '../command.ts'
import { databaseUrl } from '../database.ts'

export const migrateCommand: Command = {
  help: `Brings the schemas fencepost and fencepost_private up to this version. Needs the right to create schemas, no
superuser and no extension. Two at once: one applies, the other waits and finds nothing to do.`,
  options: {
    'dry-run': { help: 'Only tell which migrations are missing.' },
    sql: { help: 'Only write the SQL that would run: for psql -f, or for somebody to read.' },
    all: { help: 'With --sql: the whole schema, for a database that has none. Needs no database.' },
  },
  async run(invocation) {
    const { terminal } = invocation
    if (invocation.has('sql')) {
      const script = invocation.has('all') ? fullScript() : pendingScript(databaseUrl(invocation))
      terminal.write(await script)
      return undefined
    }
    const dryRun = invocation.has('dry-run')
    const result = await migrate(databaseUrl(invocation), { dryRun })
    invocation.answer(result, () => {
      if (dryRun) return lines('would apply', result.pending)
      return lines('applied', result.applied)
    })
    return undefined
  },
}

function lines(verb: string, names: readonly string[]): string {
  if (names.length === 0) return 'The schema is up to date.'
  return names.map((name) => `${verb} ${name}`).join('\n')
}
