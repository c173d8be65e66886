import type { TestCase, TestModule } from 'vitest/node'
import type { Reporter } from 'vitest/reporters'

/** How many of the slowest tests are told. */
const SLOWEST = 8
/** Tests faster than this are never called slow, in ms. */
const SLOW = 300

/** Tells, after vitest's own report, which tests took longest, which were skipped and why, which needed a second try. */
export class Summary implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()])
    const slow = tests
      .map((test) => ({ test, duration: test.diagnostic()?.duration ?? 0 }))
      .filter(({ duration }) => duration > SLOW)
      .sort((a, b) => b.duration - a.duration)
      .slice(0, SLOWEST)
    if (slow.length > 0) {
      print('Slowest tests')
      for (const { test, duration } of slow) {
        print(`  ${(duration / 1000).toFixed(1).padStart(5)} s  ${nameOf(test)}`)
      }
    }
    const count = (state: string) => tests.filter((test) => test.result().state === state).length
    const skipped = tests.filter((test) => test.result().state === 'skipped')
    if (skipped.length > 0) {
      print(`Skipped: ${skipped.length}`)
      for (const [reason, count] of counted(skipped.map(reasonOf))) {
        print(`  ${String(count).padStart(5)}    ${reason}`)
      }
    }
    const again = tests.filter(
      (test) => test.result().state === 'passed' && (test.diagnostic()?.retryCount ?? 0) > 0,
    )
    if (again.length > 0) {
      print(`Passed only when tried again: ${again.length}`)
      for (const test of again) print(`  ${nameOf(test)}`)
    }
    // A test that never ran, because its file or a hook before it failed, has not passed.
    const failed = count('failed') + count('pending') + modules.filter(neverRan).length
    print(`${count('passed')} passed, ${failed} failed, ${skipped.length} skipped`)
  }
}

/** A file that could not even be read has no tests to count. */
function neverRan(module: TestModule): boolean {
  return module.state() === 'failed' && [...module.children.allTests()].length === 0
}

function nameOf(test: TestCase): string {
  return `${test.module.relativeModuleId}: ${test.fullName}`
}

function reasonOf(test: TestCase): string {
  const result = test.result()
  const note = result.state === 'skipped' ? result.note : undefined
  return note ?? 'no reason given'
}

function counted(values: string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1)
  return counts
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
