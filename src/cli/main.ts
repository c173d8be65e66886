#!/usr/bin/env node
import { runCli } from './run.ts'
import { processTerminal } from './terminal.ts'

const code = await runCli(process.argv.slice(2), processTerminal())
// What a worker's module has opened must not keep a process that is done: it ends once all is written.
process.stdout.write('', () => process.stderr.write('', () => process.exit(code)))
