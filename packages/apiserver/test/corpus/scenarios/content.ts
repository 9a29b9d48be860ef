import { definition, widgetDefinition, WIDGETS } from "../definitions.ts";
import { kindOf, KINDS, manifest, pathOf } from "../manifests.ts";
import { area, get, given, patch, post, put, scenario } from "../scenario.ts";

const MAPS = "/api/v1/namespaces/$ns/configmaps";
const map = (name: string): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name },
  data: { x: "1" },
});
const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/** Bodies in protobuf, as kubectl and client-go send them. */
function protobuf(
  apiVersion: string,
  kind: string,
  ...fields: readonly (readonly [number, Uint8Array | string])[]
): Buffer {
  const typeMeta = message([1, apiVersion], [2, kind]);
  return Buffer.concat([Buffer.from("k8s\0"), message([1, typeMeta], [2, message(...fields)])]);
}

/** A message of length-delimited fields with numbers below 16 and fewer than 128 bytes each. */
function message(...fields: readonly (readonly [number, Uint8Array | string])[]): Buffer {
  return Buffer.concat(
    fields.map(([number, value]) => {
      const bytes = Buffer.from(value);
      return Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes]);
    }),
  );
}

const PROTOBUF = "application/vnd.kubernetes.protobuf";
const named = (name: string): Buffer => message([1, name]);

