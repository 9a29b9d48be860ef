import { codePoints } from "../value.ts";
/** Why a text is not an address, in the words of Go's net/netip. */
export function addressProblem(text: string): string {
  const quoted = JSON.stringify(text);
  const [why, at] = reasonOf(text);
  return `ParseAddr(${quoted}): ${why}${at === undefined ? "" : ` (at ${JSON.stringify(at)})`}`;
}

type Reason = readonly [why: string, at?: string];

function reasonOf(text: string): Reason {
  const [first] = /[.:%]/.exec(text) ?? [];
  if (first === ".") return reasonOf4(text) ?? ["unable to parse IP"];
  if (first === ":") return reasonOf6(text);
  return first === "%" ? ["missing IPv6 address"] : ["unable to parse IP"];
}

function reasonOf4(text: string): Reason | undefined {
  let field = "";
  let dots = 0;
  for (const [at, character] of codePoints(text).entries()) {
    if (/\d/.test(character)) {
      if (field === "0") return ["IPv4 field has octet with leading zero"];
      field += character;
      if (Number(field) > 255) return ["IPv4 field has value >255"];
    } else if (character === ".") {
      if (field === "" || at === text.length - 1)
        return ["IPv4 field must have at least one digit", text.slice(at)];
      if (dots === 3) return ["IPv4 address too long"];
      dots++;
      field = "";
    } else return ["unexpected character", text.slice(at)];
  }
  return dots < 3 ? ["IPv4 address too short"] : undefined;
}

function reasonOf6(text: string): Reason {
  const zone = text.indexOf("%");
  if (zone >= 0 && zone === text.length - 1) return ["zone must be a non-empty string"];
  const rest = zone < 0 ? text : text.slice(0, zone);
  return rest.startsWith("::") ? reasonOfGroups(rest.slice(2), true) : reasonOfGroups(rest, false);
}

/** @param hasGap - Whether `::` stood before. */
function reasonOfGroups(text: string, hasGap: boolean): Reason {
  let [rest, gap] = [text, hasGap];
  let groups = 0;
  while (groups < 8 && rest !== "") {
    const [digits = ""] = /^[0-9a-fA-F]*/.exec(rest) ?? [];
    if (rest[digits.length] === ".") return reasonOfMixed(rest, groups, gap);
    const why = reasonOfGroup(rest, digits);
    if (why !== undefined) return why;
    groups++;
    rest = rest.slice(digits.length + 1);
    if (!rest.startsWith(":")) continue;
    if (gap) return ["multiple :: in address", rest];
    gap = true;
    rest = rest.slice(1);
  }
  if (rest !== "") return ["trailing garbage after address", rest];
  return groups < 8 ? ["address string too short"] : ["the :: must expand to at least one field of zeros"];
}

function reasonOfGroup(rest: string, digits: string): Reason | undefined {
  if (digits.length > 4) return ["each group must have 4 or less digits", rest];
  if (digits === "") return ["each colon-separated field must have at least one digit", rest];
  const after = rest.slice(digits.length);
  if (after === "") return undefined;
  if (!after.startsWith(":")) return ["unexpected character, want colon", after];
  return after.length === 1 ? ["colon must be followed by more characters", after] : undefined;
}

function reasonOfMixed(rest: string, groups: number, ellipsis: boolean): Reason {
  if (!ellipsis && groups !== 6)
    return ["embedded IPv4 address must replace the final 2 fields of the address", rest];
  if (groups > 6) return ["too many hex fields to fit an embedded IPv4 at the end of the address", rest];
  return reasonOf4(rest) ?? ["unable to parse IP"];
}
