import type { CommandEntry } from './commands.ts'

const type = () => import('./commands/type.ts')
const worker = () => import('./commands/worker.ts')

/** The commands of types and workers, in the order of the help. */
export const fleetCommands: readonly CommandEntry[] = [
  {
    name: 'type list',
    summary: 'List types and their settings',
    load: async () => (await type()).typeList,
  },
  { name: 'type get', summary: 'Show a type', load: async () => (await type()).typeGet },
  {
    name: 'type configure',
    summary: 'Change settings of a type',
    load: async () => (await type()).typeConfigure,
  },
  {
    name: 'type pause',
    summary: 'Stop claims of a type',
    load: async () => (await type()).typePause,
  },
  {
    name: 'type resume',
    summary: 'Let claims of a type go on',
    load: async () => (await type()).typeResume,
  },
  {
    name: 'worker list',
    summary: 'List worker processes',
    load: async () => (await worker()).workerList,
  },
  {
    name: 'worker get',
    summary: 'Show a worker and what it holds',
    load: async () => (await worker()).workerGet,
  },
  {
    name: 'worker drain',
    summary: 'Ask a worker to finish and to take nothing new',
    load: async () => (await worker()).workerDrain,
  },
]
