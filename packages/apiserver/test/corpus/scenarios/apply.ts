import { definition, WIDGETS, widgetDefinition } from "../definitions.ts";
import { area, get, given, patch, post, put, scenario, type Step } from "../scenario.ts";

/** Server-side apply (KEP-555), strategic merge and JSON patches: results and field ownership. */

const MAPS = "/api/v1/namespaces/$ns/configmaps";
const DEPLOYMENTS = "/apis/apps/v1/namespaces/$ns/deployments";
const SERVICES = "/api/v1/namespaces/$ns/services";

interface By {
  readonly by: string;
  readonly force?: boolean;
}

function applied(path: string, body: object, { by, force = false }: By): Step {
  return patch("apply", `${path}?fieldManager=${by}&force=${force}`, body);
}

function map(data: object, more: object = {}): object {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a", ...more }, data };
}

const LABELS = { app: "web" };
function deployment(spec: object, containers: readonly object[] = [{ name: "web", image: "nginx" }]): object {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web" },
    spec: {
      selector: { matchLabels: LABELS },
      template: { metadata: { labels: LABELS }, spec: { containers } },
      ...spec,
    },
  };
}

function service(ports: readonly object[], more: object = {}): object {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web" },
    spec: { selector: LABELS, ports, ...more },
  };
}

/** Every shape that a schema can give to a list or a map. */
const TEXTS = { type: "array", items: { type: "string" } };
const TABLE = { type: "object", additionalProperties: { type: "string" } };
const PART = {
  type: "object",
  required: ["name"],
  properties: {
    name: { type: "string" },
    protocol: { type: "string", default: "TCP" },
    size: { type: "integer" },
    inner: { type: "object", properties: { a: { type: "string" }, b: { type: "string" } } },
  },
};
const SCHEMA = {
  type: "object",
  properties: {
    spec: {
      type: "object",
      properties: {
        size: { type: "integer" },
        colour: { type: "string", default: "red" },
        either: { "x-kubernetes-int-or-string": true },
        table: TABLE,
        whole: { ...TABLE, "x-kubernetes-map-type": "atomic" },
        set: { ...TEXTS, "x-kubernetes-list-type": "set" },
        list: TEXTS,
        parts: {
          type: "array",
          items: PART,
          "x-kubernetes-list-type": "map",
          "x-kubernetes-list-map-keys": ["name", "protocol"],
        },
        nested: { type: "object", properties: { a: { type: "string" }, b: { type: "string" } } },
        open: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
      },
    },
    status: { type: "object", properties: { seen: { type: "integer" }, note: { type: "string" } } },
  },
};

function thing(spec: object, more: object = {}): object {
  return { apiVersion: "$id.example.com/v1", kind: "Widget", metadata: { name: "t", ...more }, spec };
}
const THING = `${WIDGETS}/t`;
const things = definition(widgetDefinition(SCHEMA, { version: { subresources: { status: {} } } }));

