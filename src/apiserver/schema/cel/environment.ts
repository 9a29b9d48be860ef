import { isIPv4, isIPv6 } from "node:net";
import { Environment } from "@marcbachmann/cel-js";
import { RE2JS } from "re2js";
import { isCidr } from "../formats.ts";
import { matches } from "../patterns.ts";

/** What an expression may be at most, before it is looked at. */
const LIMITS = {
  maxAstNodes: 5000,
  maxDepth: 100,
  maxListElements: 1000,
  maxMapEntries: 1000,
  maxCallArguments: 32,
};

/**
 * The language that rules are written in, with the part of Kubernetes' own library that there is: regular expressions
 * (`matches`, `find`, `findAll`), lists (`isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf`), strings (`replace`,
 * `charAt`) and `isIP`, `isCIDR`. A rule that uses another function does not compile.
 * Source: kubernetes.io, "CEL in Kubernetes".
 */
export function makeEnvironment(variables: readonly string[]): Environment {
  const environment = new Environment({
    enableOptionalTypes: true,
    homogeneousAggregateLiterals: false,
    limits: LIMITS,
  });
  for (const name of variables) environment.registerVariable(name, "dyn");
  registerText(environment);
  registerLists(environment);
  environment.registerFunction("isIP(string): bool", (text: string) => isIPv4(text) || isIPv6(text));
  environment.registerFunction("isCIDR(string): bool", isCidr);
  return environment;
}

/** The name under which `matches` is RE2's, linear in time, and not JavaScript's. */
const MATCHES = "matchesRe2";
/** String literals and comments, which are passed over; then calls of `matches` on a string. */
const CALLS =
  /[rR]("""[\s\S]*?"""|'''[\s\S]*?'''|"[^"\n]*"|'[^'\n]*')|"""[\s\S]*?"""|'''[\s\S]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\/\/[^\n]*|\.\s*matches\s*\(/g;

/** The expression with `matches` in the form that this environment knows; the library's own cannot be replaced. */
export function withOwnFunctions(expression: string): string {
  return expression.replaceAll(CALLS, (found) => (found.startsWith(".") ? `.${MATCHES}(` : found));
}

function registerText(environment: Environment): void {
  const find = (text: string, pattern: string): string[] => {
    const matcher = RE2JS.compile(pattern).matcher(text);
    const found: string[] = [];
    while (matcher.find()) found.push(matcher.group() ?? "");
    return found;
  };
  environment.registerFunction(`string.${MATCHES}(string): bool`, (text: string, pattern: string) =>
    matches(pattern, text),
  );
  environment.registerFunction("matches(string, string): bool", (text: string, pattern: string) =>
    matches(pattern, text),
  );
  environment.registerFunction(
    "string.find(string): string",
    (text: string, pattern: string) => find(text, pattern)[0] ?? "",
  );
  environment.registerFunction("string.findAll(string): list<string>", find);
  environment.registerFunction(
    "string.replace(string, string): string",
    (text: string, from: string, to: string) => text.replaceAll(from, () => to),
  );
  environment.registerFunction("string.charAt(int): string", (text: string, at: bigint) => {
    const characters = Array.from(text);
    if (at < 0n || at > BigInt(characters.length)) throw new Error(`index out of range: ${at}`);
    return characters[Number(at)] ?? "";
  });
}

type Ordered = bigint | number | string;

function registerLists(environment: Environment): void {
  environment.registerFunction("list.isSorted(): bool", (list: readonly Ordered[]) =>
    list.every((item, at) => at === 0 || (list[at - 1] ?? item) <= item),
  );
  environment.registerFunction("list.sum(): dyn", (list: readonly (bigint | number)[]) =>
    list.some((it) => typeof it === "number")
      ? list.reduce<number>((sum, it) => sum + Number(it), 0)
      : list.reduce<bigint>((sum, it) => sum + BigInt(it), 0n),
  );
  const best = (
    list: readonly Ordered[],
    isBetter: (a: Ordered, b: Ordered) => boolean,
    name: string,
  ): Ordered => {
    const [first, ...rest] = list;
    if (first === undefined) throw new Error(`${name} called on empty list`);
    return rest.reduce((found, it) => (isBetter(it, found) ? it : found), first);
  };
  environment.registerFunction("list.min(): dyn", (list: readonly Ordered[]) =>
    best(list, (a, b) => a < b, "min"),
  );
  environment.registerFunction("list.max(): dyn", (list: readonly Ordered[]) =>
    best(list, (a, b) => a > b, "max"),
  );
  environment.registerFunction("list.indexOf(dyn): int", (list: readonly unknown[], item: unknown) =>
    BigInt(list.indexOf(item)),
  );
  environment.registerFunction("list.lastIndexOf(dyn): int", (list: readonly unknown[], item: unknown) =>
    BigInt(list.lastIndexOf(item)),
  );
}
