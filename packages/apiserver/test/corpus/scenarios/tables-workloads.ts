import { area, scenario } from "../scenario.ts";
import { cells, conditions, objectsOf, type State } from "../tables.ts";

const JOBS = "/apis/batch/v1/namespaces/$ns/jobs";
const CRON_JOBS = "/apis/batch/v1/namespaces/$ns/cronjobs";
const APPS = "/apis/apps/v1/namespaces/$ns";
const HPAS = "/apis/autoscaling/v2/namespaces/$ns/horizontalpodautoscalers";
const BUDGETS = "/apis/policy/v1/namespaces/$ns/poddisruptionbudgets";
const LATER = "2200-01-01T00:00:00Z";

const podSpec = (...names: readonly string[]): object => ({
  containers: names.map((name) => ({ name, image: `example.com/${name}:1` })),
});
const job = (spec: object = {}): object => ({
  spec: { template: { spec: { ...podSpec("c", "d"), restartPolicy: "Never" } }, ...spec },
});
const jobs: Readonly<Record<string, State>> = {
  new: { body: job() },
  parallel: { body: job({ parallelism: 3 }), status: { startTime: LATER, succeeded: 1 } },
  completions: { body: job({ completions: 5, parallelism: 2 }), status: { startTime: LATER, succeeded: 2 } },
  complete: {
    body: job(),
    status: {
      startTime: "2026-01-01T00:00:00Z",
      completionTime: "2026-01-01T04:05:06Z",
      succeeded: 1,
      ...conditions("SuccessCriteriaMet", "Complete"),
    },
  },
  failed: {
    body: job(),
    status: { startTime: "2026-01-01T00:00:00Z", failed: 7, ...conditions("FailureTarget", "Failed") },
  },
  failing: { body: job(), status: { startTime: LATER, ...conditions("FailureTarget") } },
  succeeding: {
    body: job(),
    status: { startTime: LATER, succeeded: 1, ...conditions("SuccessCriteriaMet") },
  },
  suspended: { body: job({ suspend: true }), status: conditions("Suspended") },
  resumed: { body: job(), status: conditions("Suspended=False") },
  deleted: { body: job(), status: { startTime: LATER }, deleted: true },
};
const cronJob = (spec: object = {}): object => ({
  spec: { schedule: "*/5 * * * *", jobTemplate: job(), ...spec },
});
const cronJobs: Readonly<Record<string, State>> = {
  new: { body: cronJob() },
  zoned: { body: cronJob({ timeZone: "Europe/Berlin", suspend: true }) },
  ran: {
    body: cronJob(),
    status: {
      lastScheduleTime: LATER,
      active: [
        { kind: "Job", name: "a" },
        { kind: "Job", name: "b" },
      ],
    },
  },
};

const workload = (more: object = {}, pods: object = podSpec("c", "d")): object => ({
  spec: {
    selector: {
      matchLabels: { b: "2", a: "1" },
      matchExpressions: [{ key: "k", operator: "In", values: ["z", "y"] }],
    },
    template: { metadata: { labels: { a: "1", b: "2", k: "y" } }, spec: pods },
    ...more,
  },
});
const rolling = {
  replicas: 3,
  readyReplicas: 2,
  updatedReplicas: 1,
  availableReplicas: 2,
  unavailableReplicas: 1,
};
const deployments: Readonly<Record<string, State>> = {
  new: { body: workload() },
  rolling: { body: workload({ replicas: 3 }), status: rolling },
  "scaled-to-none": { body: workload({ replicas: 0 }) },
  paused: { body: workload({ paused: true }), deleted: true },
};
const sets: Readonly<Record<string, State>> = {
  new: { body: workload() },
  some: { body: workload({ replicas: 3 }), status: { replicas: 3, readyReplicas: 2 } },
};
const statefulSets: Readonly<Record<string, State>> = {
  new: { body: workload({ serviceName: "s" }) },
  some: { body: workload({ serviceName: "s", replicas: 4 }), status: { replicas: 3, readyReplicas: 2 } },
};
const daemonSets: Readonly<Record<string, State>> = {
  new: { body: workload() },
  some: {
    body: workload({}, { ...podSpec("c"), nodeSelector: { "kubernetes.io/os": "linux", disk: "ssd" } }),
    status: {
      desiredNumberScheduled: 5,
      currentNumberScheduled: 4,
      numberMisscheduled: 0,
      numberReady: 3,
      updatedNumberScheduled: 2,
      numberAvailable: 1,
    },
  },
};

