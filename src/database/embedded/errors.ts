/** The embedded server cannot be had or started here; the message is one sentence for a person. */
export class EmbeddedServerError extends Error {
  override name = 'EmbeddedServerError'
}
