import { describe, expect, it } from "vitest";
import type { TableColumn } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { eventColumns, nodeColumns } from "./core.ts";
import { endpointSliceColumns, serviceColumns } from "./network.ts";
import { podColumns, podStatusText } from "./pod.ts";
import { deploymentColumns, jobColumns } from "./workloads.ts";

const NOW = Date.UTC(2026, 0, 1, 12);
const AGO = (minutes: number): string => new Date(NOW - minutes * 60_000).toISOString();

function object(fields: object, metadata: object = {}): ApiObject {
  return {
    apiVersion: "v1",
    kind: "X",
    metadata: { name: "a", creationTimestamp: AGO(5), ...metadata },
    ...fields,
  };
}

/** One row, by the names of its columns; those of `-o wide` too. */
function row(columns: readonly TableColumn[], of: ApiObject): Record<string, unknown> {
  return Object.fromEntries(columns.map((it) => [it.name, it.cell(of, NOW)]));
}

describe("kubectl get pods", () => {
  const container = (state: object, more: object = {}): object => ({
    name: "c",
    ready: false,
    restartCount: 0,
    state,
    ...more,
  });
  const spec = { containers: [{ name: "c" }], initContainers: [{ name: "i" }, { name: "j" }] };

  it("shows a running pod", () => {
    const running = {
      name: "c",
      ready: true,
      restartCount: 2,
      state: { running: {} },
      lastState: { terminated: { exitCode: 1, finishedAt: AGO(3) } },
    };
    const pod = object({
      spec: { ...spec, nodeName: "node-1", readinessGates: [{ conditionType: "x" }] },
      status: { phase: "Running", podIPs: [{ ip: "10.0.0.1" }], containerStatuses: [running] },
    });
    expect(row(podColumns, pod)).toEqual({
      Name: "a",
      Ready: "1/1",
      Status: "Running",
      Restarts: "2 (3m ago)",
      Age: "5m",
      IP: "10.0.0.1",
      Node: "node-1",
      "Nominated Node": "<none>",
      "Readiness Gates": "0/1",
    });
  });

  it.each<[object, string]>([
    [{ phase: "Pending" }, "Pending"],
    [{ phase: "Failed", reason: "Evicted" }, "Evicted"],
    [
      { phase: "Running", containerStatuses: [container({ waiting: { reason: "CrashLoopBackOff" } })] },
      "CrashLoopBackOff",
    ],
    [{ phase: "Failed", containerStatuses: [container({ terminated: { exitCode: 3 } })] }, "ExitCode:3"],
    [
      { phase: "Failed", containerStatuses: [container({ terminated: { exitCode: 137, signal: 9 } })] },
      "Signal:9",
    ],
    [
      {
        phase: "Succeeded",
        containerStatuses: [container({ terminated: { exitCode: 0, reason: "Completed" } })],
      },
      "Completed",
    ],
    [
      {
        phase: "Running",
        containerStatuses: [
          container({ terminated: { exitCode: 0, reason: "Completed" } }),
          container({ running: {} }, { ready: true }),
        ],
      },
      "NotReady",
    ],
    [
      {
        phase: "Pending",
        initContainerStatuses: [container({ terminated: { exitCode: 0 } }), container({ running: {} })],
      },
      "Init:1/2",
    ],
    [
      {
        phase: "Pending",
        initContainerStatuses: [container({ terminated: { exitCode: 1, reason: "Error" } })],
      },
      "Init:Error",
    ],
    [
      { phase: "Pending", initContainerStatuses: [container({ waiting: { reason: "ErrImagePull" } })] },
      "Init:ErrImagePull",
    ],
    [
      {
        phase: "Pending",
        conditions: [{ type: "PodScheduled", status: "False", reason: "SchedulingGated" }],
      },
      "SchedulingGated",
    ],
  ])("shows a pod with status %j as %s", (status, text) => {
    expect(podStatusText(object({ spec, status }))).toBe(text);
  });

  it("shows a deleted pod as Terminating, unless it has finished", () => {
    const deleted = { deletionTimestamp: AGO(0) };
    expect(podStatusText(object({ spec, status: { phase: "Running" } }, deleted))).toBe("Terminating");
    const ended = [container({ terminated: { exitCode: 0, reason: "Completed" } })];
    expect(
      podStatusText(object({ spec, status: { phase: "Succeeded", containerStatuses: ended } }, deleted)),
    ).toBe("Completed");
  });
});

