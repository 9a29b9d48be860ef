import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { formatAddress } from "@fairlead/base/netaddr/address.ts";
import { compileExpression } from "./environment.ts";
import { ProgramError } from "./eval/program.ts";
import { formatDouble, formatTimestamp } from "./eval/text.ts";
import { toCel } from "./json.ts";
import { Cidr, Ip } from "./library/net.ts";
import { CompileError } from "./syntax/problems.ts";
import { BOOL, type CelType, DOUBLE, DYN, formatType, INT, listOf, mapOf, STRING, UINT } from "./type.ts";
import {
  CelError,
  CelMap,
  type CelValue,
  Duration,
  isList,
  Opaque,
  Optional,
  Timestamp,
  TypeValue,
  Uint,
} from "./value.ts";

/** What an expression came to in a real API server: a value of a type, or one of three kinds of error. */
interface Recorded {
  readonly expression: string;
  readonly type?: string;
  readonly value?: string;
  readonly error?: string;
  readonly compileError?: string;
  readonly programError?: string;
}

const RECORDED = JSON.parse(readFileSync(new URL("expressions.recorded.json", import.meta.url), "utf8")) as {
  readonly recorded: string;
  readonly groups: Readonly<Record<string, readonly Recorded[]>>;
};

const object = {
  spec: { replicas: 3, ratio: 0.5, names: ["a", "b", "c"], paused: false, empty: "", nothing: null },
  metadata: { name: "web", labels: { app: "web", tier: "front" } },
  ports: [
    { name: "http", port: 80 },
    { name: "https", port: 443 },
  ],
};

/** `missing` is declared and has no value. */
const VARIABLES: readonly (readonly [string, CelType, CelValue?])[] = [
  ["object", DYN, toCel(object)],
  ["i", INT, 7n],
  ["u", UINT, new Uint(7n)],
  ["d", DOUBLE, 2.5],
  ["s", STRING, "hello"],
  ["l", listOf(INT), [3n, 1n, 2n]],
  ["ls", listOf(STRING), ["b", "a", "c"]],
  ["m", mapOf(STRING, INT), toCel({ x: 1, y: 2 })],
  ["ms", mapOf(STRING, STRING), toCel({ k: "v" })],
  ["n", DYN, null],
  ["b", BOOL, true],
  ["missing", STRING],
];

function evaluate(expression: string): Recorded {
  try {
    const variables = new Map(VARIABLES.map(([name, type]) => [name, type]));
    const program = compileExpression(expression, { variables });
    const values = new Map(
      VARIABLES.flatMap(([name, , value]) => (value === undefined ? [] : ([[name, value]] as const))),
    );
    const type = formatType(program.type);
    try {
      return { expression, type, value: show(program.evaluate(values).value) };
    } catch (error) {
      if (error instanceof CelError) return { expression, type, error: error.message };
      throw error;
    }
  } catch (error) {
    if (error instanceof CompileError) return { expression, compileError: error.message };
    if (error instanceof ProgramError) return { expression, programError: error.message };
    throw error;
  }
}

/** The value with its type, in the format of the recording program. */
function show(value: CelValue): string {
  if (typeof value === "number") return `double(${formatDouble(value)})`;
  if (typeof value === "string") return JSON.stringify(value);
  if (value === null || typeof value !== "object") return String(value);
  if (isList(value)) return `[${value.map(show).join(", ")}]`;
  return value instanceof CelMap ? showMap(value) : showObject(value);
}

function showObject(value: Exclude<CelValue, null | boolean | bigint | number | string>): string {
  if (value instanceof Uint) return `${value.value}u`;
  if (value instanceof Uint8Array) return `0x${Buffer.from(value).toString("hex")}`;
  if (value instanceof Duration) return `duration(${value.nanos})`;
  if (value instanceof Timestamp) return `timestamp(${formatTimestamp(value)})`;
  if (value instanceof TypeValue) return `type(${value.type.name})`;
  if (value instanceof Optional) return value.hasValue ? `optional(${show(value.value)})` : "optional.none()";
  return value instanceof Opaque ? showOpaque(value) : "";
}

function showMap(map: CelMap): string {
  const entries = [...map.entries()].map(([key, value]) => `${show(key)}: ${show(value)}`);
  return `{${entries.toSorted().join(", ")}}`;
}

function showOpaque(value: Opaque): string {
  if (value instanceof Ip) return `ip(${formatAddress(value.address)})`;
  if (value instanceof Cidr) return `cidr(${formatAddress(value.address)}/${value.length})`;
  return `<${value.celType.name}>`;
}

/** Expressions for which the recorded parser reports further errors after the first. */
const MORE_PROBLEMS = new Set(["&&", "f(,)", "object.?"]);

describe(`expressions have the results of ${RECORDED.recorded}`, () => {
  for (const [group, cases] of Object.entries(RECORDED.groups)) {
    it.each(cases.filter(({ expression }) => !MORE_PROBLEMS.has(expression)))(
      `${group}: $expression`,
      (recorded) => {
        expect(evaluate(recorded.expression)).toEqual(recorded);
      },
    );
  }

  it.each([...MORE_PROBLEMS])("syntax errors: %s does not compile either", (expression) => {
    expect(evaluate(expression).compileError).toContain("Syntax error");
  });
});
