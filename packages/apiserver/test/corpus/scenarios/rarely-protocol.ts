import { definition, DEFINITIONS, widgetDefinition, WIDGETS } from "../definitions.ts";
import { area, del, get, given, patch, post, scenario, send } from "../scenario.ts";

/** Requests that clients send now and then: integers, names, paths and media types that are odd. */

const CORE = "/api/v1/namespaces/$ns";
const CONFIG_MAPS = `${CORE}/configmaps`;
const PODS = `${CORE}/pods`;
const APPS = "/apis/apps/v1/namespaces/$ns";
const widgetOf = (name: string, spec: string): string =>
  `{"apiVersion":"$id.example.com/v1","kind":"Widget","metadata":{"name":"${name}"},"spec":{${spec}}}`;

export const scenarios = area("rarely", [
  scenario("values in atomic lists of a configuration", [
    patch("apply", `${CORE}/serviceaccounts/a?fieldManager=m`, {
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { name: "a" },
      imagePullSecrets: [{ name: "a", zz: "y" }],
    }),
    patch("apply", `${CORE}/serviceaccounts/a?fieldManager=m`, {
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { name: "a" },
      imagePullSecrets: [{ name: ["x"] }],
    }),
    patch("apply", `${APPS}/deployments/a?fieldManager=m`, {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "a" },
      spec: {
        selector: { matchLabels: { app: "a" } },
        template: { metadata: { labels: { app: "a" } }, spec: { containers: [{ image: "x" }] } },
      },
    }),
    patch("apply", `${APPS}/deployments/a?fieldManager=m`, {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "a" },
      spec: {
        selector: { matchLabels: { app: "a" } },
        template: {
          metadata: { labels: { app: "a" } },
          spec: { containers: [{ name: "c", image: "x", command: { a: "b" } }] },
        },
      },
    }),
  ]),
  scenario("a review of access with two kinds of field selector", [
    post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {
      spec: {
        user: "u",
        resourceAttributes: {
          verb: "list",
          resource: "pods",
          fieldSelector: {
            rawSelector: "metadata.name=a",
            requirements: [{ key: "metadata.name", operator: "In", values: ["a"] }],
          },
        },
      },
    }),
  ]),
  scenario("ReplicationControllers are selected by their replicas", [
    get(`${CORE}/replicationcontrollers?fieldSelector=status.replicas%3D1`, {
      view: (body) => (body as { kind: string }).kind,
    }),
  ]),
  scenario("integers that a double cannot hold", [
    ...definition(
      widgetDefinition({
        type: "object",
        properties: {
          spec: {
            type: "object",
            properties: {
              n: { type: "integer", minimum: -9_223_372_036_854_775_000 },
              s: { type: "array", items: { type: "integer" }, "x-kubernetes-list-type": "set" },
            },
            "x-kubernetes-validations": [{ rule: "!has(self.n) || self.n != 9007199254740995" }],
            "x-kubernetes-preserve-unknown-fields": true,
          },
        },
      }),
    ),
    ...["9007199254740993", "9223372036854775807", "9007199254740995"].map((n, at) =>
      post(WIDGETS, widgetOf(`w${at}`, `"n":${n},"s":[${n}],"more":[-${n}]`), { type: "application/json" }),
    ),
    post(WIDGETS, widgetOf("w3", '"n":9223372036854775808'), {
      type: "application/json",
      view: (body) => (body as { status?: unknown }).status,
    }),
    get(`${WIDGETS}/w0`),
    ...[
      ["merge-patch+json", '{"spec":{"n":9007199254740997}}'],
      ["json-patch+json", '[{"op":"test","path":"/spec/n","value":9007199254740997}]'],
      ["json-patch+json", '[{"op":"replace","path":"/spec/n","value":-9007199254740993}]'],
    ].map(([type, body]) =>
      send("PATCH", `${WIDGETS}/w0`, {
        body: body ?? "",
        headers: { "Content-Type": `application/${type}` },
      }),
    ),
    send("PATCH", `${WIDGETS}/w0?fieldManager=m&force=true`, {
      body: widgetOf("w0", '"n":9007199254740999,"s":[9007199254740997]'),
      type: "application/apply-patch+yaml",
    }),
  ]),
  scenario("texts of refusals of custom objects", [
    ...definition(
      widgetDefinition(
        {
          type: "object",
          properties: {
            spec: { type: "object", properties: { e: { type: "string", enum: ["z", "a"] } } },
            status: { type: "object", properties: { phase: { type: "string" } } },
          },
        },
        { version: { subresources: { status: {} } } },
      ),
    ),
    post(WIDGETS, {
      apiVersion: "$id.example.com/v1",
      kind: "Widget",
      metadata: { name: "w" },
      spec: { e: "b" },
    }),
    given(post(WIDGETS, { apiVersion: "$id.example.com/v1", kind: "Widget", metadata: { name: "w" } })),
    patch("merge", `${WIDGETS}/w/status`, { status: { phase: 5 } }),
  ]),
  scenario("transport: unusual methods, byte order marks and paths", [
    post(CONFIG_MAPS, `\uFEFF{"metadata":{"name":"a"}}`, { type: "application/json" }),
    get("//api//v1", { view: (body) => (body as { kind?: string }).kind ?? body }),
    get(`${PODS}/none/exec?command=x`),
    get(CONFIG_MAPS, { accept: "application/*", view: (body) => (body as { kind?: string }).kind ?? body }),
    get(`${CONFIG_MAPS}/..`),
    get(`${CONFIG_MAPS}/.`),
    get("/apis/rbac.authorization.k8s.io/v1/clusterroles/view", {
      view: (body) => (body as { metadata: { annotations: unknown } }).metadata.annotations,
    }),
  ]),
  scenario("OpenAPI of a definition", [
    ...definition(
      widgetDefinition(
        {
          type: "object",
          properties: {
            spec: {
              type: "object",
              properties: {
                color: { type: "string" },
                object: {
                  type: "object",
                  "x-kubernetes-embedded-resource": true,
                  "x-kubernetes-preserve-unknown-fields": true,
                },
              },
            },
          },
        },
        {
          version: {
            subresources: {
              status: {},
              scale: { specReplicasPath: ".spec.r", statusReplicasPath: ".status.r" },
            },
            selectableFields: [{ jsonPath: ".spec.color" }],
          },
        },
      ),
    ),
    get("/apis/$id.example.com/v1", {
      view: (body) => (body as { resources: readonly { name: string }[] }).resources.map((it) => it.name),
    }),
    get("/openapi/v3/apis/$id.example.com/v1", {
      until: (body) => JSON.stringify(body).includes("Widget"),
      view: (body) => {
        const { components } = body as { components: { schemas: Record<string, unknown> } };
        return Object.entries(components.schemas).find(([name]) => name.endsWith(".Widget"))?.[1];
      },
    }),
    given(del(`${DEFINITIONS}/widgets.$id.example.com`)),
  ]),
  scenario("conflicts of several levels, and what kubectl applied last", [
    given(
      post(`${APPS}/deployments`, {
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata: { name: "a", annotations: { "kubectl.kubernetes.io/last-applied-configuration": "{}\n" } },
        spec: {
          replicas: 1,
          selector: { matchLabels: { app: "a" } },
          template: {
            metadata: { labels: { app: "a" } },
            spec: { containers: [{ name: "c", image: "x" }], terminationGracePeriodSeconds: 5 },
          },
        },
      }),
    ),
    ...[false, true].map((force) =>
      patch("apply", `${APPS}/deployments/a?fieldManager=kubectl&force=${force}`, {
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata: { name: "a" },
        spec: {
          replicas: 2,
          minReadySeconds: 3,
          template: {
            spec: { containers: [{ name: "c", image: "y" }], terminationGracePeriodSeconds: 6 },
          },
        },
      }),
    ),
  ]),
]);