export const scenarios = area("apply", [
  scenario("the first apply creates, the second of the same changes nothing", [
    applied(`${MAPS}/a`, map({ x: "1" }), { by: "one" }),
    applied(`${MAPS}/a`, map({ x: "1" }), { by: "one" }),
    applied(`${MAPS}/a`, map({ x: "1" }, { labels: LABELS }), { by: "one" }),
    get(`${MAPS}/a`),
  ]),
  scenario("fields that a manager no longer applies are removed, unless another owns them too", [
    applied(`${MAPS}/a`, map({ x: "1", y: "1", z: "1" }), { by: "one" }),
    applied(`${MAPS}/a`, map({ y: "1" }), { by: "two" }),
    applied(`${MAPS}/a`, map({ z: "1" }), { by: "one" }),
    applied(`${MAPS}/a`, map({}), { by: "one" }),
    applied(`${MAPS}/a`, map({}), { by: "two" }),
  ]),
  scenario("another value of a field of others is a conflict, by field and manager, and can be forced", [
    applied(`${MAPS}/a`, map({ x: "1", y: "1" }), { by: "one" }),
    applied(`${MAPS}/a`, map({ x: "2", y: "2" }), { by: "two" }),
    applied(`${MAPS}/a`, map({ x: "2" }), { by: "two", force: true }),
    applied(`${MAPS}/a`, map({ x: "1", y: "1" }), { by: "one" }),
    applied(`${MAPS}/a`, map({ y: "1" }), { by: "one" }),
  ]),
  scenario("any other write takes ownership of fields that it changes", [
    applied(`${MAPS}/a`, map({ x: "1", y: "1" }), { by: "one" }),
    put(`${MAPS}/a?fieldManager=two`, map({ x: "2", y: "1" })),
    patch("merge", `${MAPS}/a?fieldManager=three`, { data: { y: "3", n: "3" } }),
    applied(`${MAPS}/a`, map({ x: "1", y: "1" }), { by: "one" }),
    applied(`${MAPS}/a`, map({ x: "1", y: "1" }), { by: "one", force: true }),
    patch("json", `${MAPS}/a?fieldManager=four`, [{ op: "remove", path: "/data/n" }]),
  ]),
  scenario("the fields of an untracked object get a manager of their own", [
    given(post(`${MAPS}?fieldManager=one`, map({ x: "1" }))),
    patch("merge", `${MAPS}/a?fieldManager=one`, { metadata: { managedFields: [{}] } }),
    applied(`${MAPS}/a`, map({ x: "2" }), { by: "two" }),
    applied(`${MAPS}/a`, map({ x: "1" }), { by: "two" }),
  ]),
  scenario("a configuration must match its path, and needs a field manager", [
    patch("apply", `${MAPS}/a`, map({ x: "1" })),
    patch("apply", `${MAPS}/a?fieldManager=one`, { kind: "ConfigMap", metadata: { name: "a" } }),
    patch("apply", `${MAPS}/a?fieldManager=one`, { ...map({}), kind: "Secret" }),
    patch("apply", `${MAPS}/a?fieldManager=one`, map({}, { name: "b" })),
    patch("apply", `${MAPS}/a?fieldManager=one`, map({}, { managedFields: [] })),
    patch("apply", `${MAPS}/a?fieldManager=one`, "{"),
    patch("apply", `${MAPS}/a?fieldManager=one`, map({ x: 1 })),
    patch("apply", `${MAPS}/a?fieldManager=one`, { ...map({}), more: {} }),
    patch("apply", `${MAPS}/a?fieldManager=one&force=perhaps`, map({})),
    patch("apply", `${MAPS}/a?fieldManager=${"m".repeat(129)}`, map({})),
    patch("merge", `${MAPS}/a?fieldManager=one&force=true`, { data: {} }),
    get(`${MAPS}/a`),
  ]),
  scenario("a configuration with another resourceVersion or uid is rejected", [
    applied(`${MAPS}/a`, map({ x: "1" }), { by: "one" }),
    applied(`${MAPS}/a`, map({ x: "2" }, { resourceVersion: "1" }), { by: "one" }),
    applied(`${MAPS}/a`, map({ x: "2" }, { uid: "00000000-0000-4000-8000-000000000000" }), { by: "one" }),
    applied(`${MAPS}/b`, { ...map({}), metadata: { name: "b", resourceVersion: "1" } }, { by: "one" }),
  ]),
  scenario("a dry run returns the result, and stores nothing", [
    patch("apply", `${MAPS}/a?fieldManager=one&dryRun=All`, map({ x: "1" })),
    get(`${MAPS}/a`),
    applied(`${MAPS}/a`, map({ x: "1" }), { by: "one" }),
    patch("apply", `${MAPS}/a?fieldManager=two&dryRun=All`, map({ x: "2" })),
    patch("apply", `${MAPS}/a?fieldManager=two&dryRun=All&force=true`, map({ x: "2" })),
    get(`${MAPS}/a`),
  ]),
  scenario("lists of a Deployment merge by their keys", [
    applied(`${DEPLOYMENTS}/web`, deployment({ replicas: 2 }), { by: "one" }),
    applied(
      `${DEPLOYMENTS}/web`,
      deployment({}, [{ name: "side", image: "busybox", env: [{ name: "A", value: "1" }] }]),
      { by: "two" },
    ),
    applied(`${DEPLOYMENTS}/web`, deployment({ replicas: 3 }), { by: "two" }),
    applied(`${DEPLOYMENTS}/web`, deployment({}, [{ name: "web", image: "nginx:2" }]), { by: "one" }),
    applied(`${DEPLOYMENTS}/web`, deployment({}, [{ name: "web", image: "nginx:2" }]), { by: "two" }),
    applied(`${DEPLOYMENTS}/web`, deployment({}, [{ name: "web" }]), { by: "three" }),
  ]),
  scenario("replicas are taken through scale, and a conflict names it", [
    applied(`${DEPLOYMENTS}/web`, deployment({ replicas: 2 }), { by: "one" }),
    patch("merge", `${DEPLOYMENTS}/web/scale?fieldManager=scaler`, { spec: { replicas: 5 } }),
    applied(`${DEPLOYMENTS}/web`, deployment({ replicas: 2 }), { by: "one" }),
    applied(`${DEPLOYMENTS}/web`, deployment({}), { by: "one" }),
    get(`${DEPLOYMENTS}/web`),
  ]),
  scenario("ports of a Service are identified by number and protocol", [
    applied(`${SERVICES}/web`, service([{ name: "http", port: 80 }]), { by: "one" }),
    applied(`${SERVICES}/web`, service([{ name: "dns", port: 53, protocol: "UDP" }]), { by: "two" }),
    applied(`${SERVICES}/web`, service([{ name: "web", port: 80 }]), { by: "two" }),
    applied(
      `${SERVICES}/web`,
      service([
        { name: "p", port: 81 },
        { name: "q", port: 81 },
      ]),
      { by: "two" },
    ),
    applied(`${SERVICES}/web`, service([{ name: "dns", port: 53, protocol: "UDP" }]), { by: "one" }),
  ]),
  scenario("maps, sets and lists of a custom kind are owned according to its schema", [
    things,
    applied(
      THING,
      thing({
        table: { a: "1" },
        whole: { a: "1" },
        set: ["a"],
        list: ["a"],
        parts: [{ name: "p", size: 1 }],
      }),
      { by: "one" },
    ),
    applied(THING, thing({ table: { b: "1" }, set: ["b"], parts: [{ name: "q" }] }), { by: "two" }),
    applied(THING, thing({ whole: { b: "1" } }), { by: "two" }),
    applied(THING, thing({ list: ["b"] }), { by: "two" }),
    applied(THING, thing({ parts: [{ name: "p", size: 2 }] }), { by: "two" }),
    applied(THING, thing({ parts: [{ name: "p", protocol: "UDP", inner: { a: "1" } }] }), { by: "two" }),
    applied(THING, thing({ set: ["b", "a"], table: { a: "1" } }), { by: "one" }),
    applied(THING, thing({}), { by: "one" }),
    applied(THING, thing({}), { by: "two" }),
  ]),
  scenario("fields that are not in the schema of a custom kind, or have another type, are rejected", [
    things,
    applied(THING, thing({ shape: "round" }), { by: "one" }),
    applied(THING, thing({ size: "1" }), { by: "one" }),
    applied(THING, thing({ set: ["a", "a"] }), { by: "one" }),
    applied(THING, thing({ parts: [{ size: 1 }] }), { by: "one" }),
    applied(THING, thing({ parts: [{ name: "p" }, { name: "p", protocol: "TCP" }] }), { by: "one" }),
    applied(THING, thing({ open: { any: [{ thing: 1 }, null] }, either: "50%" }), { by: "one" }),
    post(
      WIDGETS,
      thing({ parts: [{ name: "p" }, { name: "p" }, { name: "p" }], set: ["a", "a", "a"] }, { name: "u" }),
    ),
  ]),
  scenario("removing the only applied field of a map leaves no empty map", [
    things,
    applied(THING, thing({ nested: { a: "1" }, size: 1 }), { by: "one" }),
    applied(THING, thing({ nested: {}, size: 1 }), { by: "one" }),
    applied(THING, thing({ size: 1 }), { by: "one" }),
  ]),
  scenario("the status has its own managers", [
    things,
    applied(THING, thing({ size: 1 }), { by: "one" }),
    applied(`${THING}/status`, { ...thing({}), status: { seen: 1 } }, { by: "one" }),
    applied(`${THING}/status`, { ...thing({ size: 2 }), status: { seen: 2 } }, { by: "two" }),
    applied(`${THING}/status`, { ...thing({ size: 2 }), status: { seen: 2 } }, { by: "two", force: true }),
    applied(THING, { ...thing({ size: 2 }), status: { note: "lost" } }, { by: "one" }),
    get(THING),
  ]),
  scenario("annotations raise the generation of a Deployment, labels do not", [
    given(post(DEPLOYMENTS, deployment({}))),
    patch("merge", `${DEPLOYMENTS}/web`, { metadata: { labels: { a: "1" } } }),
    patch("merge", `${DEPLOYMENTS}/web`, { metadata: { annotations: { a: "1" } } }),
  ]),
  scenario("empty maps in metadata are ignored", [
    things,
    post(WIDGETS, thing({}, { labels: {}, annotations: {}, finalizers: [] })),
    put(THING, thing({}, { labels: {}, resourceVersion: "", annotations: null })),
  ]),
  scenario("strategic merge: lists by key, directives, and what is refused", [
    given(
      post(
        DEPLOYMENTS,
        deployment({ strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1 } } }, [
          {
            name: "web",
            image: "nginx",
            args: ["a"],
            env: [
              { name: "A", value: "1" },
              { name: "B", value: "2" },
            ],
          },
          { name: "side", image: "busybox" },
        ]),
      ),
    ),
    strategic({ spec: { template: { spec: { containers: [{ name: "web", args: ["b", "c"] }] } } } }),
    strategic({ spec: { template: { spec: { containers: [{ name: "side", $patch: "delete" }] } } } }),
    strategic({
      spec: {
        template: {
          spec: {
            containers: [
              {
                name: "web",
                env: [
                  { name: "C", value: "3" },
                  { name: "A", $patch: "delete" },
                ],
              },
            ],
          },
        },
      },
    }),
    strategic({}),
    strategic({
      spec: {
        template: {
          spec: {
            "$setElementOrder/containers": [{ name: "new" }, { name: "web" }],
            containers: [{ name: "new", image: "x" }],
          },
        },
      },
    }),
    strategic({ spec: { strategy: { $retainKeys: ["type"], type: "Recreate" } } }),
    strategic({ spec: { template: { spec: { containers: [{ image: "y" }] } } } }),
    strategic({ spec: { template: { spec: { containers: [{ name: "web", $patch: "merge?" }] } } } }),
    strategic({ spec: { template: { spec: { nodeSelector: { a: "1" } } } } }),
    strategic({ spec: { template: { spec: { nodeSelector: { $patch: "replace", b: "2" } } } } }),
    strategic({ spec: { template: { spec: { nodeSelector: null } } } }),
    strategic({ metadata: { finalizers: ["x.io/a", "x.io/b"] } }),
    strategic({ metadata: { "$deleteFromPrimitiveList/finalizers": ["x.io/a"] } }),
    strategic({ metadata: { finalizers: null } }),
    strategic([]),
  ]),
  scenario("custom kinds do not support strategic merge", [
    things,
    given(post(WIDGETS, thing({}))),
    patch("strategic", THING, { spec: { size: 1 } }),
  ]),
  scenario("JSON patches: all operations, negative indices, and what is refused", [
    things,
    given(post(WIDGETS, thing({ list: ["a", "b"], table: { "x/y": "1", "x~y": "2" } }))),
    json([{ op: "add", path: "/spec/list/-", value: "c" }]),
    json([{ op: "add", path: "/spec/list/0", value: "z" }]),
    json([{ op: "remove", path: "/spec/list/-1" }]),
    json([{ op: "replace", path: "/spec/table/x~1y", value: "3" }]),
    json([{ op: "move", from: "/spec/table/x~0y", path: "/spec/table/moved" }]),
    json([{ op: "copy", from: "/spec/table/moved", path: "/spec/table/copied" }]),
    json([{ op: "test", path: "/spec/list/0", value: "z" }]),
    json([{ op: "test", path: "/spec/list/0", value: "a" }]),
    json([{ op: "replace", path: "/spec/none", value: 1 }]),
    json([{ op: "remove", path: "/spec/none" }]),
    json([{ op: "add", path: "/spec/list/9", value: "x" }]),
    json([{ op: "add", path: "/spec/none/below", value: "x" }]),
    json([{ op: "turn", path: "/spec" }]),
    json([{ op: "add", path: "spec/size", value: 1 }]),
    json([{ op: "add", value: 1 }]),
    json({ op: "add" }),
    json([]),
    json([{ op: "replace", path: "/metadata/name", value: "other" }]),
    json([{ op: "replace", path: "/kind", value: "Other" }]),
    get(THING),
  ]),
  scenario("merge patches: null removes, lists are replaced, and what is refused", [
    things,
    given(post(WIDGETS, thing({ list: ["a", "b"], table: { a: "1", b: "2" }, size: 1 }))),
    patch("merge", THING, { spec: { table: { a: null, c: "3" }, list: ["z"] } }),
    patch("merge", THING, { spec: { table: null, colour: null } }),
    patch("merge", THING, { spec: null }),
    patch("merge", THING, { spec: "text" }),
    patch("merge", THING, []),
    patch("merge", THING, "null"),
    patch("merge", THING, { metadata: { resourceVersion: "1" } }),
    patch("merge", THING, { metadata: { namespace: "other" } }),
    patch("merge", `${WIDGETS}/none`, {}),
    get(THING),
  ]),
]);

function strategic(body: unknown): Step {
  return patch("strategic", `${DEPLOYMENTS}/web`, body);
}

function json(body: unknown): Step {
  return patch("json", THING, body);
}
