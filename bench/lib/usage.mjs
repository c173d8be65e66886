import { cpuMsOfMachine } from './machine.mjs'

/** A reading of what has been spent so far; `costs` is that of the stage. */
export const reading = async (costs) => ({ ...(await costs()), machine: cpuMsOfMachine() })

/**
 * What lies between two readings, `ms` apart: shares of a core, and costs of each of `count` jobs or
 * runs. `cpuMs` is the CPU time of the clients: the worker's, and the starter's where there is one.
 */
export function usage(before, after, { ms, count, worker, starter = 0 }) {
  const serverMs = after.cpuMs === undefined ? undefined : after.cpuMs - before.cpuMs
  const share = (cpuMs) => (cpuMs === undefined ? undefined : cpuMs / ms)
  const each = (cpuMs) => (cpuMs === undefined ? undefined : (cpuMs / count) * 1000)
  return {
    workerCpu: share(worker),
    serverCpu: share(serverMs),
    starterCpu: starter > 0 ? share(starter) : undefined,
    // Of which some is the harness asking whether all is done.
    othersCpu: serverMs && share(after.machine - before.machine - worker - starter - serverMs),
    workerCpuPerJob: each(worker),
    serverCpuPerJob: each(serverMs),
    logBytesPerJob: (after.logBytes - before.logBytes) / count,
    requestsPerJob: (after.requests - before.requests) / count,
  }
}
