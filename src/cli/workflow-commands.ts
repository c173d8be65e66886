import type { CommandEntry } from './commands.ts'

const workflow = () => import('./commands/workflow.ts')
const run = () => import('./commands/run.ts')
const control = () => import('./commands/run-control.ts')
const approval = () => import('./commands/approval.ts')
const task = () => import('./commands/task.ts')

/** The commands of workflows, in the order of the help. */
export const workflowCommands: readonly CommandEntry[] = [
  {
    name: 'workflow publish',
    summary: 'Publish a definition as the next version of a workflow',
    load: async () => (await workflow()).workflowPublish,
  },
  {
    name: 'workflow list',
    summary: 'List workflows',
    load: async () => (await workflow()).workflowList,
  },
  {
    name: 'workflow get',
    summary: 'Show a workflow and a definition',
    load: async () => (await workflow()).workflowGet,
  },
  {
    name: 'workflow configure',
    summary: 'Say how long finished runs are kept',
    load: async () => (await workflow()).workflowConfigure,
  },
  {
    name: 'workflow diff',
    summary: 'Compare two versions of a workflow',
    load: async () => (await workflow()).workflowDiffCommand,
  },
  {
    name: 'run start',
    summary: 'Start a run of a workflow',
    load: async () => (await run()).runStart,
  },
  { name: 'run get', summary: 'Show a run', load: async () => (await run()).runGet },
  { name: 'run list', summary: 'List runs', load: async () => (await run()).runList },
  {
    name: 'run watch',
    summary: 'Follow a run to its end; its graph live in a terminal',
    load: async () => (await import('./commands/run-watch.ts')).runWatch,
  },
  {
    name: 'run explain',
    summary: 'Say why a task is not running',
    load: async () => (await control()).runExplain,
  },
  { name: 'run pause', summary: 'Hold a run', load: async () => (await control()).runPause },
  {
    name: 'run resume',
    summary: 'Let a held run go on',
    load: async () => (await control()).runResume,
  },
  { name: 'run cancel', summary: 'Cancel a run', load: async () => (await control()).runCancel },
  {
    name: 'run retry',
    summary: 'Try the failed tasks of a run again',
    load: async () => (await control()).runRetry,
  },
  {
    name: 'run restart',
    summary: 'Begin a new run that takes over what an old one has done',
    load: async () => (await control()).runRestart,
  },
  {
    name: 'run signal',
    summary: 'Send a signal to a run',
    load: async () => (await control()).runSignal,
  },
  {
    name: 'run migrate',
    summary: 'Move a run to another version of its workflow',
    load: async () => (await control()).runMigrate,
  },
  {
    name: 'approval list',
    summary: 'List what people are asked to decide',
    load: async () => (await approval()).approvalList,
  },
  {
    name: 'approval approve',
    summary: 'Approve',
    load: async () => (await approval()).approvalApprove,
  },
  {
    name: 'approval reject',
    summary: 'Reject',
    load: async () => (await approval()).approvalReject,
  },
  {
    name: 'task replay',
    summary: 'Try a failed task again',
    load: async () => (await task()).taskReplay,
  },
  {
    name: 'task gate',
    summary: 'Put an approval before a task that has not begun',
    load: async () => (await task()).taskGate,
  },
]
