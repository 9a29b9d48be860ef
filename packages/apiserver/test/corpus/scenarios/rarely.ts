import { deployment, dry, pod, specOf, container } from "../odd-pods.ts";
import { area, del, get, given, patch, post, scenario } from "../scenario.ts";

/** Infrequent requests of clients: odd values of built-in kinds, and checks of things other than the object. */

const CORE = "/api/v1/namespaces/$ns";
const CONFIG_MAPS = `${CORE}/configmaps`;
const PODS = `${CORE}/pods`;
const APPS = "/apis/apps/v1/namespaces/$ns";
const BATCH = "/apis/batch/v1/namespaces/$ns";

const cronJob = (schedule: string): object => ({
  metadata: { name: "c" },
  spec: {
    schedule,
    jobTemplate: { spec: { template: { spec: { containers: [container()], restartPolicy: "Never" } } } },
  },
});
export const scenarios = area("rarely", [
  scenario("a collection is deleted with preconditions", [
    given(post(CONFIG_MAPS, { metadata: { name: "a", labels: { q: "1" } } })),
    del(`${CONFIG_MAPS}?labelSelector=q%3D1`, { preconditions: { uid: "x" } }),
    get(`${CONFIG_MAPS}?labelSelector=q%3D1`, {
      view: (body) => (body as { items: readonly object[] }).items.length,
    }),
  ]),
  scenario("evictions and bindings of another name or kind", [
    given(post(`${CORE}/serviceaccounts`, { metadata: { name: "s" } })),
    given(
      post(PODS, pod("a", { serviceAccountName: "s" })),
      post(PODS, pod("b", { serviceAccountName: "s" })),
      post(PODS, pod("c", { serviceAccountName: "s" })),
    ),
    post(`${PODS}/a/eviction`, {
      apiVersion: "policy/v1",
      kind: "Eviction",
      metadata: { name: "zz", namespace: "$ns" },
    }),
    post(`${PODS}/a/eviction`, {
      apiVersion: "policy/v1beta1",
      kind: "Eviction",
      metadata: { name: "a", namespace: "$ns" },
    }),
    post(`${PODS}/b/binding`, { metadata: { name: "b" }, target: { kind: "Foo", name: "n3" } }),
    post(`${PODS}/b/binding`, { metadata: { name: "zz" }, target: { kind: "Node", name: "n3" } }),
    post(`${PODS}/c/binding`, { metadata: { name: "c" }, target: { name: "n3" } }),
  ]),
  scenario("strategic merge patches that replace what is absent, or name another kind", [
    given(post(`${APPS}/deployments`, deployment("a"))),
    patch(
      "strategic",
      `${APPS}/deployments/a?dryRun=All`,
      {
        metadata: { labels: { $patch: "replace", z: "1" } },
      },
      { view: (body) => (body as { metadata: { labels?: unknown } }).metadata.labels ?? "none" },
    ),
    patch("strategic", `${APPS}/deployments/a?dryRun=All`, { kind: "Foo" }, { view: specOf }),
    patch("strategic", `${APPS}/deployments/a?dryRun=All`, { apiVersion: "apps/v1beta1" }, { view: specOf }),
  ]),
  scenario("labels of a namespace that say what its pods may do", [
    given(post(`${CORE}/serviceaccounts`, { metadata: { name: "s" } })),
    given(post(PODS, pod("a", { serviceAccountName: "s", hostNetwork: true }))),
    patch("merge", CORE, { metadata: { labels: { "pod-security.kubernetes.io/enforce": "bogus" } } }),
    patch("merge", CORE, { metadata: { labels: { "pod-security.kubernetes.io/warn-version": "x" } } }),
    patch(
      "merge",
      `${CORE}?dryRun=All`,
      { metadata: { labels: { "pod-security.kubernetes.io/enforce": "restricted" } } },
      { view: () => "" },
    ),
  ]),
  scenario(
    "schedules of CronJobs",
    ["60 * * * *", "* * * * MOO", "5-1 * * * *", "*/0 * * * *", "* * *", "@hourly", "TZ=UTC 1 * * * *"].map(
      (it) => dry(`${BATCH}/cronjobs`, cronJob(it), { view: specOf }),
    ),
  ),
]);
