import { FleetError } from "@fairlead/base/errors.ts";
import { canonicalInterval, canonicalPart, type DataType } from "./datatype.ts";
import { checkName } from "./rule.ts";
import type { NftSetSpec } from "./state.ts";

/**
 * Elements as canonical texts: parts joined by " . " as nft writes concatenations, so that an element is a key of a
 * Map and equal elements are equal texts.
 */
const JOINT = " . ";

/** The key made of `parts`. @throws {FleetError} if one is not a value of its type. */
export function elementKey(spec: NftSetSpec, parts: readonly (string | number)[]): string {
  return joinParts(spec.key, parts, spec.interval === true ? canonicalInterval : canonicalPart);
}

/** The value made of `parts`, for a map of data. */
export function elementData(spec: NftSetSpec, parts: readonly (string | number)[]): string {
  if (spec.value === undefined || spec.value === "verdict")
    throw new FleetError("OPTION_INVALID", "only a map of data has values made of parts");
  return joinParts(spec.value, parts, canonicalPart);
}

/** The verdict that sends a packet on to `chain` and not back. */
export function gotoVerdict(chain: string): string {
  return `goto ${checkName(chain)}`;
}

/** The verdict that sends a packet through `chain` and, where that returns, on. */
export function jumpVerdict(chain: string): string {
  return `jump ${checkName(chain)}`;
}

/** Parts of a canonical text. */
export function splitParts(text: string): readonly string[] {
  return text.split(JOINT);
}

/** Verdict of a canonical text. */
export function splitVerdict(text: string): { readonly verb: string; readonly chain: string | undefined } {
  const [verb = "", chain] = text.split(" ");
  return { verb, chain };
}

const VERDICTS: ReadonlySet<string> = new Set(["accept", "drop", "return", "continue"]);

/** Refuses a key that is not in canonical text: the last check before it becomes text or a message. */
export function checkKey(spec: NftSetSpec, key: string): void {
  if (elementKey(spec, splitParts(key)) !== key) throw notCanonical(key);
}

/** As `checkKey`, for a key and its value. */
export function checkElement(spec: NftSetSpec, key: string, value: string): void {
  checkKey(spec, key);
  if (spec.value === undefined) {
    if (value !== "") throw notCanonical(value);
  } else if (spec.value === "verdict") checkVerdict(value);
  else if (elementData(spec, splitParts(value)) !== value) throw notCanonical(value);
}

function checkVerdict(text: string): void {
  if (VERDICTS.has(text)) return;
  const { verb, chain = "" } = splitVerdict(text);
  if ((verb !== "goto" && verb !== "jump") || `${verb} ${checkName(chain)}` !== text)
    throw notCanonical(text);
}

function joinParts(
  types: readonly DataType[],
  parts: readonly (string | number)[],
  canonical: typeof canonicalPart,
): string {
  if (types.length !== parts.length)
    throw new FleetError(
      "OPTION_INVALID",
      `${types.join(JOINT)} takes ${types.length} parts, got ${parts.length}`,
    );
  let text = "";
  for (const [at, type] of types.entries())
    text += (at === 0 ? "" : JOINT) + canonical(type, parts[at] ?? "");
  return text;
}

function notCanonical(text: string): FleetError {
  return new FleetError(
    "OPTION_INVALID",
    `not an element in canonical text: ${JSON.stringify(text.slice(0, 200))}`,
  );
}