describe("kubectl get", () => {
  it("shows addresses and ports of Services", () => {
    const ports = [
      { port: 80, nodePort: 30_001, protocol: "TCP" },
      { port: 53, protocol: "UDP" },
    ];
    const balanced = { type: "LoadBalancer", clusterIP: "10.96.0.9", ports, selector: { b: "2", a: "1" } };
    const ingress = [{ ip: "192.0.2.1" }, { hostname: "lb.example" }];
    expect(row(serviceColumns, object({ spec: balanced, status: { loadBalancer: { ingress } } }))).toEqual({
      Name: "a",
      Type: "LoadBalancer",
      "Cluster-IP": "10.96.0.9",
      "External-IP": "192.0.2.1,lb.example",
      "Port(s)": "80:30001/TCP,53/UDP",
      Age: "5m",
      Selector: "a=1,b=2",
    });
    expect(row(serviceColumns, object({ spec: balanced }))["External-IP"]).toBe("<pending>");
    const named = object({ spec: { type: "ExternalName", externalName: "example.com" } });
    expect(row(serviceColumns, named)).toMatchObject({
      "Cluster-IP": "<none>",
      "External-IP": "example.com",
      "Port(s)": "<none>",
    });
  });

  it("shows the first three endpoints of a slice", () => {
    const endpoints = [
      { addresses: ["10.0.0.1", "10.0.0.2"] },
      { addresses: ["10.0.0.3"] },
      { addresses: ["10.0.0.4"] },
    ];
    expect(
      row(endpointSliceColumns, object({ addressType: "IPv4", ports: [{ port: 80 }], endpoints })),
    ).toMatchObject({
      Ports: "80",
      Endpoints: "10.0.0.1,10.0.0.2,10.0.0.3 + 1 more...",
    });
  });

  it("shows the progress of a Deployment and a Job", () => {
    const template = {
      spec: {
        containers: [
          { name: "c", image: "x:1" },
          { name: "d", image: "y" },
        ],
      },
    };
    const spec = { replicas: 3, template, selector: { matchLabels: { app: "a" } } };
    expect(
      row(
        deploymentColumns,
        object({ spec, status: { readyReplicas: 2, updatedReplicas: 3, availableReplicas: 1 } }),
      ),
    ).toEqual({
      Name: "a",
      Ready: "2/3",
      "Up-to-date": 3,
      Available: 1,
      Age: "5m",
      Containers: "c,d",
      Images: "x:1,y",
      Selector: "app=a",
    });
    const job = object({ spec: { completions: 2 }, status: { succeeded: 1, startTime: AGO(4) } });
    expect(row(jobColumns, job)).toMatchObject({ Status: "Running", Completions: "1/2", Duration: "4m" });
  });

  it("shows nodes and events", () => {
    const node = object(
      {
        spec: { unschedulable: true },
        status: {
          conditions: [{ type: "Ready", status: "True" }],
          addresses: [{ type: "InternalIP", address: "10.0.0.1" }],
          nodeInfo: { kubeletVersion: "v1.36.0" },
        },
      },
      { labels: { "node-role.kubernetes.io/worker": "" } },
    );
    expect(row(nodeColumns, node)).toMatchObject({
      Status: "Ready,SchedulingDisabled",
      Roles: "worker",
      Version: "v1.36.0",
      "Internal-IP": "10.0.0.1",
      "External-IP": "<none>",
    });
    const event = object({
      involvedObject: { kind: "Pod", name: "p" },
      source: { component: "kubelet", host: "node-1" },
      lastTimestamp: AGO(2),
      count: 4,
    });
    expect(row(eventColumns, event)).toMatchObject({
      "Last Seen": "2m",
      Object: "pod/p",
      Source: "kubelet, node-1",
      Count: 4,
    });
  });
});
