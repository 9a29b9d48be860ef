import { parseBody } from "@fairlead/apiserver/http/body.ts";
import { applyJsonPatch } from "@fairlead/apiserver/patch/json-patch.ts";
import { decodeBuiltin } from "@fairlead/apiserver/schema/builtin-decode.ts";
import { builtinSchema, resolveDefinition } from "@fairlead/apiserver/schema/definitions.ts";
import { pruneObject } from "@fairlead/apiserver/schema/prune.ts";
import type { Schema } from "@fairlead/apiserver/schema/types.ts";
import { numbered, repeated } from "./measure.ts";
import { BODY, type Decoder, indexOfOneHash, list, of, rows } from "./rows.ts";

/** As long as is read as YAML. */
const YAML = 64 * 1024;

export const CONFIG_MAP = { apiVersion: "v1", kind: "ConfigMap", isCustom: false };
const json = (text: string): unknown => parseBody(Buffer.from(text), "application/json", CONFIG_MAP);
const yaml = (text: string): unknown => parseBody(Buffer.from(text), "application/yaml");
/** Half of the length for the key, half for the content below. */
const below =
  (inner: (length: number) => string) =>
  (length: number): string =>
    `{"${"A".repeat(length / 2)}":{${inner(length / 2)}}}`;

const JSON_ROWS = rows("JSON", BODY, json, {
  "one duplicate key many times, under a long key": below(list(() => '"a":1')),
  "different duplicate keys, under a long key": below(list((at) => `"k${at}":1,"k${at}":2`)),
  "an object that comes again": (length) =>
    `{"data":{${numbered((at) => `"k${at}":1`, length / 2)}},${numbered(() => '"data":{}', length / 2)}}`,
  "objects that come again at each level": (length) => {
    const levels = 300;
    const path = (depth: number): string => `${'{"p":'.repeat(depth)}{}${"}".repeat(depth)}`;
    let text = `{"p":{},"p":{${numbered((at) => `"k${at}":1`, length)}}}`;
    for (let depth = 1; depth < levels; depth++) text = `{"p":${path(depth)},"p":${text}}`;
    return text;
  },
  keys: list((at) => `"k${at}":1`, "{", "}"),
  "keys like indexes of arrays, many to a hash": list((at) => `"${indexOfOneHash(at)}":1`, "{", "}"),
  "objects in a list": list(() => '{"a":{}}', "[", "]"),
  "one long text": of("a", '"', '"'),
  backslashes: of("\\\\", '"', '"'),
  "text that does not end": of('\\"', '"'),
  "one long number": of("9", "[0.", "]"),
  numbers: list(() => "1", "[", "]"),
  blanks: of(" \n"),
  "numbers that do not end": of("1e"),
});

export const YAML_TEXTS: Readonly<Record<string, (length: number) => string>> = {
  "malformed collections": of("}]}", "x: [{a"),
  "malformed escapes": of(String.raw`\q`, 'a: "', '"'),
  "malformed items": of("@,", "[", "]"),
  "aliases of nothing": (length) =>
    `a: &a [${repeated('"",', length / 3)}]\nb: &b [${repeated("*a,", length / 3)}]\nc: [${repeated("*b,", length / 3)}]\n`,
  aliases: of("*a,", "a: &a {}\nb: [", "]"),
  "merge keys": of("<<: *a,", "a: &a {x: 1, y: 2, z: 3}\nb: {", "}"),
  dashes: of("- "),
  "question marks": of("? "),
  brackets: of("["),
  braces: of("{a: "),
  keys: list((at) => `k${at}: v\n`),
  "keys like indexes of arrays, many to a hash": list((at) => `${indexOfOneHash(at)}: v\n`),
  "the same key": of("a: b\n"),
  "the same key under a long key": (length) =>
    `? ${"A".repeat(length / 2)}\n: {${repeated("a: 1,", length / 2)}}`,
  items: of("- a\n"),
  lines: of("\n"),
  blanks: of(" \n"),
  comments: of("# c\n"),
  documents: of("---\n"),
  directives: of("%TAG ! tag:x\n"),
  colons: of(": "),
  anchors: of("&a "),
  tags: of("!!str "),
  "a set": list((at) => `k${at}`, "a: !!set {", "}"),
  "an ordered map": list((at) => `k${at}: v`, "a: !!omap [", "]"),
  pairs: list((at) => `k${at}: v`, "a: !!pairs [", "]"),
  "a block": of("  x\n", "a: |\n"),
  "a folded block": of("  x\n\n", "a: >\n"),
  "plain text": of("  x\n", "a: x\n"),
  "quoted text": of("x\n ", 'a: "', '"'),
  "blanks in text": of(" ", "a: x", "y"),
  "a flow": of("x,", "[", "]"),
  commas: of(",", "[", "]"),
  "a flow of pairs": of(":,", "{", "}"),
  tabs: of("\t"),
  "tabs after keys": of("a:\t1\n"),
  digits: of("1", "a: "),
  "digits with lines": of("1_", "a: "),
  base64: of("QUFB", "a: !!binary "),
  "invalid JSON": of('"a":1,', "{", "?"),
};
const YAML_ROWS = rows("YAML", YAML, yaml, YAML_TEXTS);

