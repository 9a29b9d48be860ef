import { describe, expect, it } from "vitest";
import { decodeBuiltin } from "./builtin-decode.ts";
import { builtinSchema } from "./definitions.ts";
import type { Schema } from "./types.ts";

function decoded(group: string, version: string, kind: string, object: object): Record<string, unknown> {
  return decodeBuiltin(object, { version, kind, schema: builtinSchema(group, version, kind) as Schema })
    .object;
}

function pod(spec: object): Record<string, unknown> {
  return decoded("", "v1", "Pod", { spec })["spec"] as Record<string, unknown>;
}

function refusal(
  group: string,
  version: string,
  kind: string,
  object: unknown,
): { code: number; message: string } {
  try {
    decodeBuiltin(object, { version, kind, schema: builtinSchema(group, version, kind) as Schema });
  } catch (error) {
    return { code: (error as { code: number }).code, message: (error as Error).message };
  }
  return { code: 0, message: "" };
}

describe("the JSON of a built-in kind", () => {
  it("loses nulls and the zero values that Go omits", () => {
    const object = {
      metadata: { name: "p", creationTimestamp: null, labels: {}, finalizers: [] },
      spec: {
        hostNetwork: false,
        nodeName: "",
        containers: [{ name: "c", ports: [{ containerPort: 80, hostPort: 0 }] }],
      },
      status: {},
    };
    expect(decoded("", "v1", "Pod", object)).toEqual({
      metadata: { name: "p" },
      spec: { containers: [{ name: "c", ports: [{ containerPort: 80 }] }] },
      status: {},
    });
  });
  it("keeps the zeros of pointers and of fields that are always written, and empty structs", () => {
    expect(decoded("apps", "v1", "Deployment", { spec: { replicas: 0, paused: false } })).toEqual({
      spec: { replicas: 0 },
    });
    expect(decoded("rbac.authorization.k8s.io", "v1", "ClusterRole", { rules: [] })).toEqual({ rules: [] });
    expect(pod({ volumes: [{ name: "v", emptyDir: {} }], securityContext: {} })).toEqual({
      volumes: [{ name: "v", emptyDir: {} }],
      securityContext: {},
    });
  });
  it("gets quantities and times in canonical form", () => {
    const resources = { limits: { cpu: 1, memory: "1024Mi" }, requests: { cpu: "0.5", memory: "1e3" } };
    expect(pod({ containers: [{ name: "c", resources }] })).toEqual({
      containers: [
        {
          name: "c",
          resources: { limits: { cpu: "1", memory: "1Gi" }, requests: { cpu: "500m", memory: "1e3" } },
        },
      ],
    });
    const spec = { renewTime: "2026-01-01T01:00:00.500000+01:00" };
    expect(decoded("coordination.k8s.io", "v1", "Lease", { spec })).toEqual({
      spec: { renewTime: "2026-01-01T00:00:00.500000Z" },
    });
  });
  it("reports unknown fields with their paths, and drops them", () => {
    const { object, unknown } = decodeBuiltin(
      { spec: { containers: [{ name: "c", imagee: "x" }], foo: 1 }, bar: {} },
      { version: "v1", kind: "Pod", schema: builtinSchema("", "v1", "Pod") as Schema },
    );
    expect(unknown).toEqual(["spec.containers[0].imagee", "spec.foo", "bar"]);
    expect(object).toEqual({ spec: { containers: [{ name: "c" }] } });
  });
  it("keeps values below an open field, and decodes schemas where a boolean is also allowed", () => {
    const schema = {
      type: "object",
      properties: {
        a: { default: { b: null, c: 0 }, enum: [null, 0], items: { nullable: false, type: "string" } },
      },
      additionalProperties: true,
    };
    const spec = { versions: [{ name: "v1", schema: { openAPIV3Schema: schema } }] };
    expect(decoded("apiextensions.k8s.io", "v1", "CustomResourceDefinition", { spec })).toEqual({
      spec: {
        versions: [
          {
            name: "v1",
            schema: {
              openAPIV3Schema: {
                type: "object",
                properties: { a: { default: { b: null, c: 0 }, enum: [null, 0], items: { type: "string" } } },
                additionalProperties: true,
              },
            },
          },
        ],
      },
    });
  });
  it.each(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.1234567Z"])(
    "takes a MicroTime with six digits alone, and not %s",
    (renewTime) => {
      expect(() => decoded("coordination.k8s.io", "v1", "Lease", { spec: { renewTime } })).toThrow(
        "parsing time",
      );
    },
  );
  it("does not change when it is decoded again", () => {
    const object = {
      metadata: { name: "s" },
      spec: { ports: [{ port: 80, targetPort: "web", nodePort: 0 }], selector: {} },
    };
    const once = decoded("", "v1", "Service", object);
    expect(decoded("", "v1", "Service", once)).toEqual(once);
  });
});

describe("a value of another type", () => {
  const because = (why: string): string =>
    `Deployment in version "v1" cannot be handled as a Deployment: ${why}`;

  it.each([
    [
      { spec: { replicas: "3" } },
      "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    ],
    [
      { spec: { replicas: 1.5 } },
      "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
    ],
    [
      { spec: { template: { spec: { containers: {} } } } },
      "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
    ],
    [
      { spec: { template: { spec: { containers: [{ image: 5 }] } } } },
      "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.image of type string",
    ],
    [
      { metadata: { labels: { a: true } } },
      "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
    ],
    [
      { spec: [] },
      "json: cannot unmarshal array into Go struct field Deployment.spec of type v1.DeploymentSpec",
    ],
  ])("is rejected in the words of Go's decoder: %j", (object, why) => {
    expect(refusal("apps", "v1", "Deployment", object)).toEqual({ code: 400, message: because(why) });
  });
  it.each([
    ["Secret", { data: { a: "not base64!" } }, "illegal base64 data"],
    ["Pod", { spec: { containers: [{ resources: { limits: { cpu: "much" } } }] } }, "quantities must match"],
    ["Pod", { metadata: { deletionTimestamp: "2026-02-30T00:00:00Z" } }, ": day out of range"],
    ["Pod", { metadata: { deletionTimestamp: "2026-13-03T00:00:00Z" } }, ": month out of range"],
    ["Pod", { metadata: { deletionTimestamp: "yesterday" } }, 'cannot parse "yesterday" as "2006"'],
    ["Pod", { metadata: { deletionTimestamp: "2026-02-03 x" } }, 'cannot parse " x" as "T"'],
    ["Pod", { metadata: { deletionTimestamp: "2026-02-03T01:02:03.5Zx" } }, 'extra text: "x"'],
    ["Service", { spec: { ports: [{ targetPort: 1.5 }] } }, "of type int32"],
  ])("is rejected if it is not a %s: %j", (kind, object, why) => {
    expect(refusal("", "v1", kind, object).message).toContain(why);
  });
});
