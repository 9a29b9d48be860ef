import { area, del, given, patch, post, scenario, type Step } from "../scenario.ts";
import { cells } from "../tables.ts";

const PODS = "/api/v1/namespaces/$ns/pods";
/** Whatever the time is, it has not come yet, and so the age is always the same. */
const LATER = "2200-01-01T00:00:00Z";

interface PodState {
  readonly spec?: object;
  readonly status: object;
  readonly deleted?: boolean;
}

const container = (name: string, state: object, more: object = {}): object => ({
  name,
  image: "example.com/c:1",
  imageID: "",
  ready: false,
  restartCount: 0,
  state,
  ...more,
});
const waiting = (reason?: string): object => ({ waiting: reason === undefined ? {} : { reason } });
const ended = (exitCode: number, more: object = {}): object => ({ terminated: { exitCode, ...more } });
const running = { running: { startedAt: LATER } };
const restarted = (restartCount: number, more: object = {}): object => ({
  restartCount,
  lastState: { terminated: { exitCode: 1, finishedAt: LATER } },
  ...more,
});
const ready = { ready: true, started: true };
const one = (state: object, more: object = {}): object => ({
  containerStatuses: [container("c", state, more)],
});
const condition = (type: string, status: string, reason = ""): object => ({
  type,
  status,
  ...(reason === "" ? {} : { reason }),
});
const named = (name: string, more: object = {}): object => ({ name, image: "example.com/c:1", ...more });
const inits = (...names: readonly string[]): object => ({
  initContainers: names.map((it) => named(it, it.startsWith("side") ? { restartPolicy: "Always" } : {})),
});
const two = { containers: [named("c"), named("d")] };

const PLAIN: Readonly<Record<string, PodState>> = {
  "no-phase": { status: { phase: null } },
  pending: { status: { phase: "Pending" } },
  gated: {
    status: { phase: "Pending", conditions: [condition("PodScheduled", "False", "SchedulingGated")] },
  },
  evicted: { status: { phase: "Failed", reason: "Evicted" } },
  creating: { status: { phase: "Pending", ...one(waiting("ContainerCreating")) } },
  "pull-back-off": { status: { phase: "Pending", ...one(waiting("ImagePullBackOff")) } },
  "waits-for-nothing": { status: { phase: "Pending", ...one(waiting()) } },
  runs: {
    status: {
      phase: "Running",
      ...one(running, ready),
      podIPs: [{ ip: "192.0.2.1" }, { ip: "2001:db8::1" }],
    },
  },
  "is-not-ready": { status: { phase: "Running", ...one(running) } },
  "crash-loop": { status: { phase: "Running", ...one(waiting("CrashLoopBackOff"), restarted(5)) } },
  "restarted-without-time": { status: { phase: "Running", ...one(running, { ...ready, restartCount: 3 }) } },
  completed: { status: { phase: "Succeeded", ...one(ended(0, { reason: "Completed" })) } },
  error: { status: { phase: "Failed", ...one(ended(1, { reason: "Error" })) } },
  "exit-code": { status: { phase: "Failed", ...one(ended(3)) } },
  signal: { status: { phase: "Failed", ...one(ended(137, { signal: 9 })) } },
  "first-of-two-waits": {
    spec: two,
    status: {
      phase: "Running",
      containerStatuses: [
        container("c", waiting("ErrImagePull")),
        container("d", waiting("CrashLoopBackOff")),
      ],
    },
  },
  // prose: upstream (recorded)
  "completed-beside-ready": {
    spec: two,
    status: {
      phase: "Running",
      conditions: [condition("Ready", "True")],
      containerStatuses: [container("c", ended(0, { reason: "Completed" })), container("d", running, ready)],
    },
  },
  // prose: upstream (recorded)
  "completed-beside-running": {
    spec: two,
    status: {
      phase: "Running",
      conditions: [condition("Ready", "False")],
      containerStatuses: [container("c", ended(0, { reason: "Completed" })), container("d", running, ready)],
    },
  },
  // prose: upstream (recorded)
  "completed-beside-failed": {
    spec: two,
    status: {
      phase: "Failed",
      containerStatuses: [
        container("c", ended(0, { reason: "Completed" })),
        container("d", ended(2, { reason: "Error" })),
      ],
    },
  },
  "restarts-add-up": {
    spec: two,
    status: {
      phase: "Running",
      containerStatuses: [
        container("c", running, restarted(2, ready)),
        container("d", running, restarted(3, ready)),
      ],
    },
  },
  gates: {
    spec: { readinessGates: [{ conditionType: "example.com/a" }, { conditionType: "example.com/b" }] },
    status: {
      phase: "Running",
      conditions: [condition("example.com/a", "True"), condition("example.com/b", "False")],
    },
  },
  nominated: { spec: { nodeName: "" }, status: { phase: "Pending", nominatedNodeName: "n2" } },
  terminating: { deleted: true, status: { phase: "Running", ...one(running, ready) } },
  "terminating-and-done": {
    deleted: true,
    status: { phase: "Pending", ...one(ended(0, { reason: "Completed" })) },
  },
  "node-lost": { deleted: true, status: { phase: "Running", reason: "NodeLost", ...one(running, ready) } },
};

