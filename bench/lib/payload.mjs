/** The job that all systems carry: about 100 bytes of JSON, with its number for the tally. */
export const payload = (n) => ({
  n,
  to: `user-${n}@example.org`,
  template: 'welcome',
  locale: 'en',
  note: 'Thank you for signing up.',
})

/** The payloads numbered from `first` on. */
export const payloads = (first, count) =>
  Array.from({ length: count }, (_, index) => payload(first + index))
