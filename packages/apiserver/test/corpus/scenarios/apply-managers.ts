import { kindOf, manifest, pathOf } from "../manifests.ts";
import { area, del, get, given, patch, post, put, scenario, type Step } from "../scenario.ts";

const MAPS = "/api/v1/namespaces/$ns/configmaps";
const SERVICES = "/api/v1/namespaces/$ns/services";
const DEPLOYMENTS = pathOf(kindOf("Deployment"));

const map = (data: object | undefined, metadata: object = {}): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "a", ...metadata },
  ...(data === undefined ? {} : { data }),
});

const apply = (manager: string, config: object, more = ""): Step =>
  patch("apply", `${MAPS}/a?fieldManager=${manager}${more}`, config);

const deployment = (spec: object, metadata: object = {}): object => ({
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "a", ...metadata },
  spec,
});

const containers = (...list: readonly object[]): object => ({ template: { spec: { containers: list } } });

const applyDeployment = (manager: string, spec: object, more = ""): Step =>
  patch("apply", `${DEPLOYMENTS}/a?fieldManager=${manager}${more}`, deployment(spec));

/** Fields of which several managers are owners. */
export const scenarios = area("apply", [
  scenario("several managers share fields, and each may leave", [
    apply("one", map({ x: "1", y: "1" })),
    apply("two", map({ x: "1", z: "1" })),
    apply("three", map({ x: "1" }, { labels: { l: "1" } })),
    apply("one", map({ y: "1" })),
    apply("two", map({ z: "1" })),
    apply("three", map(undefined, { labels: { l: "1" } })),
    apply("three", map(undefined)),
    apply("two", map({})),
    apply("one", map(undefined)),
    get(`${MAPS}/a`),
  ]),
  scenario("conflicts with several managers name each of them", [
    given(apply("one", map({ x: "1", y: "1" }))),
    given(apply("two", map({ x: "1", z: "1" }))),
    given(patch("merge", `${MAPS}/a?fieldManager=three`, { data: { w: "1" } })),
    apply("four", map({ w: "2", x: "2", y: "2", z: "2" })),
    apply("four", map({ w: "2", x: "2" }), "&force=true"),
    apply("one", map({ x: "1", y: "1" })),
    apply("one", map({ y: "1" })),
    apply("one", map({ y: null })),
    apply("four", map({ w: "2" })),
    get(`${MAPS}/a`),
  ]),
  scenario("of more than ten managers that update, the oldest are merged", [
    given(post(`${MAPS}?fieldManager=m10`, map({ k10: "0" }))),
    Array.from({ length: 11 }, (_, at) =>
      patch("merge", `${MAPS}/a?fieldManager=m${at + 11}`, { data: { [`k${at + 11}`]: "1" } }),
    ),
    apply("one", map({ k10: "0", k21: "2" })),
    apply("one", map({ k10: "0", k21: "2" }), "&force=true"),
  ]),
  scenario("items of keyed lists have managers of their own", [
    given(post(`${DEPLOYMENTS}?fieldManager=maker`, manifest(kindOf("Deployment"), { name: "a" }))),
    applyDeployment("one", containers({ name: "side", image: "a:1", ports: [{ containerPort: 80 }] })),
    applyDeployment(
      "two",
      containers({
        name: "side",
        ports: [{ containerPort: 80, protocol: "UDP" }],
        env: [{ name: "X", value: "1" }],
      }),
    ),
    applyDeployment("one", containers({ name: "side", image: "a:2" })),
    applyDeployment("two", { replicas: 2 }),
    applyDeployment("two", { replicas: 2 }, "&force=true"),
    applyDeployment("one", { replicas: null, ...containers() }),
    get(`${DEPLOYMENTS}/a`),
  ]),
  scenario("ports of a Service are known by number and protocol", [
    patch("apply", `${SERVICES}/a?fieldManager=one`, {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "a" },
      spec: { clusterIP: "None", ports: [{ port: 80, name: "web" }] },
    }),
    patch("apply", `${SERVICES}/a?fieldManager=two`, {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "a" },
      spec: { ports: [{ port: 80, name: "dns", protocol: "UDP" }] },
    }),
    patch("apply", `${SERVICES}/a?fieldManager=one`, {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "a", finalizers: ["example.com/f"] },
      spec: { clusterIP: "None" },
    }),
    patch("apply", `${SERVICES}/a?fieldManager=two`, {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "a", finalizers: ["example.com/g"] },
    }),
    patch("merge", `${SERVICES}/a?fieldManager=three`, { metadata: { finalizers: null } }),
  ]),
  scenario("a configuration names another object than the path", [
    apply("one", map({ x: "1" }, { name: "b" })),
    apply("one", map({ x: "1" })),
    apply("one", map({ x: "1" }, { name: "b" })),
    apply("one", map({ x: "1" }, { namespace: "other" })),
    apply("one", map({ x: "1" }, { uid: "other" })),
    apply("one", map({ x: "1" }, { resourceVersion: "1" })),
    apply("one", map({ x: "1" }, { generateName: "a-" })),
  ]),
  scenario("an object loses its managers, and has them again", [
    given(apply("one", map({ x: "1" }))),
    put(`${MAPS}/a?fieldManager=two`, map({ x: "1", y: "1" }, { managedFields: [{}] })),
    patch("merge", `${MAPS}/a?fieldManager=two`, { data: { z: "1" } }),
    apply("one", map({ x: "1" })),
    apply("one", map({ x: "2" })),
    patch("merge", `${MAPS}/a?fieldManager=two`, { metadata: { managedFields: [] } }),
    apply("one", map({ x: "2" }), "&force=true"),
    del(`${MAPS}/a`),
  ]),
  scenario("a name in a path has a slash", [
    get(`${MAPS}/a%2Fb`),
    put(`${MAPS}/a%2Fb`, map({})),
    patch("merge", `${MAPS}/a%2Fb`, {}),
    del(`${MAPS}/a%2Fb`),
    get(`${MAPS}/%2e%2e`),
  ]),
]);