const resource = (name: string, target: object): object => ({ type: "Resource", resource: { name, target } });
const usage = (averageUtilization: number): object => ({ type: "Utilization", averageUtilization });
const autoscaler = (metrics?: readonly object[], more: object = {}): object => ({
  spec: {
    scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: "web" },
    maxReplicas: 9,
    ...(metrics === undefined ? {} : { metrics }),
    ...more,
  },
});
const measured = (...currentMetrics: readonly object[]): object => ({
  currentReplicas: 2,
  desiredReplicas: 3,
  currentMetrics,
});
const average = (averageValue: string): object => ({ type: "AverageValue", averageValue });
const metric = { name: "requests" };
const described = { apiVersion: "v1", kind: "Service", name: "web" };
const autoscalers: Readonly<Record<string, State>> = {
  unset: { body: autoscaler() },
  unknown: { body: autoscaler([resource("cpu", usage(80))], { minReplicas: 2 }) },
  utilization: {
    body: autoscaler([resource("cpu", usage(80))]),
    status: measured({
      type: "Resource",
      resource: { name: "cpu", current: { averageUtilization: 12, averageValue: "10m" } },
    }),
  },
  value: {
    body: autoscaler([resource("memory", average("100Mi"))]),
    status: measured({
      type: "Resource",
      resource: { name: "memory", current: { averageValue: "52428800" } },
    }),
  },
  three: {
    body: autoscaler([
      resource("cpu", usage(80)),
      resource("memory", usage(70)),
      resource("memory", average("1Gi")),
    ]),
  },
  pods: {
    body: autoscaler([{ type: "Pods", pods: { metric, target: average("100") } }]),
    status: measured({ type: "Pods", pods: { metric, current: { averageValue: "1500m" } } }),
  },
  object: {
    body: autoscaler([
      {
        type: "Object",
        object: { metric, describedObject: described, target: { type: "Value", value: "2k" } },
      },
    ]),
    status: measured({
      type: "Object",
      object: { metric, describedObject: described, current: { value: "7" } },
    }),
  },
  "object-average": {
    body: autoscaler([
      { type: "Object", object: { metric, describedObject: described, target: average("5") } },
    ]),
  },
  external: {
    body: autoscaler([{ type: "External", external: { metric, target: { type: "Value", value: "30" } } }]),
    status: measured({ type: "External", external: { metric, current: { value: "20" } } }),
  },
  "external-average": {
    body: autoscaler([{ type: "External", external: { metric, target: average("30") } }]),
    status: measured({ type: "External", external: { metric, current: { value: "0", averageValue: "11" } } }),
  },
  container: {
    body: autoscaler([
      { type: "ContainerResource", containerResource: { name: "cpu", container: "c", target: usage(60) } },
    ]),
  },
};

const budgets: Readonly<Record<string, State>> = {
  none: {},
  least: {
    body: { spec: { minAvailable: 2 } },
    status: { disruptionsAllowed: 3, currentHealthy: 5, desiredHealthy: 2, expectedPods: 5 },
  },
  percent: { body: { spec: { minAvailable: "50%" } } },
  most: { body: { spec: { maxUnavailable: 0 } } },
};

export const scenarios = area("tables", [
  scenario("Jobs and CronJobs by their progress", [
    objectsOf(JOBS, jobs),
    cells(JOBS),
    objectsOf(CRON_JOBS, cronJobs),
    cells(CRON_JOBS),
  ]),
  scenario("workloads by their counts", [
    objectsOf(`${APPS}/deployments`, deployments),
    cells(`${APPS}/deployments`),
    objectsOf(`${APPS}/replicasets`, sets),
    cells(`${APPS}/replicasets`),
    objectsOf(`${APPS}/statefulsets`, statefulSets),
    cells(`${APPS}/statefulsets`),
    objectsOf(`${APPS}/daemonsets`, daemonSets),
    cells(`${APPS}/daemonsets`),
  ]),
  scenario("autoscalers by their metrics", [objectsOf(HPAS, autoscalers), cells(HPAS)]),
  scenario("disruption budgets by allowed disruptions", [objectsOf(BUDGETS, budgets), cells(BUDGETS)]),
]);
