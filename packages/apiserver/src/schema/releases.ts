import absent135 from "./absent-1.35.generated.json" with { type: "json" };

/** The releases of Kubernetes whose kinds and fields the server has. */

export const MINORS = ["1.36", "1.35"] as const;
export type Minor = (typeof MINORS)[number];

/** Fields that a release does not have, by the name of the definition. */
export type AbsentFields = ReadonlyMap<string, ReadonlySet<string>>;

/** What an older release lacks of the definitions, which are those of the newest one. */
const ABSENT: Readonly<Record<Minor, AbsentFields | undefined>> = {
  "1.36": undefined,
  "1.35": new Map(
    Object.entries(absent135 as Readonly<Record<string, readonly string[]>>).map(([name, fields]) => [
      name,
      new Set(fields),
    ]),
  ),
};

/** @returns Undefined if the release has them all. */
export function absentFields(minor: Minor): AbsentFields | undefined {
  return ABSENT[minor];
}
