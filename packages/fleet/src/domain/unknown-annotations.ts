import { byText, nearest } from "@fairlead/base/text.ts";

const PREFIX = "fairlead.dev/";
/** The most annotations in one message. */
const LONGEST_LIST = 5;

/** Problems for annotations of Fairlead's prefix that `kind` does not have: a misspelled one would silently do nothing. */
export function unknownAnnotations(
  keys: Iterable<string>,
  known: readonly string[],
  kind: string,
): readonly { readonly reason: "UnknownAnnotation"; readonly message: string }[] {
  const unknown = [...new Set(keys)]
    .filter((it) => it.startsWith(PREFIX) && !known.includes(it))
    .toSorted(byText);
  if (unknown.length === 0) return [];
  const reported = unknown.slice(0, LONGEST_LIST).map((it) => {
    const like = nearest(it, known);
    return `${it} has no effect on a ${kind}${like === undefined ? "" : `, did you mean ${like}?`}`;
  });
  const more = unknown.length > reported.length ? [`and ${unknown.length - reported.length} more`] : [];
  return [{ reason: "UnknownAnnotation", message: [...reported, ...more].join("; ") }];
}
