import { migrate } from '../../dist/database/migrate.js'

/** Fencepost's SQL functions, called by hand; only what measures them knows it. */
export const engine = {
  name: 'engine',
  title: 'Fencepost, SQL alone',
  store: 'postgres',
  package: 'fencepost',
  scenarios: ['engine', 'consumers'],
  settings: {},
  async load() {},
  async install({ url }) {
    await migrate(url)
  },
}
