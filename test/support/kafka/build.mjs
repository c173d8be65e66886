// Builds the mock cluster: librdkafka from the sources in the package beside this file, and cluster.c with it. Takes
// about half a minute, once: the program stays until something of it changes.
//
//   npm ci --ignore-scripts && node build.mjs

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'

const here = path.dirname(fileURLToPath(import.meta.url))
const SOURCES = path.join(here, 'node_modules/node-rdkafka/deps/librdkafka')
const BUILDS = path.join(here, 'node_modules/.builds')

/** Nothing that a mock of the protocol needs: no encryption, no other libraries. */
const WITHOUT = ['ssl', 'gssapi', 'curl', 'zlib', 'zstd', 'lz4-ext'].map(
  (each) => `--disable-${each}`,
)

/**
 * The mock does not offer version 3 of ApiVersions, which is the least that our client asks for, though it has nearly
 * all of it: the count of a compact array is one more than its length, and tags follow each entry and the whole.
 */
const MENDED = [
  [/(\[RD_KAFKAP_ApiVersion\] += \{0, )2(, 3,)/, '$13$2'],
  [/(of_ApiKeysCnt, cnt)(\);)/, '$1 + 1$2'],
  [
    /(api_handlers\[i\]\.MaxVersion\);)(\s+cnt\+\+;)/,
    '$1 if (flexible) rd_kafka_buf_write_i8(resp, 0);$2',
  ],
  [
    /(\/\* FIXME: uvarint \*\/[\s\S]*?)(rd_kafka_mock_connection_send_response)/,
    '$1 if (flexible) rd_kafka_buf_write_i8(resp, 0); $2',
  ],
].map(([place, mended]) => [
  place,
  mended.replace('flexible', 'rkbuf->rkbuf_flags & RD_KAFKA_OP_F_FLEXVER'),
])

/**
 * The program, built if need be; undefined where the sources or a compiler are missing.
 *
 * @returns {string | undefined}
 */
export function mockCluster() {
  if (!existsSync(SOURCES)) return undefined
  const program = path.join(BUILDS, `cluster-${stamp()}`)
  if (existsSync(program)) return program
  if (!['cc', 'make', 'bash'].every((tool) => spawnSync(tool, ['--version']).status === 0))
    return undefined
  mkdirSync(BUILDS, { recursive: true })
  const directory = mkdtempSync(path.join(BUILDS, 'building-'))
  try {
    cpSync(SOURCES, directory, { recursive: true })
    mend(path.join(directory, 'src/rdkafka_mock_handlers.c'))
    run(directory, 'bash', ['./configure', ...WITHOUT])
    run(directory, 'make', [`-j${os.availableParallelism()}`, '-C', 'src', 'librdkafka.a'])
    run(directory, 'cc', [
      ...['-Wall', '-Wextra', '-O1', '-Isrc', '-o', 'cluster', path.join(here, 'cluster.c')],
      ...['src/librdkafka.a', '-lpthread', '-lm', '-ldl', '-lrt'],
    ])
    renameSync(path.join(directory, 'cluster'), program)
    return program
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

/** Changes with all that goes into the program. */
function stamp() {
  const hash = createHash('sha256')
  for (const file of ['cluster.c', 'build.mjs', 'package-lock.json'])
    hash.update(readFileSync(path.join(here, file)))
  return hash.digest('hex').slice(0, 12)
}

function mend(file) {
  let text = readFileSync(file, 'utf8')
  for (const [place, mended] of MENDED) {
    if (!place.test(text)) throw new Error(`librdkafka has changed: ${place} is no longer in it`)
    text = text.replace(place, mended)
  }
  writeFileSync(file, text)
}

function run(directory, command, args) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd: directory,
    encoding: 'utf8',
    env: { ...process.env, CFLAGS: '-O1' },
    maxBuffer: 2 ** 28,
  })
  if (status === 0) return
  throw new Error(
    `${command} ${args.join(' ')} failed: ${error?.message ?? (stdout + stderr).slice(-4000)}`,
  )
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.stdout.write(
    `${mockCluster() ?? 'The sources (npm ci --ignore-scripts) or cc, make and bash are missing.'}\n`,
  )
}
