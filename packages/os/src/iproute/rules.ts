import { type AddressFamily, familyOfText } from "@fairlead/base/netaddr/address.ts";
import { compare } from "./compare.ts";
import { numberOf, objects, textOf } from "./json.ts";
import { type IpLine, line, setting } from "./line.ts";
import { deviceWord, numberWord, prefixWord, tableWord } from "./words.ts";

/** A rule that says in which table a packet's route is looked up. */
export interface Rule {
  /** Lower comes first. Range: 1 to 32765. */
  readonly priority: number;
  readonly family: AddressFamily;
  /** Source and destination: prefixes. Default: any. */
  readonly from?: string;
  readonly to?: string;
  /** Device by which the packet arrived. Default: any. */
  readonly incoming?: string;
  /** Default: any. */
  readonly mark?: { readonly value: number; readonly mask: number };
  readonly table: number;
}

/** A rule as it is. */
export interface ActualRule extends Rule {
  /** It has parts that `Rule` lacks, and so belongs to another program. */
  readonly isForeign?: boolean;
}

export function addRule(rule: Rule): IpLine {
  return line(...ruleWords("add", rule));
}

export function deleteRule(rule: ActualRule): IpLine {
  if (rule.isForeign !== true) return line(...ruleWords("delete", rule));
  return line(familyWord(rule), `rule delete priority ${priorityWord(rule)}`);
}

function ruleWords(verb: "add" | "delete", rule: Rule): readonly string[] {
  return [
    familyWord(rule),
    `rule ${verb} priority ${priorityWord(rule)}`,
    setting("from", rule.from, prefixWord),
    setting("to", rule.to, prefixWord),
    setting("iif", rule.incoming, deviceWord),
    setting("fwmark", rule.mark, ({ value, mask }) => `${markWord(value)}/${markWord(mask)}`),
    `lookup ${tableWord(rule.table)}`,
  ];
}

function familyWord({ family }: Rule): string {
  return family === "IPv6" ? "-6" : "";
}

function priorityWord({ priority }: Rule): string {
  return numberWord(priority, [1, 32_765]);
}

function markWord(value: number): string {
  return `0x${Number(numberWord(value, [0, 0xffff_ffff])).toString(16)}`;
}

/** A missing rule is added before one that has to go is deleted. Pure. */
export function diffRules(actual: readonly ActualRule[], desired: readonly Rule[]): readonly IpLine[] {
  const rules = compare<ActualRule>(actual, desired, (it) => [
    it.isForeign === true ? `foreign ${it.family} ${it.priority}` : addRule(it),
    "",
  ]);
  return [...rules.wrong.map((it) => addRule(it)), ...rules.stale.map((it) => deleteRule(it))];
}

const KNOWN = new Set([
  "priority",
  "src",
  "srclen",
  "dst",
  "dstlen",
  "fwmark",
  "fwmask",
  "iif",
  "table",
  "protocol",
]);

/** @param text - Output of `ip -N -j rule show` for the family. */
export function parseRules(
  text: string,
  family: AddressFamily,
  isOwn: (priority: number) => boolean,
): readonly ActualRule[] {
  return objects(text)
    .filter((it) => isOwn(Number(it["priority"])))
    .map((it) => {
      const [from, to] = [prefixOf(it["src"], it["srclen"]), prefixOf(it["dst"], it["dstlen"])];
      const incoming = textOf(it["iif"]);
      const mark = textOf(it["fwmark"]);
      return {
        priority: Number(it["priority"]),
        family,
        ...(from === undefined ? {} : { from }),
        ...(to === undefined ? {} : { to }),
        ...(incoming === undefined ? {} : { incoming }),
        ...(mark === undefined
          ? {}
          : { mark: { value: Number(mark), mask: Number(it["fwmask"] ?? 0xffff_ffff) } }),
        table: Number(it["table"] ?? 0),
        ...(Object.keys(it).every((key) => KNOWN.has(key)) && it["table"] !== undefined
          ? {}
          : { isForeign: true }),
      };
    });
}

function prefixOf(address: unknown, length: unknown): string | undefined {
  const text = textOf(address);
  if (text === undefined || familyOfText(text) === undefined) return undefined;
  return numberOf(length) === undefined ? text : `${text}/${Number(length)}`;
}
