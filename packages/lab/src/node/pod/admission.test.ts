import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Container, Pod, PodSpec } from "@fairlead/kube/api/core/v1/types.ts";
import { refusalOf } from "./admission.ts";
import { sandboxProblem } from "./refusals.ts";
import { podRequests } from "./requests.ts";

const asking = (name: string, cpu: string, more: Partial<Container> = {}): Container => ({
  name,
  resources: { requests: { cpu } },
  ...more,
});
const pod = (spec: Partial<PodSpec>): Pod => ({ metadata: { name: "p" }, spec: { containers: [], ...spec } });
const cpuOf = (spec: Partial<PodSpec>) => podRequests(pod(spec)).get("cpu");

describe("the requests of a pod", () => {
  it("is the sum over its containers, or what its init phase needs at its worst", () => {
    const containers = [asking("a", "500m"), asking("b", "1")];
    expect(cpuOf({ containers })).toBe(1500);
    expect(cpuOf({ containers, initContainers: [asking("i", "2")] })).toBe(2000);
    expect(cpuOf({ containers, overhead: { cpu: "100m" } })).toBe(1600);
  });

  it("counts a sidecar together with the containers that run at the same time and with later init containers", () => {
    const sidecar = asking("s", "1", { restartPolicy: "Always" });
    expect(cpuOf({ containers: [asking("a", "1")], initContainers: [sidecar] })).toBe(2000);
    const [before, after] = [
      [asking("i", "3"), sidecar],
      [sidecar, asking("i", "3")],
    ];
    expect(cpuOf({ containers: [asking("a", "1")], initContainers: before })).toBe(3000);
    expect(cpuOf({ containers: [asking("a", "1")], initContainers: after })).toBe(4000);
  });
});

describe("a node", () => {
  const node = { others: [], allocatable: { cpu: "2", memory: "1Gi", pods: "3" }, labels: { zone: "a" } };

  it("admits pods whose requests fit, and names the first resource that does not", () => {
    const millis = fc.integer({ min: 0, max: 3000 });
    fc.assert(
      fc.property(fc.array(millis, { maxLength: 2 }), millis, (used, wanted) => {
        const others = used.map((it) => pod({ containers: [asking("a", `${it}m`)] }));
        const refusal = refusalOf({ ...node, pod: pod({ containers: [asking("a", `${wanted}m`)] }), others });
        const sum = used.reduce((total, it) => total + it, 0);
        expect(refusal?.reason).toBe(wanted > 0 && wanted > 2000 - sum ? "OutOfcpu" : undefined);
      }),
    );
  });

  it("refuses what it is not for", () => {
    const others = Array.from({ length: 3 }, () => pod({}));
    expect(refusalOf({ ...node, pod: pod({}), others })).toEqual({
      reason: "OutOfpods",
      message: "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3",
    });
    expect(refusalOf({ ...node, pod: pod({ nodeSelector: { zone: "b" } }) })?.reason).toBe("NodeAffinity");
    expect(refusalOf({ ...node, pod: pod({ nodeSelector: { zone: "a" } }) })).toBeUndefined();
    const sysctls = [{ name: "kernel/msgmax", value: "1" }];
    expect(refusalOf({ ...node, pod: pod({ securityContext: { sysctls } }) })).toEqual({
      reason: "SysctlForbidden",
      message: 'Pod was rejected: forbidden sysctl: "kernel.msgmax" not allowlisted',
    });
  });

  it("makes no sandbox with what it does not have, and names all of it", () => {
    const ports = [{ containerPort: 80, hostPort: 8080 }];
    expect(sandboxProblem(pod({ hostIPC: true, containers: [{ name: "a", ports }] }))).toBe(
      "nodes of the lab have no hostIPC, no host ports: use a Service",
    );
    expect(sandboxProblem(pod({ hostNetwork: true, containers: [{ name: "a", ports }] }))).toBeUndefined();
  });
});
