/**
 * The fields that are not undefined, for objects in which an optional field is either absent or set
 * (`exactOptionalPropertyTypes`).
 *
 * @example defined({ a: 1, b: undefined }) // { a: 1 }
 */
export function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const result: { [K in keyof T]?: Exclude<T[K], undefined> } = {};
  for (const key in fields) {
    const value = fields[key];
    if (value !== undefined) result[key] = value as Exclude<T[typeof key], undefined>;
  }
  return result;
}
