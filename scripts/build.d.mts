export function stale(): boolean
export function build(): Promise<void>
