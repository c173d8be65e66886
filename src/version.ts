import { readFileSync } from 'node:fs'

const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')

/** The version of this package; package.json stands at the same place from src/ and from dist/. */
export const version: string = (JSON.parse(manifest) as { version: string }).version
