import { createHash } from "node:crypto";
import { FleetError } from "@fairlead/base/errors.ts";
import { deviceWord } from "#iproute/words.ts";

/**
 * One rule. The kernel returns a rule in another spelling than it was written in, so rules are compared by the
 * digest of their text, which is stored as their comment. A rule that another program changed without changing the
 * comment is not detected; one that was added without a comment, removed or moved is.
 */
export interface NftRule {
  readonly digest: string;
  /** Absent in a state that was read from the kernel. */
  readonly text?: string;
}

/** Text that has been checked to be one word of the nft grammar. Only this file makes it. */
export interface NftWord {
  readonly word: string & { readonly __brand: "NftWord" };
}

/** NFT_NAME_MAXLEN of linux/netfilter/nf_tables.h is 256 with the closing NUL; 128 keeps names readable. */
const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,127}$/;

/** A rule from program text and checked words: rule`ip daddr . meta l4proto vmap ${setRef("services")}`. */
export function rule(parts: TemplateStringsArray, ...words: readonly (NftWord | number)[]): NftRule {
  const text = textOf(parts, words);
  const digest = createHash("sha256").update(text).digest("hex").slice(0, 16);
  return { digest, text };
}

/** A part of a rule, from program text and checked words: fragment`tcp dport ${80}`. */
export function fragment(parts: TemplateStringsArray, ...words: readonly (NftWord | number)[]): NftWord {
  return { word: textOf(parts, words) as NftWord["word"] };
}

/** An anonymous set of numbers and inclusive ranges, which do not overlap: "{ 80, 8000-8100 }". */
export function numberSet(ranges: readonly (readonly [first: number, last: number])[]): NftWord {
  const items = ranges.map(([first, last]) => {
    const [from, to] = [wordText(first), wordText(last)];
    return from === to ? from : `${from}-${to}`;
  });
  if (items.length === 0) throw new FleetError("OPTION_INVALID", "an anonymous set cannot be empty");
  return { word: (items.length === 1 ? items.join("") : `{ ${items.join(", ")} }`) as NftWord["word"] };
}

/** An anonymous set of names of devices: iifname ${deviceSet(["eth0", "eth1"])}. */
export function deviceSet(devices: readonly string[]): NftWord {
  if (devices.length === 0) throw new FleetError("OPTION_INVALID", "an anonymous set cannot be empty");
  return { word: `{ ${devices.map((it) => quotedName(it).word).join(", ")} }` as NftWord["word"] };
}

/** A reference to a set or map: "@name". */
export function setRef(name: string): NftWord {
  return { word: `@${checkName(name)}` as NftWord["word"] };
}

/** The name of a chain, as the target of a jump. */
export function chainRef(name: string): NftWord {
  return { word: checkName(name) as NftWord["word"] };
}

/** The name of a device in a match: iifname ${quotedName("eth0")}. */
export function quotedName(device: string): NftWord {
  return { word: `"${deviceWord(device)}"` as NftWord["word"] };
}

/**
 * Refuses a name of a table, chain or set that nft would not read as one word.
 *
 * @throws {FleetError} `OPTION_INVALID`
 */
export function checkName(name: string): string {
  if (NAME.test(name)) return name;
  throw new FleetError("OPTION_INVALID", `not a valid nftables name: ${JSON.stringify(name)}`);
}

function textOf(parts: TemplateStringsArray, words: readonly (NftWord | number)[]): string {
  let text = parts[0] ?? "";
  for (const [at, word] of words.entries()) text += wordText(word) + (parts[at + 1] ?? "");
  return text;
}

function wordText(word: NftWord | number): string {
  if (typeof word !== "number") return word.word;
  if (Number.isInteger(word) && word >= 0 && word <= 0xffff_ffff) return String(word);
  throw new FleetError("OPTION_INVALID", `not a valid nftables number: ${word}`);
}

const COMMENT_PREFIX = "fl:";

/** The comment that carries a rule's digest. */
export function ruleComment(of: NftRule): string {
  return `${COMMENT_PREFIX}${of.digest}`;
}

/** The rule that a comment identifies. A rule of another program never equals one of this driver. */
export function ruleOfComment(comment: string | undefined): NftRule {
  if (comment === undefined || !comment.startsWith(COMMENT_PREFIX)) return { digest: "" };
  return { digest: comment.slice(COMMENT_PREFIX.length) };
}
