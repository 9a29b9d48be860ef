import { area, get, patch, post, put, scenario } from "../scenario.ts";

const EVENTS = "/api/v1/namespaces/$ns/events";
const NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/$ns/events";
const LEASES = "/apis/coordination.k8s.io/v1/namespaces/$ns/leases";

const event = (name: string, more: object = {}): object => ({
  apiVersion: "v1",
  kind: "Event",
  metadata: { name },
  involvedObject: { kind: "Pod", name: "p", namespace: "$ns", apiVersion: "v1" },
  reason: "Because",
  message: "m",
  type: "Normal",
  source: { component: "c", host: "h" },
  firstTimestamp: "2026-01-01T00:00:00Z",
  lastTimestamp: "2026-01-01T00:00:00Z",
  count: 1,
  ...more,
});
const newEvent = (name: string, more: object = {}): object => ({
  apiVersion: "events.k8s.io/v1",
  kind: "Event",
  metadata: { name },
  eventTime: "2026-01-01T00:00:00.123456Z",
  reportingController: "example.com/c",
  reportingInstance: "i",
  action: "Act",
  reason: "Because",
  type: "Normal",
  note: "n",
  regarding: { kind: "Pod", name: "p", namespace: "$ns" },
  ...more,
});
const lease = (name: string, spec: object = {}, metadata: object = {}): object => ({
  apiVersion: "coordination.k8s.io/v1",
  kind: "Lease",
  metadata: { name, ...metadata },
  spec,
});

export const scenarios = area("events-and-leases", [
  scenario("an Event is one object in both groups", [
    post(EVENTS, event("a")),
    get(`${NEW_EVENTS}/a`),
    post(NEW_EVENTS, newEvent("b")),
    get(`${EVENTS}/b`),
    patch("merge", `${EVENTS}/a`, { count: 2, lastTimestamp: "2026-01-01T00:01:00Z" }),
    patch("strategic", `${NEW_EVENTS}/b`, {
      series: { count: 2, lastObservedTime: "2026-01-01T00:01:00.000001Z" },
    }),
    get(
      `${EVENTS}?fieldSelector=involvedObject.kind%3DPod,involvedObject.name%3Dp,reason%3DBecause,type%3DNormal`,
    ),
    get(`${EVENTS}?fieldSelector=source%3Dc`),
    get(`${EVENTS}?fieldSelector=reportingComponent%3Dexample.com/c`),
    get(`${NEW_EVENTS}?fieldSelector=regarding.name%3Dp`),
    get(`${NEW_EVENTS}?fieldSelector=metadata.name%3Db`),
    get(`${EVENTS}?fieldSelector=message%3Dm`),
  ]),
  scenario("Events are checked", [
    post(EVENTS, event("a", { involvedObject: { kind: "Pod", name: "p", namespace: "other" } })),
    post(EVENTS, event("a", { involvedObject: { kind: "Node", name: "n" } })),
    post(EVENTS, event("b", { involvedObject: {} })),
    post(EVENTS, event("c", { type: "Strange", reason: "r".repeat(130), message: "m".repeat(1025) })),
    post(EVENTS, { apiVersion: "v1", kind: "Event", metadata: { name: "d" } }),
    post(NEW_EVENTS, newEvent("e", { type: "Strange" })),
    post(NEW_EVENTS, newEvent("e", { eventTime: null })),
    post(NEW_EVENTS, newEvent("e", { reportingController: "" })),
    post(
      NEW_EVENTS,
      newEvent("e", { reportingController: "a b", reportingInstance: "", action: "", reason: "" }),
    ),
    post(NEW_EVENTS, newEvent("e", { note: "n".repeat(1025) })),
    post(NEW_EVENTS, newEvent("e", { deprecatedCount: 5 })),
    post(
      NEW_EVENTS,
      newEvent("e", { series: { count: 1, lastObservedTime: "2026-01-01T00:01:00.000001Z" } }),
    ),
    post(NEW_EVENTS, newEvent("f", { eventTime: "2026-01-01T00:00:00Z" })),
    patch("merge", `${NEW_EVENTS}/f`, { note: "other" }),
    patch("merge", `${NEW_EVENTS}/f`, { series: { count: 2, lastObservedTime: "2026-01-01T00:01:00.5Z" } }),
    patch("merge", `${EVENTS}/f`, { message: "other" }),
    post("/api/v1/namespaces/default/events", event("$id", { involvedObject: { kind: "Node", name: "n" } })),
  ]),
  scenario("a Lease is taken, renewed, lost and released", [
    get(`${LEASES}/a`),
    post(
      LEASES,
      lease("a", {
        holderIdentity: "x",
        leaseDurationSeconds: 15,
        acquireTime: "2026-01-01T00:00:00.000000Z",
        renewTime: "2026-01-01T00:00:00.000001Z",
        leaseTransitions: 0,
      }),
      { name: "taken" },
    ),
    put(
      `${LEASES}/a`,
      lease(
        "a",
        {
          holderIdentity: "x",
          leaseDurationSeconds: 15,
          acquireTime: "2026-01-01T00:00:00.000000Z",
          renewTime: "2026-01-01T00:00:02.123456Z",
          leaseTransitions: 0,
        },
        { resourceVersion: "$taken.metadata.resourceVersion" },
      ),
      { name: "renewed" },
    ),
    put(
      `${LEASES}/a`,
      lease(
        "a",
        { holderIdentity: "y", leaseDurationSeconds: 15 },
        { resourceVersion: "$taken.metadata.resourceVersion" },
      ),
    ),
    put(
      `${LEASES}/a`,
      lease(
        "a",
        { holderIdentity: "", leaseDurationSeconds: 1, leaseTransitions: 0 },
        { resourceVersion: "$renewed.metadata.resourceVersion" },
      ),
    ),
    get(LEASES),
  ]),
  scenario("Leases are checked", [
    post(LEASES, lease("a", { leaseDurationSeconds: 0 })),
    post(LEASES, lease("a", { leaseDurationSeconds: -1, leaseTransitions: -1 })),
    post(LEASES, lease("a", { renewTime: "yesterday" })),
    post(LEASES, lease("b", { renewTime: "2026-01-01T00:00:00Z" })),
    post(LEASES, lease("c", { renewTime: "2026-01-01T00:00:00.1234567Z" })),
    post(LEASES, lease("d", { renewTime: "2026-01-01T01:00:00.000000+01:00" })),
    post(LEASES, lease("e", { preferredHolder: "x" })),
    post(LEASES, lease("e", { strategy: "Sometimes" })),
    post(LEASES, lease("e", { strategy: "" })),
    post(LEASES, lease("f", { strategy: "OldestEmulationVersion", preferredHolder: "x" })),
    post(LEASES, lease("g", { holderIdentity: "" })),
    post(LEASES, { metadata: { name: "h" } }),
  ]),
]);
