/**
 * Whether an object, or a list, is from before another of the same kind. Both are versions of one server, which are numbers that grow.
 * Source: KEP-5504, comparable resource versions.
 */
export function isOlderVersion(version: string | undefined, than: string | undefined): boolean {
  if (version === undefined || than === undefined) return false;
  return version.length === than.length ? version < than : version.length < than.length;
}
