import { existsSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { runStatements } from '../../src/database/console.ts'
import type { OutboxEvent } from '../../src/database/engine.ts'
import { messageOf } from '../../src/relay/kafka/message.ts'
import { cli } from '../cli/cli.ts'
import { ownDatabase } from '../support/server.ts'
import { linksOf, root, snippetsOf } from './snippets.ts'

const GUIDE = 'docs/guides/kafka.md'
const codeOf = (language: string) =>
  snippetsOf(GUIDE).flatMap((each) => (each.language === language ? [each.code] : []))

const database = ownDatabase()

it('the SQL of the guide runs as it stands, on an empty engine', async () => {
  const results = await runStatements(database.url, codeOf('sql').join('\n'))
  expect(results.map(({ rows }) => rows)).toEqual([[[true]], [], [[0]], [[0]]])
})

it('its commands are understood, all but the cluster and the database', async () => {
  const lines = codeOf('sh').join('\n').replaceAll('\\\n', ' ').split('\n')
  const commands = lines.filter((line) => line.startsWith('fencepost '))
  expect(commands.length).toBeGreaterThan(1)
  for (const command of commands) {
    const words = [...command.matchAll(/'([^']*)'|(\S+)/g)].map(
      ([, quoted, plain]) => quoted ?? plain,
    )
    const args = words
      .slice(1)
      .map((word) => String(word).replace('/etc/kafka/ca.pem', `${root}/LICENSE`))
    const { code, err } = await cli(args, {
      env: { DATABASE_URL: 'postgresql://127.0.0.1:1/none', FENCEPOST_KAFKA_PASSWORD: 'secret' },
    })
    expect(err, command).toContain('ECONNREFUSED')
    expect(code).toBe(1)
  }
})

it('its message has the fields of one', () => {
  const shown = JSON.parse(codeOf('json')[0] ?? '')
  const event = { position: '1.0', ...shown, at: new Date(shown.at) } as OutboxEvent
  const { key, value } = messageOf(event, 't')
  expect(Object.keys(JSON.parse(value.toString()))).toEqual(Object.keys(shown))
  expect(key.toString()).toBe('job:7')
})

it('its links lead somewhere', () => {
  for (const file of [GUIDE, 'docs/decisions/kafka-client.md']) {
    for (const link of linksOf(file)) {
      expect(existsSync(path.join(root, path.dirname(file), link)), `${file}: ${link}`).toBe(true)
    }
  }
})
