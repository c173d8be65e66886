/** Not a queue: the rows that any queue has to write at least. */
export const floor = {
  name: 'floor',
  title: 'plain insert and delete',
  scenarios: ['floor'],
  store: 'postgres',
  settings: {},
  async load() {},
}