const SECRET = builtinSchema("", "v1", "Secret") ?? {};
const DEPLOYMENT = builtinSchema("apps", "v1", "Deployment") ?? {};
const CUSTOM: Schema = {
  type: "object",
  properties: { spec: { type: "object", additionalProperties: { type: "object", properties: {} } } },
};
const decodeAs = (kind: string, schema: object) => (text: string) =>
  decodeBuiltin(JSON.parse(text), { kind, version: "v1", schema });

const TYPED_ROWS = [
  ...rows("fields of built-in kinds", BODY, decodeAs("Deployment", DEPLOYMENT), {
    "unknown fields": list((at) => `"k${at}":1`, '{"spec":{', "}}"),
    "unknown fields under long names": (length) =>
      `{"${"A".repeat(length / 2)}":{},${numbered((at) => `"k${at}":1`, length / 2)}}`,
    "a field of another type": of("a", '{"spec":{"replicas":"', '"}}'),
  }),
  ...rows("data of Secrets", BODY, decodeAs("Secret", SECRET), {
    base64: of("QUFB", '{"data":{"a":"', '"}}'),
    "base64 with lines": of("QUFB\\n", '{"data":{"a":"', '"}}'),
    "invalid base64": of("QUFB", '{"data":{"a":"', '?"}}'),
    keys: list((at) => `"k${at}":""`, '{"data":{', "}}"),
  }),
  ...rows(
    "fields of custom kinds",
    BODY,
    (text) => pruneObject(JSON.parse(text), CUSTOM, resolveDefinition),
    {
      "unknown fields": list((at) => `"k${at}":1`, '{"spec":{"a":{', "}}}"),
      "unknown fields under a long key": (length) =>
        `{"spec":{"${"A".repeat(length / 2)}":{${numbered((at) => `"k${at}":1`, length / 2)}}}}`,
    },
  ),
];

const patched = (text: string): unknown => applyJsonPatch({ data: { a: "b" } }, JSON.parse(text));
const big = (length: number): string =>
  `{"op":"add","path":"/x","value":[${numbered(() => "[]", length / 2)}]}`;
const PATCH_ROWS = rows("JSON patch", BODY, patched, {
  "moves of a big list": (length) =>
    `[${big(length)},${numbered((at) => (at % 2 === 0 ? '{"op":"move","from":"/x","path":"/y"}' : '{"op":"move","from":"/y","path":"/x"}'), Math.min(length / 2, 360_000))}]`,
  "tests of a big list": (length) =>
    `[${big(length)},${numbered(() => '{"op":"test","path":"/x","value":1}', Math.min(length / 2, 340_000))}]`,
  "insertions into a big list": (length) =>
    `[${big(length)},${numbered(() => '{"op":"add","path":"/x/0","value":1}', Math.min(length / 2, 350_000))}]`,
  "copies of a big list": (length) =>
    `[${big(length)},${numbered((at) => `{"op":"copy","from":"/x","path":"/c${at}"}`, Math.min(length / 2, 350_000))}]`,
  "copies of copies": list((at) => `{"op":"copy","from":"/data","path":"/data/c${at}"}`, "[", "]"),
  "long pointers": list(() => `{"op":"test","path":"${"/a".repeat(500)}","value":1}`, "[", "]"),
  "one long pointer": of("/a", '[{"op":"add","path":"', '","value":1}]'),
  "one value": of("[],", '[{"op":"add","path":"/x","value":[', "[]]}]"),
});

export const BODIES: readonly Decoder[] = [...JSON_ROWS, ...YAML_ROWS, ...TYPED_ROWS, ...PATCH_ROWS];
