/**
 * Every SQL call of the package, and nothing else: typed functions over a {@link Queryable} that
 * mirror the functions and views of the schema `fencepost`, in their own names. Rows are as SQL
 * returns them. Each call may also reject as `Queryable.query` does.
 */
export * from './engine/consumers.ts'
export * from './engine/exchange.ts'
export * from './engine/inspect.ts'
export * from './engine/matching.ts'
export * from './engine/operate.ts'
export * from './engine/operators.ts'
export * from './engine/outbox.ts'
export * from './engine/producers.ts'
export * from './engine/runs.ts'
export { type FunctionName, signatures } from './engine/signatures.ts'
export * from './engine/sleep.ts'
export * from './engine/stats.ts'
export * from './engine/tasks.ts'
export * from './engine/types.ts'
export * from './engine/views.ts'
export * from './engine/webhooks.ts'
export * from './engine/work.ts'
export * from './engine/workflows.ts'
