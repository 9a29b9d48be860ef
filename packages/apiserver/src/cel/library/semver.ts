import type { Declaration } from "../function.ts";
import { type CelType, structOf } from "../type.ts";
import { CelError, type CelValue, Opaque } from "../value.ts";

/** Versions by semver.org 2.0. Source: k8s.io/apiserver, pkg/cel/library/semverlib.go. */

const SEMVER = structOf("kubernetes.Semver");

interface Version {
  readonly major: bigint;
  readonly minor: bigint;
  readonly patch: bigint;
  readonly pre: readonly string[];
}

class Semver extends Opaque implements Version {
  readonly celType: CelType = SEMVER;
  readonly major: bigint;
  readonly minor: bigint;
  readonly patch: bigint;
  readonly pre: readonly string[];
  constructor({ major, minor, patch, pre }: Version) {
    super();
    this.major = major;
    this.minor = minor;
    this.patch = patch;
    this.pre = pre;
  }
  isSame(other: CelValue): boolean {
    return other instanceof Semver && order(this, other) === 0;
  }
}

function parse(text: string): Semver {
  if (text === "") throw new CelError("Version string empty");
  const [majorText = "", minorText, ...rest] = text.split(".");
  if (minorText === undefined || rest.length === 0) throw new CelError("No Major.Minor.Patch elements found");
  const major = parseNumber("Major", majorText);
  const minor = parseNumber("Minor", minorText);
  const [patchAndPre, build] = cut(rest.join("."), "+");
  const [patchText, preText] = cut(patchAndPre, "-");
  const patch = parseNumber("Patch", patchText);
  const pre = preText?.split(".") ?? [];
  for (const part of pre) checkPrerelease(part);
  for (const part of build?.split(".") ?? []) checkBuild(part);
  return new Semver({ major, minor, patch, pre });
}

function cut(text: string, separator: string): readonly [string, string | undefined] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

function parseNumber(what: string, text: string): bigint {
  const quoted = JSON.stringify(text);
  if (/[^0-9]/.test(text)) {
    throw new CelError(`Invalid character(s) found in ${what.toLowerCase()} number ${quoted}`);
  }
  if (text.length > 1 && text.startsWith("0")) {
    throw new CelError(`${what} number must not contain leading zeroes ${quoted}`);
  }
  if (text === "") throw new CelError(`strconv.ParseUint: parsing "": invalid syntax`);
  const value = BigInt(text);
  if (BigInt.asUintN(64, value) !== value) {
    throw new CelError(`strconv.ParseUint: parsing ${quoted}: value out of range`);
  }
  return value;
}

function checkPrerelease(part: string): void {
  const quoted = JSON.stringify(part);
  if (part === "") throw new CelError("Prerelease is empty");
  if (/^\d+$/.test(part)) {
    if (part.length > 1 && part.startsWith("0")) {
      throw new CelError(`Numeric PreRelease version must not contain leading zeroes ${quoted}`);
    }
  } else if (!/^[0-9A-Za-z-]+$/.test(part)) {
    throw new CelError(`Invalid character(s) found in prerelease ${quoted}`);
  }
}

function checkBuild(part: string): void {
  if (part === "") throw new CelError("Build meta data is empty");
  if (!/^[0-9A-Za-z-]+$/.test(part)) {
    throw new CelError(`Invalid character(s) found in build meta data ${JSON.stringify(part)}`);
  }
}

/** `v1` as `1.0.0`, `01.2` as `1.2.0`. */
function normalise(text: string): string {
  const plain = text.startsWith("v") ? text.slice(1) : text;
  const [major = "", minor, ...rest] = plain.split(".");
  const parts = [
    major,
    ...(minor === undefined ? [] : [minor]),
    ...(rest.length === 0 ? [] : [rest.join(".")]),
  ];
  const trimmed = parts.map((it) => {
    if (it.length <= 1) return it;
    const bare = it.replace(/^0+/, "");
    return /^\d/.test(bare) ? bare : `0${bare}`;
  });
  if (trimmed.length < 3 && /[+-]/.test(trimmed.at(-1) ?? "")) {
    throw new CelError("short version cannot contain PreRelease/Build meta data");
  }
  return [...trimmed, "0", "0"].slice(0, 3).join(".");
}

function toSemver(text: string, isNormalised = false): Semver {
  return parse(isNormalised ? normalise(text) : text);
}

function isSemver(text: string, isNormalised = false): boolean {
  try {
    toSemver(text, isNormalised);
    return true;
  } catch (error) {
    if (error instanceof CelError) return false;
    throw error;
  }
}

function order(a: Version, b: Version): number {
  for (const part of ["major", "minor", "patch"] as const)
    if (a[part] !== b[part]) return a[part] < b[part] ? -1 : 1;
  if (a.pre.length === 0 || b.pre.length === 0) return Math.sign(b.pre.length - a.pre.length);
  for (const [at, part] of a.pre.entries()) {
    const other = b.pre[at];
    if (other === undefined) return 1;
    const difference = orderPrerelease(part, other);
    if (difference !== 0) return difference;
  }
  return a.pre.length === b.pre.length ? 0 : -1;
}

/** Numeric identifiers precede alphanumeric ones. */
function orderPrerelease(a: string, b: string): number {
  const [isNumber, isOtherNumber] = [/^\d+$/.test(a), /^\d+$/.test(b)];
  if (isNumber !== isOtherNumber) return isNumber ? -1 : 1;
  if (a === b) return 0;
  return (isNumber ? BigInt(a) < BigInt(b) : a < b) ? -1 : 1;
}

const T = "kubernetes.Semver";

export const SEMVERS: readonly Declaration[] = [
  [
    "semver",
    [`string_to_semver(string) -> ${T}`, toSemver],
    [`string_bool_to_semver(string, bool) -> ${T}`, toSemver],
  ],
  [
    "isSemver",
    ["is_semver_string(string) -> bool", isSemver],
    ["is_semver_string_bool(string, bool) -> bool", isSemver],
  ],
  [
    "isGreaterThan",
    [`.semver_is_greater_than(${T}, ${T}) -> bool`, (a: Semver, b: Semver) => order(a, b) > 0],
  ],
  ["isLessThan", [`.semver_is_less_than(${T}, ${T}) -> bool`, (a: Semver, b: Semver) => order(a, b) < 0]],
  ["compareTo", [`.semver_compare_to(${T}, ${T}) -> int`, (a: Semver, b: Semver) => BigInt(order(a, b))]],
  ["major", [`.semver_major(${T}) -> int`, ({ major }: Semver) => major]],
  ["minor", [`.semver_minor(${T}) -> int`, ({ minor }: Semver) => minor]],
  ["patch", [`.semver_patch(${T}) -> int`, ({ patch }: Semver) => patch]],
];
