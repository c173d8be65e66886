import { existsSync, openSync, renameSync, statSync } from 'node:fs'
import path from 'node:path'

/** A log is moved aside at a start when it has grown beyond this. In bytes. */
const LIMIT = 10_000_000

/** Opens a log to write on at its end. The caller closes it. */
export function openLog(
  directory: string,
  name: string,
): { readonly fd: number; readonly file: string } {
  const file = path.join(directory, name)
  if (existsSync(file) && statSync(file).size > LIMIT) renameSync(file, `${file}.1`)
  return { fd: openSync(file, 'a'), file }
}