const init = (statuses: readonly object[], more: object = {}): object => ({
  phase: "Pending",
  initContainerStatuses: statuses,
  ...one(waiting("PodInitializing")),
  ...more,
});
const done = ended(0, { reason: "Completed" });

const WITH_INIT: Readonly<Record<string, PodState>> = {
  first: {
    spec: inits("i", "j"),
    status: init([container("i", running), container("j", waiting("PodInitializing"))]),
  },
  second: { spec: inits("i", "j"), status: init([container("i", done), container("j", running)]) },
  "waits-for-nothing": { spec: inits("i"), status: init([container("i", waiting())]) },
  "all-done": { spec: inits("i", "j"), status: init([container("i", done), container("j", done)]) },
  error: { spec: inits("i"), status: init([container("i", ended(1, { reason: "Error" }))]) },
  "exit-code": { spec: inits("i"), status: init([container("i", ended(4))]) },
  signal: { spec: inits("i"), status: init([container("i", ended(143, { signal: 15 }))]) },
  "crash-loop": {
    spec: inits("i", "j"),
    status: init([
      container("i", waiting("CrashLoopBackOff"), restarted(4)),
      container("j", waiting("PodInitializing")),
    ]),
  },
  "done-after-restarts": {
    spec: inits("i"),
    status: init([container("i", done, restarted(4))], { phase: "Running", ...one(running, ready) }),
  },
  "sidecar-starts": {
    spec: inits("side", "i"),
    status: init([
      container("side", running, { started: false }),
      container("i", waiting("PodInitializing")),
    ]),
  },
  "sidecar-is-ready": {
    spec: inits("side", "i"),
    status: init([container("side", running, ready), container("i", running)]),
  },
  // prose: upstream (recorded)
  "sidecar-beside-running": {
    spec: inits("side", "i"),
    status: init([container("side", running, restarted(2, ready)), container("i", done, restarted(3))], {
      phase: "Running",
      conditions: [condition("Initialized", "True"), condition("Ready", "True")],
      ...one(running, restarted(1, ready)),
    }),
  },
  "sidecar-restarts": {
    spec: inits("side"),
    status: init([container("side", waiting("CrashLoopBackOff"), restarted(2, { started: false }))], {
      phase: "Running",
      conditions: [condition("Initialized", "True")],
      ...one(running, ready),
    }),
  },
  "sidecar-failed": {
    spec: inits("side"),
    status: init([container("side", ended(1, { reason: "Error" }))], {
      phase: "Running",
      conditions: [condition("Initialized", "True")],
      ...one(running, ready),
    }),
  },
};

/** A pod of each state, on a node, so that what is deleted stays. */
function podsOf(states: Readonly<Record<string, PodState>>): readonly Step[] {
  return Object.entries(states).flatMap(([name, { spec, status, deleted = false }]) =>
    given(
      post(PODS, {
        metadata: { name },
        spec: { nodeName: "n1", containers: [named("c")], ...spec },
      }),
      patch("merge", `${PODS}/${name}/status`, { status }),
      ...(deleted ? [del(`${PODS}/${name}`)] : []),
    ),
  );
}

export const scenarios = area("tables", [
  scenario("pods by the state of their containers", [podsOf(PLAIN), cells(PODS)]),
  scenario("pods by the state of their init containers and sidecars", [podsOf(WITH_INIT), cells(PODS)]),
]);
