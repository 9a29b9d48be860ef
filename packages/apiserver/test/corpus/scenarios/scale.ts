import { kindOf, manifest, pathOf } from "../manifests.ts";
import { area, del, get, given, patch, post, put, scenario } from "../scenario.ts";

const scale = (replicas: unknown, metadata: object = {}): object => ({
  kind: "Scale",
  apiVersion: "autoscaling/v1",
  metadata: { name: "a", namespace: "$ns", ...metadata },
  spec: { replicas },
});

export const scenarios = area("scale", [
  ...["Deployment", "ReplicaSet", "StatefulSet"].map((name) => {
    const kind = kindOf(name);
    const item = `${pathOf(kind)}/a`;
    return scenario(`a ${name} is scaled`, [
      given(post(pathOf(kind), manifest(kind, { name: "a" }))),
      get(`${item}/scale`, { name: "read" }),
      put(`${item}/scale`, scale(3)),
      put(`${item}/scale`, scale(4, { resourceVersion: "$read.metadata.resourceVersion" })),
      put(`${item}/scale`, scale(-1)),
      put(`${item}/scale`, scale("x")),
      put(`${item}/scale`, { kind: "Deployment", apiVersion: "apps/v1" }),
      put(`${item}/scale`, scale(1, { name: "b" })),
      patch("merge", `${item}/scale`, { spec: { replicas: 5 } }),
      patch("strategic", `${item}/scale`, { spec: { replicas: 6 } }),
      patch("json", `${item}/scale`, [{ op: "replace", path: "/spec/replicas", value: 7 }]),
      patch("apply", `${item}/scale?fieldManager=s&force=true`, scale(8)),
      patch("merge", `${item}/scale?dryRun=All`, { spec: { replicas: 9 } }),
      patch("merge", `${item}/scale`, { metadata: { labels: { l: "1" } } }),
      del(`${item}/scale`),
      get(item),
    ]);
  }),
  scenario("a resource without replicas cannot be scaled", [
    given(post("/apis/apps/v1/namespaces/$ns/daemonsets", manifest(kindOf("DaemonSet"), { name: "a" }))),
    get("/apis/apps/v1/namespaces/$ns/daemonsets/a/scale"),
  ]),
]);
