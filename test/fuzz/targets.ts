import { createSecretKey } from "node:crypto";
import { EventEmitter } from "node:events";
import type { WebSocket } from "ws";
import { FleetError } from "@fairlead/base/errors.ts";
import { parseQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import { compileExpression } from "@fairlead/apiserver/cel/environment.ts";
import { ProgramError } from "@fairlead/apiserver/cel/eval/program.ts";
import { toCel } from "@fairlead/apiserver/cel/json.ts";
import { resolveFieldPath } from "@fairlead/apiserver/cel/rules/field-path.ts";
import { CompileError } from "@fairlead/apiserver/cel/syntax/problems.ts";
import { DYN } from "@fairlead/apiserver/cel/type.ts";
import { parseJsonPath } from "@fairlead/apiserver/crd/jsonpath.ts";
import { acceptsAggregated, negotiate } from "@fairlead/apiserver/http/negotiate.ts";
import { parseBody } from "@fairlead/apiserver/http/body.ts";
import { decodeContinue } from "@fairlead/apiserver/http/list.ts";
import { parsePath } from "@fairlead/apiserver/http/path.ts";
import { apply } from "@fairlead/apiserver/patch/apply.ts";
import { parseFieldSet } from "@fairlead/apiserver/patch/field-set.ts";
import { applyJsonPatch } from "@fairlead/apiserver/patch/json-patch.ts";
import { readManagers } from "@fairlead/apiserver/patch/managers.ts";
import { applyMergePatch } from "@fairlead/apiserver/patch/merge-patch.ts";
import { applyStrategicMergePatch } from "@fairlead/apiserver/patch/strategic-merge.ts";
import { parseFieldSelector } from "@fairlead/apiserver/registry/field-selector.ts";
import { parseLabelSelector } from "@fairlead/apiserver/registry/label-selector.ts";
import { parseSelection } from "@fairlead/apiserver/registry/selectors.ts";
import type { ResourceDefinition } from "@fairlead/apiserver/registry/types.ts";
import type { ApiObject } from "@fairlead/apiserver/values/object.ts";
import { builtinSchema, resolveDefinition } from "@fairlead/apiserver/schema/definitions.ts";
import { parseJson } from "@fairlead/apiserver/schema/json.ts";
import { patternProblem } from "@fairlead/apiserver/schema/patterns.ts";
import { encodeEnvelope, encodeMessage } from "@fairlead/apiserver/schema/protobuf.encoder.ts";
import { canonicalQuantity } from "@fairlead/kube/api/meta/canonical-quantity.ts";
import { StatusError } from "@fairlead/apiserver/status.ts";
import {
  decodeFrame,
  encodeData,
  encodePing,
  encodeSynStream,
} from "@fairlead/lab/node/server/spdy/frames.ts";
import { decodeHeaders, encodeHeaders } from "@fairlead/lab/node/server/spdy/header-block.ts";
import { webSocketChannels } from "@fairlead/lab/node/server/websocket-channels.ts";
import { encodeControl, headOf, openControl } from "@fairlead/fleet/dataplane/control/datagram.ts";
import { FrameReader } from "@fairlead/fleet/dataplane/control/frames.ts";
import { parseGateways } from "@fairlead/fleet/relay/gateway-keys.ts";
import type { Material } from "./mutate.ts";

/** What reads bytes or text from outside, with what it may throw: anything else is a crash. */
export interface Target extends Material {
  readonly name: string;
  readonly run: (input: Buffer) => unknown;
  /** Whether inputs are JSON, whose values are exchanged rather than its characters most of the time. */
  readonly isJson?: boolean;
  readonly refusals: readonly (abstract new (...args: never[]) => Error)[];
}

const SERVICE = {
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: "a", labels: { app: "a" }, finalizers: ["x.io/f"] },
  spec: { type: "ClusterIP", selector: { app: "a" }, ports: [{ name: "http", port: 80, protocol: "TCP" }] },
};
const POD = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "p" },
  spec: {
    containers: [{ name: "c", image: "i", env: [{ name: "E", value: "v" }], ports: [{ containerPort: 80 }] }],
  },
};
const json = (...values: readonly unknown[]): string[] => values.map((it) => JSON.stringify(it));
/** Of control datagrams: any bytes. */
const NONCE = new Uint8Array(16);
const KEY = createSecretKey(Buffer.alloc(32));
const WORDS = [
  "{",
  "}",
  "[",
  "]",
  ":",
  ",",
  "null",
  "true",
  "metadata",
  "spec",
  "ports",
  "name",
  "$patch",
  "delete",
];
const text = (bytes: Buffer): string => bytes.toString("utf8");

/** Of patches, what is JSON at all. */
function parsed(input: Buffer): unknown {
  return parseJson(text(input)).value;
}

