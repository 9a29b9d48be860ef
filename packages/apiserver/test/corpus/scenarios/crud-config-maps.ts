import { area, del, get, given, patch, post, put, scenario, watch } from "../scenario.ts";

const MAPS = "/api/v1/namespaces/$ns/configmaps";

export const scenarios = area("crud", [
  scenario("a ConfigMap is created, read, replaced, patched and deleted", [
    post(
      MAPS,
      { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" }, data: { x: "1" } },
      { name: "made" },
    ),
    get(`${MAPS}/a`),
    put(`${MAPS}/a`, {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "a", resourceVersion: "$made.metadata.resourceVersion", labels: { l: "1" } },
      data: { x: "2" },
    }),
    patch("merge", `${MAPS}/a`, { data: { y: "3", x: null } }),
    get(MAPS),
    del(`${MAPS}/a`),
    get(`${MAPS}/a`),
    del(`${MAPS}/a`),
  ]),
  scenario("a watch reports the changes of a ConfigMap", [
    given(post(MAPS, { metadata: { name: "a" } })),
    watch(`${MAPS}?watch=true&resourceVersion=0`, {
      events: 4,
      during: [
        patch("merge", `${MAPS}/a`, { data: { x: "1" } }),
        del(`${MAPS}/a`),
        post(MAPS, { metadata: { name: "last" } }),
      ],
    }),
  ]),
]);
