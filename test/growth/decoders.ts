import { EventEmitter } from "node:events";
import type { WebSocket } from "ws";
import { parseDuration } from "@fairlead/base/duration.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { parseQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { decodeMessage } from "@fairlead/dns/wire/decode.ts";
import { parseName } from "@fairlead/dns/wire/name.ts";
import { compileExpression } from "@fairlead/apiserver/cel/environment.ts";
import { toCel } from "@fairlead/apiserver/cel/json.ts";
import { DYN } from "@fairlead/apiserver/cel/type.ts";
import { parseJsonPath } from "@fairlead/apiserver/crd/jsonpath.ts";
import { parseBody } from "@fairlead/apiserver/http/body.ts";
import { decodeContinue } from "@fairlead/apiserver/http/list.ts";
import { acceptsAggregated, negotiate } from "@fairlead/apiserver/http/negotiate.ts";
import { parsePath } from "@fairlead/apiserver/http/path.ts";
import { parseFieldSelector } from "@fairlead/apiserver/registry/field-selector.ts";
import { parseLabelSelector } from "@fairlead/apiserver/registry/label-selector.ts";
import {
  labelValueProblems,
  qualifiedNameProblems,
  subdomainProblems,
} from "@fairlead/apiserver/values/names.ts";
import { isOfFormat } from "@fairlead/apiserver/schema/formats.ts";
import { matches, patternProblem } from "@fairlead/apiserver/schema/patterns.ts";
import { canonicalQuantity } from "@fairlead/kube/api/meta/canonical-quantity.ts";
import { encodeEnvelope } from "@fairlead/apiserver/schema/protobuf.encoder.ts";
import { webSocketChannels } from "@fairlead/lab/node/server/websocket-channels.ts";
import { openEnvelope } from "@fairlead/fleet/placement/works/envelopes.ts";
import { BODIES, CONFIG_MAP, YAML_TEXTS } from "./bodies.ts";
import { repeated } from "./measure.ts";
import { BODY, type Decoder, HEAD, list, of, rows } from "./rows.ts";

/** The longest data of a ConfigMap. */
const ENVELOPE = 1024 * 1024;
/** As long as an expression may be. */
const CEL = 99_000;

const PODS = ["metadata.name", "spec.nodeName"];
const fields = (text: string): unknown => parseFieldSelector(text);
const labels = (text: string): unknown => parseLabelSelector(text)({ a: "b" });
const SELECTOR_ROWS = [
  ...rows("field selectors", HEAD, fields, {
    "blanks after the name": of(" ", "metadata.name=mine,", "a"),
    blanks: of(" "),
    commas: of(","),
    backslashes: of("\\"),
    "equals signs": of("="),
    terms: list((at) => `${PODS[at % 2] ?? ""}!=v${at}`),
    "one value": of(String.raw`\,`, "a="),
    "exclamation marks": of("!"),
  }),
  ...rows("label selectors", HEAD, labels, {
    keys: list((at) => `a${at}`),
    values: of("b,", "a in (", "c)"),
    "absent keys": list((at) => `!a${at}`),
    parentheses: of("("),
    blanks: of(" ", "a", "b"),
    "a long key": of("a"),
    "a long prefix": of("a.", "", "a/b"),
    "a long value": of("a-", "a="),
    comparisons: of("a>1,", "", "b"),
    "exclamation marks": of("!"),
  }),
  ...rows(
    "names",
    HEAD,
    (text) => [subdomainProblems(text), qualifiedNameProblems(text), labelValueProblems(text)],
    {
      letters: of("a", "", "!"),
      hyphens: of("-"),
      "letters and hyphens": of("a-", "", "!"),
      labels: of("a.", "", "!"),
      slashes: of("/"),
    },
  ),
];

const NUMBER_ROWS = [
  ...rows("durations", HEAD, parseDuration, { digits: of("1"), units: of("1s"), points: of("1.") }),
  ...rows("quantities", BODY, (text) => [parseQuantity(text), canonicalQuantity(text)], {
    digits: of("1"),
    "digits and a letter": of("1", "", "x"),
    fractions: of("0", "0.", "1"),
    exponents: of("9", "1e"),
    letters: of("Ki"),
  }),
  ...rows("addresses and ranges", BODY, (text) => [tryParseAddress(text), tryParsePrefix(text)], {
    digits: of("1"),
    octets: of("1."),
    groups: of("1:"),
    colons: of(":"),
    zeros: of("0", "10.0.0.1/"),
    slashes: of("/"),
    zones: of("%a", "fe80::1"),
  }),
  ...rows("formats", BODY, (text) => FORMATS.map((it) => isOfFormat(text, it)), {
    digits: of("1"),
    "digits and a letter": of("1", "", "x"),
    letters: of("a"),
    labels: of("a."),
    hyphens: of("-"),
    colons: of("a:"),
    "at signs": of("@"),
    "letters at signs": of("a@"),
    base64: of("QUFB"),
    "invalid base64": of("QUFB", "", "?"),
    slashes: of("/"),
    units: of("1s"),
    words: of("nano", "1"),
    blanks: of(" ", "1"),
  }),
];