const NOW = "2026-01-01T00:00:00Z";
const SERVICE_SCHEMA = builtinSchema("", "v1", "Service") ?? {};

function applyTo(live: ApiObject | undefined, applied: unknown): unknown {
  const origin = { manager: "m", apiVersion: "v1", subresource: "", hasStatus: true, now: NOW };
  return apply({
    ...origin,
    live,
    applied: applied as ApiObject,
    force: true,
    schema: SERVICE_SCHEMA,
    resolve: resolveDefinition,
  });
}

const PODS = {
  isCustom: false,
  strategy: { fieldSelectors: { "spec.nodeName": () => "n" } },
} as unknown as ResourceDefinition;

const OBJECT = toCel({ spec: { replicas: 3, names: ["a", "b"], text: "hello", map: { a: 1, b: 2 } } });

function evaluateCel(input: Buffer): void {
  const program = compileExpression(text(input), { variables: new Map([["object", DYN]]) });
  program.attempt(new Map([["object", OBJECT]]), 10_000);
}

function readChannels(input: Buffer): void {
  const socket = Object.assign(new EventEmitter(), {
    send: () => {},
    close: () => {},
    pause: () => {},
    resume: () => {},
  });
  const channels = webSocketChannels(socket as unknown as WebSocket, {
    stdin: true,
    stdout: true,
    stderr: true,
    tty: true,
  });
  channels.onResize(() => {});
  channels.stdin?.resume();
  for (let at = 0; at < input.length; at += 8) socket.emit("message", input.subarray(at, at + 8));
}

const MANAGED = {
  manager: "m",
  operation: "Apply",
  apiVersion: "v1",
  time: NOW,
  fieldsType: "FieldsV1",
  fieldsV1: {
    "f:spec": { "f:ports": { 'k:{"port":80}': { ".": {}, "f:port": {} }, 'v:"x"': {}, "i:0": {} } },
  },
};

