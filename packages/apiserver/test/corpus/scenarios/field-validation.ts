import { definition, widgetDefinition, WIDGETS } from "../definitions.ts";
import { area, given, patch, post, put, scenario, type Step } from "../scenario.ts";

const MAPS = "/api/v1/namespaces/$ns/configmaps";
const DEPLOYMENTS = "/apis/apps/v1/namespaces/$ns/deployments";
const LEVELS = ["Strict", "Warn", "Ignore"] as const;

const UNKNOWN = (name: string): object => ({
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name, unknownMeta: 1 },
  unknown: 1,
  spec: {
    unknownSpec: { x: 1 },
    selector: { matchLabels: { a: "b" } },
    template: {
      metadata: { labels: { a: "b" } },
      spec: { containers: [{ name: "c", image: "i", unknownContainer: [1] }], hostNetworks: true },
    },
  },
});
const doubled = (name: string): string =>
  `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"${name}","labels":{"a":"1","a":"2"}},"data":{"x":"1"},"data":{"y":"2"}}`;
const doubledYaml = (name: string): string =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ${name}\n  labels: {a: "1", a: "2"}\ndata: {x: "1"}\ndata: {y: "2"}\nunknown: 1\n`;
const everyLevel = (make: (level: string, name: string) => Step): readonly Step[] => [
  ...LEVELS.map((it) => make(`fieldValidation=${it}`, it.toLowerCase())),
  make("fieldManager=m", "unset"),
];

const WIDGET_SCHEMA = {
  type: "object",
  properties: {
    spec: {
      type: "object",
      properties: {
        size: { type: "integer" },
        parts: { type: "array", items: { type: "object", properties: { name: { type: "string" } } } },
        free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
        template: {
          type: "object",
          "x-kubernetes-embedded-resource": true,
          properties: { spec: { type: "object" } },
        },
      },
    },
  },
};
const widget = (name: string): object => ({
  apiVersion: "$id.example.com/v1",
  kind: "Widget",
  metadata: { name, unknownMeta: 1 },
  unknown: 1,
  spec: {
    size: 1,
    unknownSpec: 1,
    parts: [{ name: "a", unknownPart: 1 }],
    free: { any: 1 },
    template: { apiVersion: "v1", kind: "Pod", metadata: { name: "x", unknownMeta: 1 }, unknownTemplate: 1 },
  },
});

export const scenarios = area("field-validation", [
  scenario("unknown fields of a built-in kind", [
    everyLevel((query, name) => post(`${DEPLOYMENTS}?${query}`, UNKNOWN(name))),
    everyLevel((query) => put(`${DEPLOYMENTS}/warn?${query}`, UNKNOWN("warn"))),
    everyLevel((query) =>
      patch("merge", `${DEPLOYMENTS}/warn?${query}`, { spec: { unknownSpec: 1 }, unknown: 2 }),
    ),
    everyLevel((query) =>
      patch("strategic", `${DEPLOYMENTS}/warn?${query}`, { spec: { unknownSpec: 1 }, unknown: 2 }),
    ),
    everyLevel((query) =>
      patch("json", `${DEPLOYMENTS}/warn?${query}`, [{ op: "add", path: "/spec/unknownSpec", value: 1 }]),
    ),
  ]),
  scenario("duplicate keys in JSON", [
    everyLevel((query, name) => post(`${MAPS}?${query}`, doubled(name))),
    everyLevel((query) => put(`${MAPS}/warn?${query}`, doubled("warn"))),
    everyLevel((query) =>
      patch(
        "merge",
        `${MAPS}/warn?${query}`,
        '{"data":{"x":"1","x":"2"},"metadata":{"labels":{"b":"1","b":"1"}}}',
      ),
    ),
    everyLevel((query) =>
      patch("json", `${MAPS}/warn?${query}`, '[{"op":"add","op":"add","path":"/data/z","value":"1"}]'),
    ),
    everyLevel((query) => patch("strategic", `${MAPS}/warn?${query}`, '{"data":{"s":"1","s":"2"}}')),
  ]),
  scenario("duplicate keys in YAML", [
    everyLevel((query, name) => post(`${MAPS}?${query}`, doubledYaml(name), { type: "application/yaml" })),
    everyLevel((query, name) =>
      patch("apply", `${MAPS}/a-${name}?force=true&fieldManager=m&${query}`, doubledYaml(`a-${name}`)),
    ),
  ]),
  scenario("fields whose case differs", [
    everyLevel((query, name) =>
      post(`${MAPS}?${query}`, { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, Data: { x: "1" } }),
    ),
  ]),
  scenario("unknown fields of a custom resource", [
    definition(widgetDefinition(WIDGET_SCHEMA)),
    everyLevel((query, name) => post(`${WIDGETS}?${query}`, widget(name))),
    everyLevel((query) =>
      patch("merge", `${WIDGETS}/warn?${query}`, { spec: { unknownSpec: 2 }, unknown: 2 }),
    ),
    everyLevel((query) =>
      patch("json", `${WIDGETS}/warn?${query}`, [{ op: "add", path: "/spec/unknownSpec", value: 1 }]),
    ),
  ]),
  scenario("duplicate keys of a custom resource", [
    definition(widgetDefinition(WIDGET_SCHEMA)),
    everyLevel((query, name) =>
      post(
        `${WIDGETS}?${query}`,
        `{"apiVersion":"$id.example.com/v1","kind":"Widget","metadata":{"name":"${name}"},"spec":{"size":1,"size":2,"other":1,"other":2}}`,
      ),
    ),
    everyLevel((query, name) =>
      post(
        `${WIDGETS}?${query}`,
        `apiVersion: $id.example.com/v1\nkind: Widget\nmetadata: {name: y-${name}}\nspec: {size: 1, size: 2}\n`,
        { type: "application/yaml" },
      ),
    ),
  ]),
  scenario("unknown fields of a CustomResourceDefinition and of delete options", [
    given(),
    everyLevel((query) =>
      post(
        `/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All&${query}`,
        {
          ...widgetDefinition(),
          unknown: 1,
        },
        { view: () => "accepted" },
      ),
    ),
    post(
      "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All&fieldValidation=Strict",
      {
        ...widgetDefinition({ type: "object", unknownKeyword: 1 }),
      },
      { view: () => "accepted" },
    ),
  ]),
  scenario("many unknown fields are cut short", [
    post(`${MAPS}?fieldValidation=Strict`, {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "a" },
      ...Object.fromEntries(Array.from({ length: 120 }, (_, index) => [`unknown${index}`, 1])),
    }),
    post(MAPS, {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "a" },
      ...Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`unknown${index}`, 1])),
    }),
  ]),
]);
