// The steps of a pipeline. All of them can run again after a crash: what they write, they write anew, or
// put in its place by one rename.

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFile, cp, mkdir, readFile, rename, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { promisify } from 'node:util'
import { defineJob, type JobContext, PermanentError } from 'fencepost'
import { z } from 'zod'

const run = promisify(execFile)
const BIOME = createRequire(import.meta.url).resolve('@biomejs/biome/bin/biome')

/** How much is kept of what a command said, in characters. */
const KEPT = 2_000

const Checkout = z.object({ directory: z.string() })

export const checkout = defineJob({
  type: 'pipeline.checkout',
  payload: z.object({ source: z.string(), workspace: z.string(), run: z.int() }),
  run: async ({ source, workspace, run }) => {
    const directory = path.join(workspace, `run-${run}`)
    await rm(directory, { recursive: true, force: true })
    await cp(source, directory, { recursive: true })
    return { directory }
  },
})

export const lint = defineJob({
  type: 'pipeline.lint',
  payload: Checkout,
  run: async ({ directory }, ctx) => ({
    report: await command(ctx, directory, process.execPath, [
      BIOME,
      'lint',
      '--error-on-warnings',
      '.',
    ]),
  }),
})

export const test = defineJob({
  type: 'pipeline.test',
  payload: Checkout,
  run: async ({ directory }, ctx) => ({
    report: await command(ctx, directory, process.execPath, ['--test', '--test-reporter=spec']),
  }),
})

const Artifact = z.object({
  file: z.string(),
  version: z.string(),
  /** `sha512-` and the digest in base64. */
  integrity: z.string(),
})
const Packed = z.tuple([
  z.object({ filename: z.string(), version: z.string(), integrity: z.string() }),
])

export const build = defineJob({
  type: 'pipeline.build',
  payload: Checkout,
  run: async ({ directory }, ctx): Promise<z.infer<typeof Artifact>> => {
    const { stdout } = await output(ctx, directory, 'npm', ['pack', '--json', '--ignore-scripts'])
    const [{ filename, version, integrity }] = Packed.parse(JSON.parse(stdout))
    return { file: path.join(directory, filename), version, integrity }
  },
})

export const deploy = defineJob({
  type: 'pipeline.deploy',
  payload: z.object({ artifact: Artifact, target: z.string(), approvedBy: z.string() }),
  run: async ({ artifact: { file, version, integrity }, target, approvedBy }, ctx) => {
    await mkdir(target, { recursive: true })
    const place = path.join(target, path.basename(file))
    const copy = `${place}.${ctx.jobId}`
    await copyFile(file, copy)
    const digest = createHash('sha512')
      .update(await readFile(copy))
      .digest('base64')
    if (integrity !== `sha512-${digest}`) {
      throw new PermanentError(`${file} is not what was built and approved`)
    }
    await rename(copy, place)
    ctx.log.info({ version, approvedBy }, 'deployed')
    return { version, place, approvedBy }
  },
})

/** What a command printed, its end. One that exits with an error fails the job for good, with what it printed. */
async function command(
  ctx: JobContext,
  cwd: string,
  file: string,
  args: string[],
): Promise<string> {
  const { stdout, stderr } = await output(ctx, cwd, file, args)
  return `${stdout}${stderr}`.trim().slice(-KEPT)
}

async function output(ctx: JobContext, cwd: string, file: string, args: string[]) {
  try {
    return await run(file, args, { cwd, signal: ctx.signal })
  } catch (error) {
    const { code, stdout, stderr } = error as Awaited<ReturnType<typeof run>> & { code: unknown }
    if (typeof code !== 'number') throw error
    const said = `${stdout}${stderr}`.trim().slice(-KEPT)
    throw new PermanentError(`${path.basename(file)} exited with ${code}\n${said}`)
  }
}
