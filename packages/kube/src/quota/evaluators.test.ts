import { describe, expect, it } from "vitest";
import type { CountedObject } from "./types.ts";
import { textsOf } from "./amounts.ts";
import { evaluatorOf } from "./evaluators.ts";

const NOW = Date.parse("2026-01-01T00:00:00Z");
const asks = (cpu: string): object => ({ resources: { requests: { cpu }, limits: { cpu } } });

function object(kind: string, spec: object, more: object = {}): CountedObject {
  return { apiVersion: "v1", kind, metadata: { name: "a" }, spec, ...more };
}
function used(plural: string, of: CountedObject): Readonly<Record<string, string>> {
  return textsOf(evaluatorOf({ group: "", plural }).usage(of, NOW));
}

describe("the usage of a pod", () => {
  const pod = (spec: object, status: object = {}): CountedObject => object("Pod", spec, { status });

  it("includes the allocated resources while the pod is being resized down", () => {
    const spec = { containers: [{ name: "c", ...asks("1") }] };
    const has = (cpu: string) => [{ name: "c", ...asks(cpu), allocatedResources: { cpu: "3" } }];
    expect(used("pods", pod(spec, { containerStatuses: has("2") }))).toMatchObject({
      "requests.cpu": "3",
      "limits.cpu": "2",
    });
    const larger = { containers: [{ name: "c", ...asks("5") }] };
    expect(used("pods", pod(larger, { containerStatuses: has("2") }))).toMatchObject({ "requests.cpu": "5" });
    const conditions = [{ type: "PodResizePending", status: "True", reason: "Infeasible" }];
    expect(used("pods", pod(larger, { containerStatuses: has("2"), conditions }))).toMatchObject({
      "requests.cpu": "3",
      "limits.cpu": "2",
    });
  });

  it("includes its overhead, for limits only if it has limits", () => {
    const overhead = { cpu: "250m", memory: "10Mi" };
    expect(used("pods", pod({ overhead, containers: [{ name: "c", ...asks("1") }] }))).toEqual({
      "count/pods": "1",
      pods: "1",
      cpu: "1250m",
      "requests.cpu": "1250m",
      "limits.cpu": "1250m",
      memory: "10Mi",
      "requests.memory": "10Mi",
    });
  });

  it("of a finished pod is only count/pods", () => {
    for (const phase of ["Failed", "Succeeded"])
      expect(used("pods", pod({ containers: [{ name: "c", ...asks("1") }] }, { phase }))).toEqual({
        "count/pods": "1",
      });
  });
});

describe("the usage of a claim", () => {
  const claim = (storage: string, status: object = {}): CountedObject =>
    object("PersistentVolumeClaim", { resources: { requests: { storage } } }, { status });

  it("is rounded up to whole bytes", () => {
    expect(used("persistentvolumeclaims", claim("1500m"))).toEqual({
      "count/persistentvolumeclaims": "1",
      persistentvolumeclaims: "1",
      "requests.storage": "2",
    });
  });

  it("is the allocated capacity if that is larger", () => {
    const status = { allocatedResources: { storage: "2Gi" } };
    expect(used("persistentvolumeclaims", claim("1Gi", status))["requests.storage"]).toBe("2Gi");
    expect(used("persistentvolumeclaims", claim("3Gi", status))["requests.storage"]).toBe("3Gi");
  });

  it("counts for its current and its target VolumeAttributesClass", () => {
    const { isInScope } = evaluatorOf({ group: "", plural: "persistentvolumeclaims" });
    const scope = { name: "VolumeAttributesClass", operator: "In", values: ["fast"] };
    const moving = claim("1Gi", { modifyVolumeStatus: { targetVolumeAttributesClassName: "fast" } });
    expect(isInScope(scope, moving)).toBe(true);
    expect(isInScope(scope, claim("1Gi"))).toBe(false);
    expect(isInScope({ ...scope, operator: "DoesNotExist", values: [] }, claim("1Gi"))).toBe(true);
  });
});
