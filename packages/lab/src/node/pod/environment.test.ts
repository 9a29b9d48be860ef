import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Container, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { ConfigError, planEnvironment, serviceVariables } from "./environment.ts";
import { expandVariables } from "./expand.ts";

const pod: Pod = {
  metadata: { name: "p", namespace: "n", uid: "u", labels: { app: "x", "a/b": "y" } },
  spec: { nodeName: "node", containers: [] },
};

function environment(container: Partial<Container>): Map<string, string> {
  return planEnvironment({
    pod,
    container: { name: "c", ...container },
    place: { podIPs: ["10.0.0.2", "fd00::2"], hostIPs: ["192.0.2.1"] },
    sources: {
      configMap: (name) => (name === "cm" ? { metadata: { name }, data: { k: "v", l: "w" } } : undefined),
      secret: (name) =>
        name === "s"
          ? { metadata: { name }, data: { pw: Buffer.from("x y").toString("base64") } }
          : undefined,
    },
    image: { FROM_IMAGE: "1", PATH: "/image/bin" },
    services: [],
    capacity: { cpu: "2", memory: "1000Ki" },
    hostname: "p",
    home: "/root",
  });
}

describe("the environment of a container", () => {
  it("is that of the runtime and the image if the pod sets none", () => {
    expect([...environment({})]).toEqual([
      ["PATH", "/image/bin"],
      ["HOSTNAME", "p"],
      ["HOME", "/root"],
      ["FROM_IMAGE", "1"],
    ]);
  });

  it("includes whole ConfigMaps and Secrets, with a prefix; single variables override them", () => {
    const env = environment({
      envFrom: [{ configMapRef: { name: "cm" } }, { prefix: "S_", secretRef: { name: "s" } }],
      env: [{ name: "k", value: "own" }],
    });
    expect(Object.fromEntries(env)).toMatchObject({ k: "own", l: "w", S_pw: "x y" });
  });

  it.each([
    ["metadata.labels['a/b']", "y"],
    ["metadata.labels['none']", ""],
    ["spec.nodeName", "node"],
    ["status.podIPs", "10.0.0.2,fd00::2"],
    ["status.hostIP", "192.0.2.1"],
  ])("reads the field %s as %j", (fieldPath, value) => {
    expect(environment({ env: [{ name: "X", valueFrom: { fieldRef: { fieldPath } } }] }).get("X")).toBe(
      value,
    );
  });

  it("counts resources in whole units, those of the node if no limit is set", () => {
    const ref = (resource: string) => ({ name: resource, valueFrom: { resourceFieldRef: { resource } } });
    const env = environment({
      env: [ref("limits.cpu"), ref("requests.memory"), ref("limits.memory")],
      resources: { limits: { cpu: "1500m" }, requests: { memory: "2Mi" } },
    });
    expect(["limits.cpu", "requests.memory", "limits.memory"].map((it) => env.get(it))).toEqual([
      "2",
      "2097152",
      "1024000",
    ]);
  });

  it.each([
    [{ configMapKeyRef: { name: "none", key: "k" } }, 'configmap "none" not found'],
    [{ configMapKeyRef: { name: "cm", key: "none" } }, "couldn't find key none in ConfigMap n/cm"],
    [{ secretKeyRef: { name: "s", key: "none" } }, "couldn't find key none in Secret n/s"],
    [{ fieldRef: { fieldPath: "spec.nothing" } }, "a pod has no field spec.nothing"],
  ])("names the missing source of %j", (valueFrom, message) => {
    const make = () => environment({ env: [{ name: "X", valueFrom }] });
    expect(make).toThrow(ConfigError);
    expect(make).toThrow(message);
  });

  it("omits a variable whose optional source is missing", () => {
    const valueFrom = { configMapKeyRef: { name: "none", key: "k", optional: true } };
    expect(environment({ env: [{ name: "X", valueFrom }] }).has("X")).toBe(false);
  });

  it("names the API server's Service as upstream does", () => {
    const service = {
      metadata: { name: "kubernetes" },
      spec: { clusterIP: "fd00::1", ports: [{ name: "https", port: 443 }] },
    };
    expect(Object.fromEntries(serviceVariables(service))).toEqual({
      KUBERNETES_SERVICE_HOST: "fd00::1",
      KUBERNETES_SERVICE_PORT: "443",
      KUBERNETES_SERVICE_PORT_HTTPS: "443",
      KUBERNETES_PORT: "tcp://[fd00::1]:443",
      KUBERNETES_PORT_443_TCP: "tcp://[fd00::1]:443",
      KUBERNETES_PORT_443_TCP_PROTO: "tcp",
      KUBERNETES_PORT_443_TCP_PORT: "443",
      KUBERNETES_PORT_443_TCP_ADDR: "fd00::1",
    });
  });
});

describe("$(NAME) in a text", () => {
  const known = (name: string): string | undefined => (name === "A" ? "1" : undefined);
  it.each([
    ["$(A)$(A)", "11"],
    ["$$(A)", "$(A)"],
    ["$$$(A)", "$1"],
    ["$(B) $A $( $", "$(B) $A $( $"],
  ])("makes %j to %j", (text, expanded) => {
    expect(expandVariables(text, known)).toBe(expanded);
  });

  it("leaves a text without dollars alone", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        fc.pre(!text.includes("$"));
        expect(expandVariables(text, known)).toBe(text);
      }),
    );
  });
});