const FORMATS =
  "date-time date duration ipv4 ipv6 cidr mac hostname email uri uuid byte k8s-short-name k8s-long-name".split(
    " ",
  );

const HEAD_ROWS = [
  ...rows("Accept", HEAD, (text) => attempt(() => [negotiate(text), acceptsAggregated(text)]), {
    commas: of(","),
    semicolons: of(";", "a/b"),
    types: of("a/b,"),
    weights: of("q=1;", "a/b;"),
    blanks: of(" ", "application/json", ";"),
    "equals signs": of("=", "a/b;"),
  }),
  ...rows("paths", HEAD, parsePath, {
    slashes: of("/"),
    escapes: of("%41", "/api/"),
    segments: of("/a", "/api/v1"),
    watches: of("/watch", "/api/v1"),
  }),
  ...rows("continue tokens", HEAD, (text) => attempt(() => decodeContinue(text)), {
    letters: of("a"),
    "equals signs": of("="),
  }),
];

const OBJECT = toCel({ text: "a".repeat(1000), names: ["a", "b"] });
function cel(text: string): unknown {
  const program = compileExpression(text, { variables: new Map([["object", DYN]]) });
  return program.attempt(new Map([["object", OBJECT]]), 100_000);
}
const CEL_ROWS = [
  ...rows("CEL", CEL, cel, {
    sums: of("+1", "1"),
    parentheses: of("("),
    fields: of(".a", "object"),
    texts: of("'a'+", "", "''"),
    quotes: of('"'),
    "mixed quotes": of(`'"`),
    "triple quotes": of('"""a'),
    "raw quotes": of(`r'`),
    digits: of("9"),
    names: list((at) => `a${at}`),
    list: list(() => "1", "[", "]"),
    "a map": list((at) => `'k${at}': 1`, "{", "}"),
    conditions: of("true||", "", "true"),
    blanks: of(" "),
    "only invalid characters": of("#"),
    "blanks of a text": of(" ", "'", "x'.trim()"),
    "a long duration": of("1s", "duration('", "')"),
    "a long quantity": of("1", "quantity('", "x')"),
    "a long number": of("1", "double('", "x')"),
    "a long time": of("1", "timestamp('", "')"),
    "a long version": of("1.", "semver('", "')"),
    "a long URL": of("%41", "url('http://a/", "')"),
    "a long address": of("1:", "ip('", "')"),
    "a long format": of("%d", "'", "'.format([1])"),
    "a long pattern": of("(a*)*", "object.text.matches('", "b')"),
    "what is replaced": of("a", "'", "'.replace('a', 'b').size()"),
    "what is split": of("a,", "'", "'.split(',').join('').size()"),
    "what is reversed": of("a", "'", "'.reverse().size()"),
  }),
  ...rows("rules' patterns", 10_000, (text) => patternProblem(text), {
    groups: of("(a*)*"),
    parentheses: of("("),
    classes: of("[a-z]{100}"),
    alternatives: of("a|"),
  }),
  ...rows("texts under a pattern", BODY / 8, (text) => matches("^(a+)+b$", text), { letters: of("a") }),
  ...rows("JSONPath", CEL, (text) => attempt(() => parseJsonPath(text)({ a: 1 })), {
    fields: of(".a"),
    "deep fields": of("..a"),
    brackets: of("["),
    "all items": of("[*]"),
    filters: of("[?(@.a==1)]"),
    "blanks in a filter": of(" ", "[?(@.a", "==1)]"),
    "lines in a filter": of("\n", "[?(@.a==", "1)]"),
    backslashes: of("\\", "."),
    quotes: of("['a']"),
  }),
];

function attempt(run: () => unknown): unknown {
  try {
    return run();
  } catch {
    return undefined;
  }
}

const bytes = (
  decoder: string,
  limit: number,
  run: (input: Buffer) => unknown,
  inputs: Readonly<Record<string, (length: number) => Buffer>>,
): Decoder[] =>
  Object.entries(inputs).map(([name, make]) => ({
    name: `${decoder}: ${name}`,
    limit,
    make,
    run: (input) => run(Buffer.from(input as string)),
  }));

