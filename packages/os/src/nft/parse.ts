import { FleetError } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { DataType } from "./datatype.ts";
import type { NftCounter } from "./driver.ts";
import { elementData, elementKey, gotoVerdict, jumpVerdict } from "./element.ts";
import { type NftRule, ruleOfComment } from "./rule.ts";
import type { NftChain, NftHook, NftSet, NftSetSpec, NftTable } from "./state.ts";

/**
 * The state in what `nft --json --numeric-protocol list table` prints (libnftables-json(5)).
 *
 * What this model has no word for (a set of other types, say) is kept as something that equals nothing we would want,
 * so that a diff replaces it.
 *
 * @throws {FleetError} `NFT_FAILED` when the text is not such an answer.
 */
export function parseTable(text: string): NftTable {
  const chains = new Map<string, { hook?: NftHook; rules: NftRule[] }>();
  const sets = new Map<string, NftSet>();
  for (const item of items(text)) {
    const { chain, rule } = item;
    const set = item["set"] ?? item["map"];
    if (isObject(chain)) chains.set(String(chain["name"]), parseChain(chain));
    else if (isObject(rule)) chains.get(String(rule["chain"]))?.rules.push(parseRule(rule));
    else if (isObject(set)) sets.set(String(set["name"]), parseSet(set));
  }
  return { chains, sets };
}

/** The counters of a set's elements in what `nft --json list set` prints, by key. */
export function parseCounters(text: string, name: string): ReadonlyMap<string, NftCounter> {
  const counters = new Map<string, NftCounter>();
  for (const { set } of items(text)) {
    if (!isObject(set) || set["name"] !== name) continue;
    const spec = parseSet({ ...set, elem: [] });
    for (const element of asArray(set["elem"])) {
      const inner = isObject(element) ? element["elem"] : undefined;
      const counter = isObject(inner) ? inner["counter"] : undefined;
      if (!isObject(counter)) continue;
      const [packets, bytes] = [Number(counter["packets"]), Number(counter["bytes"])];
      counters.set(parseKey(spec, element), { packets, bytes });
    }
  }
  return counters;
}

function items(text: string): readonly Record<string, unknown>[] {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch (cause) {
    throw new FleetError("NFT_FAILED", "the output of nft is not JSON", { cause });
  }
  const list = isObject(answer) ? answer["nftables"] : undefined;
  if (!Array.isArray(list)) throw new FleetError("NFT_FAILED", "the output of nft has no ruleset");
  return list.filter((it) => isObject(it));
}

function parseChain(chain: Record<string, unknown>): NftChain & { rules: NftRule[] } {
  const { type, hook, prio } = chain;
  if (type === undefined) return { rules: [] };
  // Compared with our own values only: an unknown word is simply different.
  return { hook: { type, hook, priority: Number(prio) } as NftHook, rules: [] };
}

function parseRule(rule: Record<string, unknown>): NftRule {
  const { comment } = rule;
  return ruleOfComment(typeof comment === "string" ? comment : undefined);
}

function parseSet(set: Record<string, unknown>): NftSet {
  const value = set["map"];
  const flags = asArray(set["flags"]);
  const spec: NftSetSpec = {
    key: typeList(set["type"]),
    ...(value === undefined ? {} : { value: value === "verdict" ? "verdict" : typeList(value) }),
    ...(flags.includes("interval") ? { interval: true } : {}),
    // nft 1.0.6 does not print the flag "dynamic"; here only sets that packets fill have timeouts.
    ...(flags.includes("timeout") ? { dynamic: true } : {}),
  };
  const elements = new Map<string, string>();
  for (const element of asArray(set["elem"])) {
    const [key, data] = value === undefined ? [element, undefined] : asArray(element);
    elements.set(parseKey(spec, key), parseValue(spec, data));
  }
  return { ...spec, elements };
}

/** `"a"`, `["a", "b"]`, or, for the data of a map in nft before 1.1, `"a . b"`. */
function typeList(value: unknown): readonly DataType[] {
  const names = typeof value === "string" ? value.split(" . ") : asArray(value).map(String);
  return names as readonly DataType[];
}

function parseKey(spec: NftSetSpec, wrapped: unknown): string {
  // An element with attributes (a comment, a counter) is one level deeper.
  const inner = isObject(wrapped) ? wrapped["elem"] : undefined;
  const key = isObject(inner) ? inner["val"] : wrapped;
  return orForeign(() => elementKey(spec, partsOf(key)), key);
}

function parseValue(spec: NftSetSpec, data: unknown): string {
  if (spec.value === undefined) return "";
  if (spec.value !== "verdict") return orForeign(() => elementData(spec, partsOf(data)), data);
  const [verb, target] = isObject(data) ? (Object.entries(data)[0] ?? []) : [];
  if (verb !== "goto" && verb !== "jump") return JSON.stringify(data);
  const chain = String(isObject(target) ? target["target"] : undefined);
  return orForeign(() => (verb === "goto" ? gotoVerdict(chain) : jumpVerdict(chain)), data);
}

function partsOf(value: unknown): readonly (string | number)[] {
  const concat = isObject(value) ? value["concat"] : undefined;
  return asArray(concat ?? value).map((it) => partOf(it));
}

function partOf(value: unknown): string | number {
  const prefix = isObject(value) ? value["prefix"] : undefined;
  const range = isObject(value) ? value["range"] : undefined;
  if (Array.isArray(range)) return range.map(String).join("-");
  if (isObject(prefix)) return `${String(prefix["addr"])}/${String(prefix["len"])}`;
  return typeof value === "number" ? value : String(value);
}

/** Elements of other programs are kept under their JSON text, which never equals a key or value of this driver. */
function orForeign(read: () => string, raw: unknown): string {
  try {
    return read();
  } catch {
    return JSON.stringify(raw);
  }
}

function asArray(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  return value === undefined ? [] : [value];
}