export const scenarios = area("content", [
  ...KINDS.filter((it) => it.kind !== "Namespace" && it.kind !== "Event").map((kind) => {
    const name = kind.namespaced ? "a" : "$id";
    return scenario(
      `a ${kind.kind} as a Table`,
      [
        given(post(pathOf(kind), manifest(kind, { name, labels: { scenario: "$id" } }))),
        get(`${pathOf(kind)}?labelSelector=scenario%3D$id&includeObject=None`, { accept: TABLE }),
      ],
      { namespaced: kind.namespaced },
    );
  }),
  scenario("Tables include the requested objects", [
    given(post(MAPS, map("a"))),
    get(MAPS, { accept: TABLE }),
    get(`${MAPS}?includeObject=Object`, { accept: TABLE }),
    get(`${MAPS}?includeObject=Metadata`, { accept: TABLE }),
    get(`${MAPS}?includeObject=Sometimes`, { accept: TABLE }),
    get(`${MAPS}/a`, { accept: TABLE }),
    get(MAPS, { accept: "application/json;as=Table;v=v1beta1;g=meta.k8s.io" }),
    get(MAPS, { accept: `application/json;as=Nothing;v=v1;g=x,${TABLE}` }),
    get(`${MAPS}/absent`, { accept: TABLE }),
    post(MAPS, map("b"), { accept: TABLE }),
    get(`${MAPS}?limit=1`, { accept: TABLE }),
    get("/api/v1/namespaces/$ns/secrets", { accept: TABLE }),
  ]),
  scenario("metadata of objects and lists", [
    given(post(MAPS, map("a"))),
    get(`${MAPS}/a`, { accept: METADATA }),
    get(MAPS, { accept: METADATA_LIST }),
    get(MAPS, { accept: METADATA }),
    get(`${MAPS}/a`, { accept: METADATA_LIST }),
    get(MAPS, { accept: "application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io" }),
    patch("merge", `${MAPS}/a`, { metadata: { labels: { l: "1" } } }, { accept: METADATA }),
    get(`${MAPS}/absent`, { accept: METADATA }),
    get("/api/v1", { accept: METADATA }),
  ]),
  scenario("custom resources as Tables and as metadata", [
    definition(
      widgetDefinition(undefined, {
        version: {
          additionalPrinterColumns: [
            { name: "Size", type: "integer", jsonPath: ".spec.size", description: "How large." },
            { name: "Since", type: "date", jsonPath: ".metadata.creationTimestamp" },
            { name: "Ready", type: "string", jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
            { name: "Parts", type: "string", jsonPath: ".spec.parts[*].name", priority: 1 },
            { name: "Whole", type: "string", jsonPath: ".spec.parts", priority: 1 },
            { name: "Flag", type: "boolean", jsonPath: ".spec.flag" },
            { name: "Share", type: "number", jsonPath: ".spec.share", format: "float" },
          ],
        },
      }),
    ),
    given(
      post(WIDGETS, {
        apiVersion: "$id.example.com/v1",
        kind: "Widget",
        metadata: { name: "a" },
        spec: { size: 3, parts: [{ name: "x" }, { name: "y" }], flag: true, share: 0.5 },
        status: { conditions: [{ type: "Ready", status: "True" }] },
      }),
      post(WIDGETS, { apiVersion: "$id.example.com/v1", kind: "Widget", metadata: { name: "b" } }),
      post(WIDGETS, {
        apiVersion: "$id.example.com/v1",
        kind: "Widget",
        metadata: { name: "c" },
        spec: { size: "big", flag: "no", share: 2 },
      }),
    ),
    get(WIDGETS, { accept: TABLE }),
    get(`${WIDGETS}/a`, { accept: METADATA }),
    get(WIDGETS, { accept: METADATA_LIST }),
  ]),
  scenario("custom resources without columns as a Table", [
    definition(),
    given(post(WIDGETS, { apiVersion: "$id.example.com/v1", kind: "Widget", metadata: { name: "b" } })),
    get(WIDGETS, { accept: TABLE }),
  ]),
  scenario("yaml in and out", [
    post(MAPS, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: 'yes'\n", {
      type: "application/yaml",
    }),
    get(`${MAPS}/a`, { accept: "application/yaml" }),
    get(MAPS, { accept: "application/yaml" }),
    get(`${MAPS}/absent`, { accept: "application/yaml" }),
    get("/api/v1/namespaces/$ns", { accept: "application/yaml, application/json" }),
    post(MAPS, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\ndata:\n  x: yes\n", {
      type: "application/yaml",
    }),
    post(MAPS, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  x: 0777\n", {
      type: "application/yaml",
    }),
    put(`${MAPS}/a`, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: &d\n  x: |\n    text\n", {
      type: "application/yaml",
    }),
    post(MAPS, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: d, labels: {<<: {a: b}, c: d}}\n", {
      type: "application/yaml",
    }),
  ]),
  scenario("protobuf in", [
    post(MAPS, protobuf("v1", "ConfigMap", [1, named("a")], [2, message([1, "k"], [2, "v"])]), {
      type: PROTOBUF,
    }),
    put(`${MAPS}/a`, protobuf("v1", "ConfigMap", [1, named("a")]), { type: PROTOBUF }),
    post(MAPS, protobuf("v1", "Secret", [1, named("a")]), { type: PROTOBUF }),
    post(MAPS, protobuf("v2", "ConfigMap", [1, named("a")]), { type: PROTOBUF }),
    post(MAPS, protobuf("", "", [1, named("b")]), { type: PROTOBUF }),
    get(`${MAPS}/a`, { accept: "application/vnd.kubernetes.protobuf,application/json" }),
    get(`${MAPS}/a`, { accept: PROTOBUF }),
  ]),
  scenario("media types of errors", [
    get(`${MAPS}/absent`, { accept: "text/html" }),
    get(`${MAPS}/absent`, { accept: PROTOBUF }),
    get("/nothing", { accept: "application/yaml" }),
    post(MAPS, "{", { accept: "application/yaml" }),
  ]),
  scenario("older versions of kinds have their own Tables", [
    given(post("/apis/events.k8s.io/v1/namespaces/$ns/events", eventOf("e"))),
    get("/api/v1/namespaces/$ns/events?includeObject=None", { accept: TABLE }),
    get("/apis/events.k8s.io/v1/namespaces/$ns/events?includeObject=None", { accept: TABLE }),
    get("/api/v1/namespaces?labelSelector=kubernetes.io/metadata.name%3D$ns&includeObject=None", {
      accept: TABLE,
    }),
    given(post(pathOf(kindOf("Pod")), manifest(kindOf("Pod"), { name: "p" }))),
    get(`${pathOf(kindOf("Pod"))}/p`, { accept: TABLE }),
  ]),
]);

function eventOf(name: string): object {
  return {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: { name },
    eventTime: "2026-01-01T00:00:00.000000Z",
    reportingController: "example.com/c",
    reportingInstance: "i",
    action: "Act",
    reason: "Because",
    type: "Normal",
    note: "n",
    regarding: { kind: "Pod", name: "p", namespace: "$ns" },
  };
}