const envelope = (field: Buffer, length: number): Buffer =>
  Buffer.from(
    encodeEnvelope(
      "v1",
      "ConfigMap",
      Uint8Array.from(Buffer.concat(Array.from({ length: length / field.length }, () => field))),
    ),
  );
const protobuf = (input: Buffer): unknown =>
  parseBody(input, "application/vnd.kubernetes.protobuf", CONFIG_MAP);

function dnsWith(part: Buffer, counts: Buffer): (length: number) => Buffer {
  return (length) => {
    const parts = Array.from({ length: Math.max(1, Math.floor((length - 12) / part.length)) }, () => part);
    return Buffer.concat([Buffer.from([0, 1, 0, 0]), counts, ...parts]);
  };
}

function channels(input: Buffer): void {
  const socket = Object.assign(new EventEmitter(), { send() {}, close() {}, pause() {}, resume() {} });
  const read = webSocketChannels(socket as unknown as WebSocket, {
    stdin: true,
    stdout: true,
    stderr: true,
    tty: true,
  });
  read.onResize(() => {});
  read.stdin?.resume();
  for (let at = 0; at < input.length; at += 64) socket.emit("message", input.subarray(at, at + 64));
  socket.emit("message", input);
}

const BYTE_ROWS = [
  ...bytes("protobuf", BODY, protobuf, {
    "entries of a map": (length) => envelope(Buffer.of(0x12, 6, 0x0a, 1, 0x61, 0x12, 1, 0x62), length),
    "metadata again and again": (length) => envelope(Buffer.of(0x0a, 3, 0x0a, 1, 0x61), length),
    "unknown fields": (length) => envelope(Buffer.of(0xf8, 0x01, 1), length),
    labels: (length) => envelope(Buffer.of(0x0a, 8, 0x5a, 6, 0x0a, 1, 0x61, 0x12, 1, 0x62), length),
    "what is cut off": (length) => envelope(Buffer.of(0x12), length),
    "a long number": (length) => envelope(Buffer.of(0xff), length),
  }),
  ...bytes("DNS messages", 65_535, decodeMessage, {
    // Each question is a pointer to the longest name, at the beginning.
    questions: dnsWith(Buffer.of(0xc0, 12, 0, 1, 0, 1), Buffer.of(0xff, 0xff, 0, 0, 0, 0, 0, 0)),
    roots: dnsWith(Buffer.of(0, 0, 1, 0, 1), Buffer.of(0xff, 0xff, 0, 0, 0, 0, 0, 0)),
    records: dnsWith(Buffer.of(0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0), Buffer.of(0, 0, 0xff, 0xff, 0, 0, 0, 0)),
    labels: dnsWith(Buffer.of(1, 0x61), Buffer.of(0xff, 0xff, 0, 0, 0, 0, 0, 0)),
  }),
  ...bytes("WebSocket channels", BODY, channels, {
    input: (length) => Buffer.alloc(length, "\0a"),
    sizes: (length) => Buffer.from(repeated('\u0004{"Width":80}', length)),
  }),
];

const DNS_NAMES = rows("DNS names", HEAD, (text) => attempt(() => parseName(text)), {
  labels: of("a."),
  points: of("."),
  backslashes: of("\\"),
  letters: of("a"),
});

/** A ConfigMap whose data are the text, under one key. */
const box = (x: string): unknown =>
  attempt(() => openEnvelope({ metadata: { namespace: "shop", name: "box" }, data: { x } } as KubeObject));
const ENVELOPES = [
  ...rows("envelopes", ENVELOPE, box, YAML_TEXTS).map((it) => ({ ...it, isRepeated: true })),
  ...rows("envelopes", ENVELOPE, box, {
    "unknown tags": of("- !a b\n"),
    "an object of JSON": list((at) => `"k${at}":1`, "{", "}"),
    "objects of JSON that nest": of('{"a":'),
    "JSON that does not end": list((at) => `"k${at}":1`, "{"),
  }),
  ...rows("envelopes", ENVELOPE, (text) => attempt(() => openEnvelope(JSON.parse(text) as KubeObject)), {
    "keys of YAML": list(
      (at) => `"k${at}":"apiVersion: v1\\nkind: A\\nmetadata: {namespace: s, name: a}"`,
      '{"metadata":{"namespace":"s","name":"b"},"data":{',
      "}}",
    ),
  }),
];

export const DECODERS: readonly Decoder[] = [
  ...BODIES,
  ...ENVELOPES,
  ...SELECTOR_ROWS,
  ...NUMBER_ROWS,
  ...HEAD_ROWS,
  ...CEL_ROWS,
  ...BYTE_ROWS,
  ...DNS_NAMES,
];
