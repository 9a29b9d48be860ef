import { definition, WIDGETS } from "../definitions.ts";
import { area, del, get, given, patch, post, scenario, watch } from "../scenario.ts";

const MAPS = "/api/v1/namespaces/$ns/configmaps";
const map = (name: string, labels: object = {}): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, labels },
});
const last = post(MAPS, map("last", { l: "1" }));
const two = given(post(MAPS, map("a"), { name: "first" }), post(MAPS, map("b"), { name: "second" }));

/** What a watch is refused for, or begins with. */
const REFUSED = [
  "sendInitialEvents=true",
  "sendInitialEvents=false",
  "resourceVersionMatch=NotOlderThan",
  "resourceVersionMatch=Exact&sendInitialEvents=true",
  "resourceVersionMatch=Exact",
  "resourceVersion=x",
  "resourceVersion=-1",
  "limit=1&continue=abc",
  "timeoutSeconds=x",
  "allowWatchBookmarks=x",
  "sendInitialEvents=x&resourceVersionMatch=NotOlderThan",
  "labelSelector=n%3D(",
  "fieldSelector=data.x%3D1",
];

export const scenarios = area("watches", [
  scenario("a watch without a revision begins with the present state", [
    two,
    watch(`${MAPS}?watch=true`, { events: 3, during: [last] }),
    watch(`${MAPS}?watch=1&resourceVersion=0`, { events: 3 }),
  ]),
  scenario("a watch from a revision reports later events", [
    two,
    watch(`${MAPS}?watch=true&resourceVersion=$first.metadata.resourceVersion`, {
      events: 5,
      during: [
        patch("merge", `${MAPS}/a`, { data: { x: "1" } }),
        del(`${MAPS}/b`),
        post(MAPS, map("b")),
        last,
      ],
    }),
  ]),
  scenario("a watch of one object", [
    two,
    watch(`${MAPS}?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Da`, {
      events: 3,
      during: [
        patch("merge", `${MAPS}/b`, { data: { x: "1" } }),
        patch("merge", `${MAPS}/a`, { data: { x: "1" } }),
        del(`${MAPS}/a`),
      ],
    }),
    watch("/api/v1/watch/namespaces/$ns/configmaps/b?resourceVersion=0", { events: 1 }),
    watch("/api/v1/watch/namespaces/$ns/configmaps?resourceVersion=0", { events: 1 }),
  ]),
  scenario("a selector turns changes into additions and deletions", [
    two,
    watch(`${MAPS}?watch=true&resourceVersion=0&labelSelector=l%3D1`, {
      events: 4,
      during: [
        patch("merge", `${MAPS}/a`, { metadata: { labels: { l: "1" } } }),
        patch("merge", `${MAPS}/a`, { data: { x: "1" } }),
        patch("merge", `${MAPS}/a`, { metadata: { labels: { l: "2" } } }),
        patch("merge", `${MAPS}/a`, { data: { x: "2" } }),
        del(`${MAPS}/a`),
        last,
      ],
    }),
  ]),
  scenario("a watch list ends the initial events with a bookmark", [
    two,
    watch(
      `${MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true`,
      {
        events: 3,
      },
    ),
    watch(
      `${MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=0&labelSelector=none`,
      { events: 1 },
    ),
    watch(
      `${MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=$first.metadata.resourceVersion`,
      { events: 3 },
    ),
  ]),
  scenario("a watch list without bookmarks", [
    two,
    watch(`${MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan`, {
      events: 3,
      during: [last],
    }),
  ]),
  scenario("a watch without initial events", [
    two,
    watch(`${MAPS}?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan`, {
      events: 1,
      during: [last],
    }),
    watch(`${MAPS}?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0`, {
      events: 1,
      during: [post(MAPS, map("more"))],
    }),
  ]),
  scenario("watches that are rejected, or begin otherwise", [
    two,
    watch(`${MAPS}?watch=x`, { events: 2 }),
    watch(`${MAPS}?watch`, { events: 2 }),
    ...REFUSED.map((query) => watch(`${MAPS}?watch=true&${query}`, { events: 1 })),
  ]),
  scenario("a watch from a future revision", [
    watch(`${MAPS}?watch=true&resourceVersion=999999999&timeoutSeconds=1`, { events: 1 }),
  ]),
  scenario("a watch ends after its timeout", [
    two,
    watch(`${MAPS}?watch=true&resourceVersion=0&timeoutSeconds=1`, { events: 3 }),
  ]),
  scenario("a watch may last for a year", [
    watch(`${MAPS}?watch=true&resourceVersion=0&timeoutSeconds=31536000`, { events: 1, during: [last] }),
  ]),
  scenario("a watch of custom resources", [
    definition(),
    watch(`${WIDGETS}?watch=true&resourceVersion=0`, {
      events: 3,
      during: [
        post(WIDGETS, {
          apiVersion: "$id.example.com/v1",
          kind: "Widget",
          metadata: { name: "a" },
          spec: { x: 1 },
        }),
        patch("merge", `${WIDGETS}/a`, { spec: { x: 2 } }),
        del(`${WIDGETS}/a`),
      ],
    }),
  ]),
  scenario("watches as Tables and of metadata only", [
    two,
    watch(`${MAPS}?watch=true&resourceVersion=0`, {
      accept: "application/json;as=Table;v=v1;g=meta.k8s.io",
      events: 3,
      during: [patch("merge", `${MAPS}/a`, { data: { x: "1" } })],
    }),
    watch(`${MAPS}?watch=true&resourceVersion=0`, {
      accept: "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
      events: 2,
    }),
    watch(
      `${MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true`,
      { accept: "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", events: 3 },
    ),
    watch(
      `${MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true`,
      { accept: "application/json;as=Table;v=v1;g=meta.k8s.io", events: 3 },
    ),
  ]),
  scenario("a watch as yaml", [
    two,
    watch(`${MAPS}?watch=true&resourceVersion=0`, { accept: "application/yaml", events: 0 }),
  ]),
  scenario("deleting the definition of a watched resource", [
    definition(),
    given(post(WIDGETS, { apiVersion: "$id.example.com/v1", kind: "Widget", metadata: { name: "a" } })),
    watch(`${WIDGETS}?watch=true&resourceVersion=0`, {
      events: 2,
      during: [del(`${WIDGETS}/a`)],
    }),
    get(WIDGETS),
  ]),
]);
