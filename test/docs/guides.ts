import { spawnSync } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import ts from 'typescript'
import { expect } from 'vitest'
import { cell } from '../../src/cli/table.ts'
import { root } from './snippets.ts'

/** A value of a row, as guides write it. */
export function shown(value: unknown): string {
  return Array.isArray(value) ? JSON.stringify(value) : cell(value)
}

/** Expects TypeScript without type errors, and runs it against a database. */
export function runTypeScript(code: string, directory: string, url: string) {
  const source = path.join(directory, 'guide.ts')
  writeFileSync(source, code)
  const { config } = ts.readConfigFile(path.join(root, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
  const program = ts.createProgram([source], { ...options, noEmit: true })
  const found = ts.getPreEmitDiagnostics(program).filter(({ file }) => file?.fileName === source)
  const messages = found.map(({ messageText }) =>
    ts.flattenDiagnosticMessageText(messageText, '\n'),
  )
  expect(messages).toEqual([])
  const { outputText } = ts.transpileModule(code, {
    compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 },
  })
  writeFileSync(path.join(directory, 'guide.mjs'), outputText)
  return spawnSync(process.execPath, [path.join(directory, 'guide.mjs')], {
    env: { ...process.env, DATABASE_URL: url },
    encoding: 'utf8',
  })
}

/** Surroundings of a shell in which `npx fencepost` is this build. */
export function shellEnv(directory: string, url: string): NodeJS.ProcessEnv {
  const npx = path.join(directory, 'npx')
  const main = path.join(root, 'dist/cli/main.js')
  writeFileSync(npx, `#!/bin/sh\nshift\nexec "${process.execPath}" "${main}" "$@"\n`)
  chmodSync(npx, 0o755)
  return { ...process.env, DATABASE_URL: url, PATH: `${directory}:${process.env.PATH}` }
}
