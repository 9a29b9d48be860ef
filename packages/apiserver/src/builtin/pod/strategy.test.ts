import { beforeEach, describe, expect, it } from "vitest";
import type { PodSpec } from "@fairlead/kube/api/core/v1/types.ts";
import type { ApiObject } from "#values/object.ts";
import { define } from "../define.ts";
import { FakeKind } from "../strategy.fake.ts";
import { qosClassOf } from "@fairlead/kube/quota/qos.ts";
import { podStrategy as strategyOf } from "./strategy.ts";

const podStrategy = strategyOf(() => true);

const definition = define("v1", "Pod", { plural: "pods", strategy: podStrategy });
const ACCOUNT = { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "default", namespace: "n" } };

function pod(spec: object, name = "web"): ApiObject {
  const uid = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
  return { apiVersion: "v1", kind: "Pod", metadata: { name, namespace: "n", uid }, spec };
}

describe("a Pod", () => {
  let pods = new FakeKind(definition);
  beforeEach(() => {
    pods = new FakeKind(definition).provide("serviceaccounts", ACCOUNT);
  });
  const write = (spec: object): PodSpec => {
    const { object, errors } = pods.write(pod(spec));
    expect(errors).toEqual([]);
    return object["spec"] as PodSpec;
  };

  it("gets the defaults of upstream", () => {
    const probe = { httpGet: { port: 80 }, initialDelaySeconds: 3 };
    const spec = write({
      automountServiceAccountToken: false,
      containers: [{ name: "c", image: "nginx", ports: [{ containerPort: 80 }], readinessProbe: probe }],
      volumes: [{ name: "scratch" }, { name: "config", configMap: { name: "x" } }],
    });
    expect(spec).toMatchObject({
      restartPolicy: "Always",
      dnsPolicy: "ClusterFirst",
      schedulerName: "default-scheduler",
      terminationGracePeriodSeconds: 30,
      enableServiceLinks: true,
      securityContext: {},
      serviceAccountName: "default",
      serviceAccount: "default",
      priority: 0,
      preemptionPolicy: "PreemptLowerPriority",
      volumes: [
        { name: "scratch", emptyDir: {} },
        { name: "config", configMap: { name: "x", defaultMode: 420 } },
      ],
    });
    expect(spec.containers).toEqual([
      {
        name: "c",
        image: "nginx",
        imagePullPolicy: "Always",
        terminationMessagePath: "/dev/termination-log",
        terminationMessagePolicy: "File",
        resources: {},
        ports: [{ containerPort: 80, protocol: "TCP" }],
        readinessProbe: {
          httpGet: { port: 80, path: "/", scheme: "HTTP" },
          initialDelaySeconds: 3,
          timeoutSeconds: 1,
          periodSeconds: 10,
          successThreshold: 1,
          failureThreshold: 3,
        },
      },
    ]);
    expect(pods.get("n/web")?.["status"]).toEqual({ phase: "Pending", qosClass: "BestEffort" });
  });

  it.each([
    ["nginx", "Always"],
    ["nginx:latest", "Always"],
    ["nginx:1.27", "IfNotPresent"],
    ["localhost:5000/nginx", "Always"],
    ["localhost:5000/nginx:1", "IfNotPresent"],
    ["nginx@sha256:0a", "IfNotPresent"],
    ["nginx:latest@sha256:0a", "Always"],
  ])("pulls the image %s with the policy %s", (image, policy) => {
    expect(write({ containers: [{ name: "c", image }] }).containers[0]?.imagePullPolicy).toBe(policy);
  });

  it("has the token of its ServiceAccount, the CA and its namespace as files in every container", () => {
    const spec = write({
      initContainers: [{ name: "i", image: "x" }],
      containers: [{ name: "c", image: "x" }],
    });
    const [volume] = spec.volumes ?? [];
    expect(volume?.name).toMatch(/^kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
    expect(volume?.projected?.sources).toEqual([
      { serviceAccountToken: { expirationSeconds: 3607, path: "token" } },
      { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
      {
        downwardAPI: {
          items: [{ path: "namespace", fieldRef: { apiVersion: "v1", fieldPath: "metadata.namespace" } }],
        },
      },
    ]);
    const mount = {
      name: volume?.name,
      readOnly: true,
      mountPath: "/var/run/secrets/kubernetes.io/serviceaccount",
    };
    for (const it of [...(spec.initContainers ?? []), ...spec.containers])
      expect(it.volumeMounts).toEqual([mount]);
  });

  it("has no such files if it, or its ServiceAccount, disables automounting", () => {
    const containers = [{ name: "c", image: "x" }];
    expect(write({ automountServiceAccountToken: false, containers }).volumes).toBeUndefined();
    pods = new FakeKind(definition).provide("serviceaccounts", {
      ...ACCOUNT,
      automountServiceAccountToken: false,
    });
    expect(write({ containers }).volumes).toBeUndefined();
    pods = new FakeKind(definition).provide("serviceaccounts", {
      ...ACCOUNT,
      automountServiceAccountToken: false,
    });
    expect(write({ automountServiceAccountToken: true, containers }).volumes).toHaveLength(1);
  });

  it("is rejected if its ServiceAccount does not exist", () => {
    const lost = pod({ serviceAccountName: "lost", containers: [{ name: "c", image: "x" }] });
    expect(() => pods.write(lost)).toThrow(
      'pods "web" is forbidden: error looking up service account n/lost: serviceaccount "lost" not found',
    );
  });

  it("tolerates a node that is not ready for five minutes by default", () => {
    const forever = { key: "node.kubernetes.io/not-ready", operator: "Exists" };
    const spec = write({ containers: [{ name: "c", image: "x" }], tolerations: [forever] });
    expect(spec.tolerations).toEqual([
      forever,
      {
        key: "node.kubernetes.io/unreachable",
        operator: "Exists",
        effect: "NoExecute",
        tolerationSeconds: 300,
      },
    ]);
  });

  it("allows changes of its images, and of few other fields", () => {
    const spec = write({ containers: [{ name: "c", image: "x:1" }] });
    const changed = { ...spec, containers: [{ ...spec.containers[0], image: "x:2" }] };
    expect(pods.errorsOf(pod(changed))).toEqual([]);
    const [error = "", ...others] = pods.errorsOf(pod({ ...changed, hostname: "h" }));
    expect(error).toContain(
      "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`",
    );
    expect(others).toEqual([]);
  });

  it.each<[object, string]>([
    [{}, "spec.containers: Required value"],
    [{ containers: [{ name: "c" }] }, "spec.containers[0].image: Required value"],
    [{ containers: [{ name: "C", image: "x" }] }, 'spec.containers[0].name: Invalid value: "C"'],
    [
      { containers: [{ name: "c", image: "x" }], initContainers: [{ name: "c", image: "x" }] },
      'spec.initContainers[0].name: Duplicate value: "c"',
    ],
    [
      { containers: [{ name: "c", image: "x", volumeMounts: [{ name: "v", mountPath: "/v" }] }] },
      'spec.containers[0].volumeMounts[0].name: Not found: "v"',
    ],
    [
      { containers: [{ name: "c", image: "x", ports: [{ containerPort: 70_000 }] }] },
      "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
    ],
    [
      { containers: [{ name: "c", image: "x", livenessProbe: {} }] },
      "spec.containers[0].livenessProbe: Required value: must specify a handler type",
    ],
    [
      {
        containers: [{ name: "c", image: "x", resources: { requests: { cpu: "2" }, limits: { cpu: "1" } } }],
      },
      'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ],
    [
      { containers: [{ name: "c", image: "x" }], restartPolicy: "Sometimes" },
      'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
    ],
    [
      {
        containers: [{ name: "c", image: "x" }],
        volumes: [{ name: "v", emptyDir: {}, secret: { secretName: "s" } }],
      },
      "spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type",
    ],
  ])("rejects %j", (spec, error) => {
    expect(pods.errorsOf(pod(spec)).some((it) => it.startsWith(error))).toBe(true);
  });

  it.each<[object, number | undefined, number]>([
    [{ terminationGracePeriodSeconds: 30 }, undefined, 0],
    [{ nodeName: "node-1", terminationGracePeriodSeconds: 30 }, undefined, 30],
    [{ nodeName: "node-1", terminationGracePeriodSeconds: 30 }, 5, 5],
    [{ nodeName: "node-1", terminationGracePeriodSeconds: 30 }, 0, 0],
    [{ nodeName: "node-1" }, -1, 1],
  ])("with %j, deleted with a grace period of %s, gets %d s to stop", (spec, requested, seconds) => {
    expect(podStrategy.gracePeriodSeconds?.(pod(spec), requested)).toBe(seconds);
  });

  it("that has finished is deleted immediately", () => {
    const ended = { ...pod({ nodeName: "node-1" }), status: { phase: "Succeeded" } };
    expect(podStrategy.gracePeriodSeconds?.(ended, undefined)).toBe(0);
  });
});

describe("the QoS class of a pod", () => {
  const of = (...resources: readonly object[]): string =>
    qosClassOf({ containers: resources.map((it) => ({ resources: it })) });

  it("is Guaranteed if requests equal limits in every container", () => {
    expect(of({ limits: { cpu: "1", memory: "1Gi" }, requests: { cpu: "1000m", memory: "1024Mi" } })).toBe(
      "Guaranteed",
    );
    expect(of({ limits: { cpu: "1", memory: "1Gi" } })).toBe("Guaranteed");
  });
  it("is BestEffort without requests and limits", () => {
    expect(of({}, { limits: { "nvidia.com/gpu": "1" } })).toBe("BestEffort");
  });
  it("is Burstable otherwise", () => {
    expect(of({ limits: { cpu: "1", memory: "1Gi" } }, {})).toBe("Burstable");
    expect(of({ requests: { cpu: "1" } })).toBe("Burstable");
    expect(of({ limits: { cpu: "1", memory: "1Gi" }, requests: { cpu: "500m" } })).toBe("Burstable");
  });
});