export const TARGETS: readonly Target[] = [
  {
    name: "JSON bodies",
    seeds: json(SERVICE, POD, { a: [1, -2.5e3, "\u00e9", null, true] }),
    words: WORDS,
    run: (input) => parseBody(input, "application/json"),
    refusals: [StatusError],
  },
  {
    name: "YAML bodies",
    seeds: [
      "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n  labels: {a: 'b'}\nspec:\n- 1\n- !!str 2\n- &x y\n- *x\n",
      "a: |\n  text\nb: >-\n  folded\n? c\n: d\n<<: {e: f}\n---\ng: 0x1f\n",
    ],
    words: [
      "&a ",
      "*a ",
      "!!binary ",
      "<<: ",
      "---\n",
      "? ",
      "- ",
      ": ",
      "|\n",
      "{",
      "[",
      "%YAML 1.1\n",
      "\t",
    ],
    run: (input) => parseBody(input, "application/yaml"),
    refusals: [StatusError],
  },
  {
    name: "protobuf bodies",
    seeds: [
      encodeEnvelope("v1", "Service", Uint8Array.from(encodeMessage("io.k8s.api.core.v1.Service", SERVICE))),
      encodeEnvelope("v1", "Pod", Uint8Array.from(encodeMessage("io.k8s.api.core.v1.Pod", POD))),
      encodeEnvelope("v1", "ConfigMap", Uint8Array.of(0x0a, 3, 0x0a, 1, 0x61)),
    ],
    run: (input) => parseBody(input, "application/vnd.kubernetes.protobuf"),
    refusals: [StatusError],
  },
  {
    name: "JSON patches",
    isJson: true,
    seeds: json(
      [
        { op: "add", path: "/metadata/labels/x~1y", value: "z" },
        { op: "remove", path: "/spec/ports/0" },
      ],
      [
        { op: "test", path: "/spec/type", value: "ClusterIP" },
        { op: "move", from: "/spec/selector", path: "/spec/s" },
      ],
      [
        { op: "copy", from: "/spec", path: "/spec/ports/-" },
        { op: "replace", path: "", value: {} },
      ],
    ),
    words: [...WORDS, "/", "~0", "~1", "-", "add", "remove", "copy", "move", "test", "from", "path"],
    run: (input) => applyJsonPatch(SERVICE, parsed(input)),
    refusals: [StatusError],
  },
  {
    name: "merge patches",
    isJson: true,
    seeds: json({ metadata: { labels: null } }, { spec: { ports: [] } }, SERVICE),
    words: WORDS,
    run: (input) => applyMergePatch(SERVICE, parsed(input)),
    refusals: [StatusError],
  },
  {
    name: "strategic merge patches",
    isJson: true,
    seeds: json(
      { spec: { ports: [{ port: 80, $patch: "delete" }, { port: 81 }] } },
      {
        metadata: { "$deleteFromPrimitiveList/finalizers": ["x.io/f"], "$setElementOrder/finalizers": ["a"] },
      },
      { spec: { $retainKeys: ["type"], "$setElementOrder/ports": [{ port: 80 }] } },
      { $patch: "replace", spec: {} },
    ),
    words: [
      ...WORDS,
      "$retainKeys",
      "$setElementOrder/ports",
      "$deleteFromPrimitiveList/finalizers",
      "replace",
      "merge",
    ],
    run: (input) => applyStrategicMergePatch(SERVICE, parsed(input), SERVICE_SCHEMA, resolveDefinition),
    refusals: [StatusError],
  },
  {
    name: "applied configurations",
    isJson: true,
    seeds: json(SERVICE, { ...SERVICE, spec: { ports: [{ port: 80 }, { port: 81, protocol: "UDP" }] } }),
    words: WORDS,
    run: (input) => {
      const config = parseBody(input, "application/json").value;
      const applied = { ...config, apiVersion: "v1", kind: "Service", metadata: { name: "a" } };
      return applyTo(applyTo(undefined, SERVICE) as ApiObject, applied);
    },
    refusals: [StatusError],
  },
  {
    name: "fieldsV1 and managers",
    isJson: true,
    seeds: json([MANAGED], [{ ...MANAGED, operation: "Update", subresource: "status" }]),
    words: [...WORDS, "f:", "k:{", 'v:"', "i:0", "."],
    run: (input) => {
      const entries = parsed(input);
      readManagers(entries);
      if (Array.isArray(entries))
        for (const it of entries) parseFieldSet((it as { fieldsV1?: unknown } | null)?.fieldsV1);
    },
    refusals: [StatusError],
  },
  {
    name: "field selectors",
    seeds: ["metadata.name=a,metadata.namespace!=b", "spec.nodeName==n\\,1", "status.phase=Running", ""],
    words: ["metadata.name", "spec.nodeName", "=", "==", "!=", ",", "\\", " "],
    run: (input) => parseSelection(PODS, "", parseFieldSelector(text(input))),
    refusals: [StatusError],
  },
  {
    name: "continue tokens",
    seeds: ['{"v":"meta.k8s.io/v1","rv":7,"start":"default/a"}', "{}"].map((it) =>
      Buffer.from(it).toString("base64url"),
    ),
    words: ["eyJ2IjoibWV0YS5rOHMuaW8vdjEi", "e30", "=", "-", "_"],
    run: (input) => decodeContinue(text(input)),
    refusals: [StatusError],
  },
  {
    name: "label selectors",
    seeds: ["a=b,c!=d", "a in (b,c),!d,e", "x.io/a notin (b), c > 5, d<3", "a==b"],
    words: [" in ", " notin ", "(", ")", ",", "!", "=", "==", "!=", ">", "<", "/"],
    run: (input) => parseLabelSelector(text(input))({ a: "b", c: "7" }),
    refusals: [StatusError],
  },
  {
    name: "JSONPath",
    seeds: [".spec.ports[0].port", "{.items[*].metadata['name']}", "$..name", ".a[?(@.b=='c')].d", ".a[1:3]"],
    words: ["[", "]", "..", "*", "?(", ")", "@", "==", "'", '"', "{", "}"],
    run: (input) => parseJsonPath(text(input))(POD),
    refusals: [FleetError],
  },
  {
    name: "field paths of rules",
    seeds: [".a.b", "['a'].b['c\\'d']", ".a['b']"],
    words: ["['", "']", ".", "\\'", "\\\\"],
    run: (input) =>
      resolveFieldPath(text(input), {
        properties: { a: { properties: { b: {} } } },
        additionalProperties: true,
      }),
    refusals: [],
  },
  {
    name: "quantities",
    seeds: ["500m", "1.5Gi", "2e3", "-0.1n", "+.5E", "9223372036854775807"],
    words: ["Ki", "Ei", "e", "E", "n", "+", "-", ".", "1e99", "000000000000000000000000000001"],
    run: (input) => [canonicalQuantity(text(input)), parseQuantity(text(input))],
    refusals: [],
  },
  {
    name: "patterns",
    seeds: ["^[a-z]([-a-z0-9]*[a-z0-9])?$", "(a|b)*c{2,5}", String.raw`(?i)\p{L}+\d\b`, "((a{0,99}){0,9})"],
    words: ["(", ")", "[", "]", "{1,1000}", "*", "+?", "|", "\\", "(?P<n>", "^", "$", "\\p{"],
    run: (input) => patternProblem(text(input)),
    refusals: [],
  },
  {
    name: "CEL",
    seeds: [
      "object.spec.names.all(x, x.size() > 0) && has(object.spec.text)",
      "object.spec.map.transformMap(k, v, v * 2).exists(k, v, v == 4) ? 'a' : string(1.5)",
      "[1, 2, 3].map(x, x * 2).filter(x, x > 2).sortBy(x, -x)[?0].orValue(5)",
      "'%s %d %.2f'.format(['a', 1, 1.5]).replace('a', 'b').split(' ').join('-')",
      "quantity('1.5Gi').add(5) == quantity('2') || semver('1.2.3-a').isLessThan(semver('2.0.0'))",
      "cidr('10.0.0.0/8').containsIP(ip('10.1.2.3')) && url('https://a:1/b?c=d').getPort() == '1'",
      "timestamp('2020-01-01T00:00:00Z') + duration('1h30m') > timestamp(0)",
      "object.?spec.?missing.optMap(x, x + 1).hasValue() || 'abc'.matches('a.*')",
      "lists.range(5).flatten().distinct().slice(0, 2) == b'\\x00' || 1u + 2u == 3u",
    ],
    words: [
      "(",
      ")",
      "[",
      "]",
      "{",
      "}",
      ".",
      ",",
      "?",
      ":",
      "&&",
      "||",
      "!",
      "==",
      "<",
      " in ",
      "+",
      "-",
      "/",
      "%",
      "object",
      "spec",
      "x",
      ".all(x, ",
      ".map(x, ",
      "optional.of(",
      "dyn(",
      "'a'",
      "null",
      "true",
      "1u",
      "1.5",
      "lists.range(",
      ".format(",
      ".find(",
      ".sort()",
      "type(",
      "string(",
      "int(",
      "timestamp(",
      "duration(",
    ],
    run: evaluateCel,
    refusals: [CompileError, ProgramError],
  },
  {
    name: "paths of requests",
    seeds: ["/api/v1/namespaces/default/pods/a/log", "/apis/apps/v1/deployments", "/openapi/v3/apis/apps/v1"],
    words: ["/", "//", "%2f", "%", "..", "api", "apis", "namespaces", "watch"],
    run: (input) => parsePath(text(input)),
    refusals: [StatusError, URIError],
  },
  {
    name: "Accept headers",
    seeds: [
      "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.5, */*",
      "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
      "application/vnd.kubernetes.protobuf, application/yaml",
    ],
    words: [";", ",", "=", "q=", "*/*", "as=", "/", '"'],
    run: (input) => [negotiate(text(input)), acceptsAggregated(text(input))],
    refusals: [StatusError],
  },
  {
    name: "SPDY frames",
    seeds: [
      Buffer.concat([encodeSynStream(1, Buffer.from("abcdef")), encodeData(1, Buffer.from("hello"), true)]),
      encodePing(Buffer.of(0, 0, 0, 1)),
    ],
    run: (input) => {
      for (let rest = input; ;) {
        const found = decodeFrame(rest);
        if (found === undefined) return;
        rest = rest.subarray(found.length);
      }
    },
    refusals: [],
  },
  {
    name: "control datagrams of gateways",
    seeds: [
      ...(["register", "challenge"] as const).map((kind) =>
        encodeControl({ kind, from: 1, to: 2, epoch: 1, nonce: NONCE, cookie: NONCE }, KEY),
      ),
      encodeControl({ kind: "probe", from: 1, to: 2, epoch: 1, nonce: NONCE }, KEY),
    ],
    run: (input) => {
      headOf(input);
      openControl(input, KEY);
    },
    refusals: [],
  },
  {
    name: "frames of gateways over TLS",
    seeds: [Buffer.from([0, 2, 0, 5, 4, 0, 0, 1, 0, 4, 1]), Buffer.from([36, 0, 7, 255, 1])],
    run: (input) => {
      const reader = new FrameReader();
      for (const at of [0, input.length >> 1])
        if (reader.read(input.subarray(at, at === 0 ? input.length >> 1 : undefined)) === undefined) return;
    },
    refusals: [],
  },
  {
    name: "the file of a relay's gateways",
    seeds: json([
      { name: "a-0", index: 1, keys: [{ epoch: 1, publicKey: Buffer.alloc(32).toString("base64") }] },
    ]),
    words: WORDS,
    run: (input) => parseGateways(input.toString()),
    isJson: true,
    refusals: [FleetError],
  },
  {
    name: "SPDY header blocks",
    seeds: [
      encodeHeaders(
        new Map([
          ["streamtype", "stdin"],
          ["port", "80"],
        ]),
      ),
    ],
    run: (input) => decodeHeaders(input),
    refusals: [RangeError],
  },
  {
    name: "WebSocket channels",
    seeds: [
      Buffer.from('\u0000hello\u0004{"Width":80,"Height":24}'),
      Buffer.of(255, 0),
      Buffer.of(4, 123, 125),
    ],
    words: ['{"Width":', '"Height":', "}", "\u0004"],
    run: readChannels,
    refusals: [],
  },
];
