import { FleetError } from "@fairlead/base/errors.ts";
import type { DataType } from "./datatype.ts";
import type { NftOp } from "./diff.ts";
import { checkElement, checkKey } from "./element.ts";
import { checkName, type NftRule, ruleComment } from "./rule.ts";
import type { NftHook, NftSetSpec, NftTableName } from "./state.ts";

/** Elements on one line of a script: nft reads a line as a whole. */
const ELEMENTS_PER_LINE = 1000;

/** The script for `nft -f -` that carries out `ops` in one transaction. */
export function renderScript(table: NftTableName, ops: readonly NftOp[]): string {
  const name = renderTable(table);
  return ops
    .flatMap((op) => renderOp(name, op))
    .map((line) => `${line}\n`)
    .join("");
}

/** "inet name". */
export function renderTable(table: NftTableName): string {
  return `${table.family} ${checkName(table.name)}`;
}

function renderOp(table: string, op: NftOp): readonly string[] {
  switch (op.verb) {
    case "add-table":
      return [`create table ${table}`];
    case "delete-table":
      return [`delete table ${table}`];
    case "add-set":
      return [`create ${kindOf(op.spec)} ${table} ${checkName(op.set)} { ${renderSpec(op.spec)} }`];
    case "delete-set":
      // One name space and, in the kernel, one kind: `delete set` takes maps too.
      return [`delete set ${table} ${checkName(op.set)}`];
    case "add-chain":
      return [`create chain ${table} ${checkName(op.chain)}${renderHook(op.hook)}`];
    case "delete-chain":
      return [`delete chain ${table} ${checkName(op.chain)}`];
    case "replace-rules":
      return [
        `flush chain ${table} ${checkName(op.chain)}`,
        ...op.rules.map((it) => `add rule ${table} ${checkName(op.chain)} ${renderRule(it)}`),
      ];
    case "add-elements": {
      const head = `create element ${table} ${checkName(op.set)}`;
      return inLines(head, op.elements, ([key, value]) => {
        checkElement(op.spec, key, value);
        return value === "" ? key : `${key} : ${value}`;
      });
    }
    case "delete-elements": {
      const head = `delete element ${table} ${checkName(op.set)}`;
      return inLines(head, op.keys, (key) => {
        checkKey(op.spec, key);
        return key;
      });
    }
    default:
      return op satisfies never;
  }
}

function inLines<T>(head: string, items: readonly T[], render: (item: T) => string): readonly string[] {
  const lines: string[] = [];
  for (let at = 0; at < items.length; at += ELEMENTS_PER_LINE) {
    const part = items.slice(at, at + ELEMENTS_PER_LINE);
    lines.push(`${head} { ${part.map((it) => render(it)).join(", ")} }`);
  }
  return lines;
}

/** The most elements of a set that packets fill: nft's default. */
const DYNAMIC_SIZE = 65_535;

function kindOf(spec: NftSetSpec): "set" | "map" {
  return spec.value === undefined ? "set" : "map";
}

function renderSpec(spec: NftSetSpec): string {
  const types = [...spec.key, ...(typeof spec.value === "object" ? spec.value : [])];
  // `integer` has no width; an expression of that type has.
  const byExpression = types.includes("integer");
  const list = (of: readonly DataType[]): string =>
    of.map((it) => (byExpression ? EXPRESSIONS[it] : it)).join(" . ");
  const value = spec.value === "verdict" ? "verdict" : list(spec.value ?? []);
  const type = `${byExpression ? "typeof" : "type"} ${list(spec.key)}${value === "" ? "" : ` : ${value}`}`;
  if (spec.dynamic === true) return `${type}; flags dynamic,timeout; size ${DYNAMIC_SIZE};`;
  return spec.interval === true ? `${type}; flags interval;` : `${type};`;
}

/**
 * An expression of each type, for declarations by `typeof`. A port is that of any protocol: `tcp dport` would quietly
 * confine every rule that uses the set to TCP.
 */
const EXPRESSIONS: Readonly<Record<DataType, string>> = {
  ipv4_addr: "ip daddr",
  ipv6_addr: "ip6 daddr",
  inet_proto: "meta l4proto",
  inet_service: "th dport",
  integer: "numgen random mod 65536",
  mark: "meta mark",
};

function renderHook(hook: NftHook | undefined): string {
  if (hook === undefined) return "";
  return ` { type ${hook.type} hook ${hook.hook} priority ${hook.priority}; policy accept; }`;
}

function renderRule(rule: NftRule): string {
  if (rule.text !== undefined) return `${rule.text} comment "${ruleComment(rule)}"`;
  throw new FleetError("OPTION_INVALID", "a rule that was read from the kernel cannot be written");
}
