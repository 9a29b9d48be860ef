import type { FqdnPattern } from "../model.ts";
import { open, type Part, type Refuse, shown } from "./part.ts";

/** RFC 1035, section 2.3.4, without the final dot. */
const MAX_NAME = 253;

/** `{matchName}` or `{matchPattern}`, as in `toFQDNs` and `rules.dns`. */
export function fqdnOf(part: Part, refuse: Refuse): FqdnPattern | undefined {
  const fields = open(part, ["matchName", "matchPattern"], refuse);
  if (fields === undefined) return undefined;
  const { matchName = "", matchPattern = "" } = fields;
  if ((matchName === "") === (matchPattern === ""))
    return refuse(part.path, "Exactly one of matchName and matchPattern is needed.");
  return matchName === ""
    ? patternOf(`${part.path}.matchPattern`, matchPattern, refuse)
    : nameOf(`${part.path}.matchName`, matchName, refuse);
}

function nameOf(path: string, value: unknown, refuse: Refuse): FqdnPattern | undefined {
  const isName = typeof value === "string" && /^[-\w.]+$/.test(value);
  return (isName ? normal(value) : undefined) ?? refuse(path, `${shown(value)} is not a DNS name.`);
}

export function patternOf(path: string, value: unknown, refuse: Refuse): FqdnPattern | undefined {
  const isPattern = typeof value === "string" && /^[-\w.*]+$/.test(value);
  return (
    (isPattern ? normal(value) : undefined) ??
    refuse(path, `${shown(value)} is not a pattern of DNS names such as *.example.com.`)
  );
}

function normal(text: string): FqdnPattern | undefined {
  const name = text.toLowerCase().replace(/\.$/, "");
  return name === "" || name.length > MAX_NAME || name.includes("..") || name.startsWith(".")
    ? undefined
    : name;
}
