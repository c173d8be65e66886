/** The program of the mock cluster, built if need be; undefined where the sources or a compiler are missing. */
export function mockCluster(): string | undefined
