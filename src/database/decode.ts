import { END_OF_TIME } from './encode.ts'

/** Makes a value of what the server sends as text. */
export type Decoder = (text: string) => unknown

/** A type of the server: its oid, the oid of its arrays, its decoder. Types not listed stay strings. */
const types: readonly [oid: number, arrayOid: number, decoder: Decoder][] = [
  [16, 1000, (text) => text === 't'], // bool
  [17, 1001, (text) => Buffer.from(text.slice(2), 'hex')], // bytea
  [18, 1002, String], // "char"
  [19, 1003, String], // name
  [20, 1016, decodeInteger], // int8
  [21, 1005, Number], // int2
  [23, 1007, Number], // int4
  [25, 1009, String], // text
  [26, 1028, Number], // oid
  [114, 199, (text) => JSON.parse(text)], // json
  [700, 1021, Number], // float4
  [701, 1022, Number], // float8
  [1042, 1014, String], // char
  [1043, 1015, String], // varchar
  [1082, 1182, String], // date
  [1114, 1115, String], // timestamp
  [1184, 1185, decodeInstant], // timestamptz
  [1186, 1187, String], // interval
  [1700, 1231, String], // numeric
  [2205, 2210, String], // regclass
  [2950, 2951, String], // uuid
  [3802, 3807, (text) => JSON.parse(text)], // jsonb
  [5069, 271, decodeInteger], // xid8
]

/** Decoders by the oid of the type. */
export const decoders: ReadonlyMap<number, Decoder> = new Map(
  types.flatMap(([oid, arrayOid, decoder]): [number, Decoder][] => [
    [oid, decoder],
    [arrayOid, (text) => decodeArray(text, decoder)],
  ]),
)

/** A value of a type as this driver gives it. */
export function decode(text: string, oid: number): unknown {
  return decoders.get(oid)?.(text) ?? text
}

/** A number; a bigint where a number would not be exact. */
function decodeInteger(text: string): number | bigint {
  const value = Number(text)
  return Number.isSafeInteger(value) ? value : BigInt(text)
}

const INSTANT =
  /^(\d{4,})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(\.\d+)?([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?( BC)?$/

/** A Date, to the millisecond. The infinities become the last and the first Date there is. */
function decodeInstant(text: string): Date {
  // what a session in UTC sends for all but distant years, many times a job
  if (text.endsWith('+00') && text[4] === '-') {
    return new Date(`${text.slice(0, 10)}T${text.slice(11, -3)}Z`)
  }
  if (text === 'infinity') return new Date(END_OF_TIME)
  if (text === '-infinity') return new Date(-END_OF_TIME)
  const match = INSTANT.exec(text)
  if (match === null) return new Date(text)
  const [, year, month, day, hour, minute, second, fraction, sign, ...offset] = match
  const [hours = '0', minutes = '0', seconds = '0', era] = offset
  const date = new Date(0)
  date.setUTCFullYear(era ? 1 - Number(year) : Number(year), Number(month) - 1, Number(day))
  date.setUTCHours(
    Number(hour),
    Number(minute),
    Number(second),
    Number(fraction?.slice(1, 4).padEnd(3, '0') ?? 0),
  )
  const shift = (Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)) * 1000
  return new Date(date.getTime() + (sign === '-' ? shift : -shift))
}

/** The values of an array literal such as `{1,NULL,"a b",{2}}`, whose bounds are passed over. */
export function decodeArray(text: string, decoder: Decoder): unknown[] {
  let at = text.indexOf('{') + 1
  return list()

  function list(): unknown[] {
    const values: unknown[] = []
    for (;;) {
      const char = text[at]
      if (char === undefined || char === '}') {
        at++
        return values
      }
      if (char === ',') at++
      else if (char === '{') {
        at++
        values.push(list())
      } else values.push(char === '"' ? decoder(quoted()) : plain())
    }
  }

  function quoted(): string {
    let value = ''
    for (at++; at < text.length && text[at] !== '"'; at++) {
      if (text[at] === '\\') at++
      value += text[at]
    }
    at++
    return value
  }

  function plain(): unknown {
    const start = at
    while (at < text.length && text[at] !== ',' && text[at] !== '}') at++
    const value = text.slice(start, at)
    return value === 'NULL' ? null : decoder(value)
  }
}
