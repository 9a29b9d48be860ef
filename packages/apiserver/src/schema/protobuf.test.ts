import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeProtobuf } from "./protobuf.ts";
import { delimited, encodeEnvelope, encodeMessage, utf8, varint } from "./protobuf.encoder.ts";
import { MAP, MESSAGES, REPEATED, type MessageField } from "./protobuf-messages.ts";
import { SPECIAL_DECODERS } from "./protobuf-special.ts";

/** Bodies as kubectl 1.35.2 sent them. */
const CAPTURED = {
  deployment:
    "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50ErgBCh8KA3dlYhIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEoYBCAISDAoKCgNhcHASA3dlYhpsChwKABIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEkwSLgoFbmdpbngSBW5naW54KgAyCgoAEAAYUCIAKgBCAGoAcgCAAQCIAQCQAQCiAQAaADIAQgBKAFIAWABgAGgAggEAigEAmgEAwgEAIgIKACgAOAAaDAgAEAAYACAAKAA4ABoAIgA=",
  cronJob:
    "azhzAAoTCghiYXRjaC92MRIHQ3JvbkpvYhKZAQoRCgFjEgAaACIAKgAyADgAQgASgQEKCSogKiAqICogKhoAKnIKEQoBYxIAGgAiACoAMgA4AEIAEl0yWwoQCgASABoAIgAqADIAOABCABJHEiAKAWMSB2J1c3lib3gqAEIAagByAIABAIgBAJABAKIBABoJT25GYWlsdXJlMgBCAEoAUgBYAGAAaACCAQCKAQCaAQDCAQAaABoAIgA=",
  service:
    "azhzAAoNCgJ2MRIHU2VydmljZRJmChsKAXMSABoAIgAqADIAOABCAFoICgNhcHASAXMSQwoeCgc4MC1odHRwEgNUQ1AYUCIKCAEQABoEaHR0cCgAEggKA2FwcBIBcxoAIglDbHVzdGVySVA6AEIAUgBaAGAAaAAaAgoAGgAiAA==",
  budget:
    "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSNgoRCgFwEgAaACIAKgAyADgAQgASFQoJCAEQABoDNTAlEggKBgoBYRIBYhoKCAAYACAAKAAwABoAIgA=",
  quota:
    "azhzAAoTCgJ2MRINUmVzb3VyY2VRdW90YRIwChEKAXESABoAIgAqADIAOABCABIZCgoKA2NwdRIDCgExCgsKBHBvZHMSAwoBMxoAGgAiAA==",
};

function decodeCaptured(body: string): unknown {
  return decodeProtobuf(Buffer.from(body, "base64"));
}

const META = "io.k8s.apimachinery.pkg.apis.meta.v1";

describe("a body that kubectl sent", () => {
  it("decodes to the Deployment's JSON form, without the zero values that Go writes", () => {
    expect(decodeCaptured(CAPTURED.deployment)).toEqual({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "web", labels: { app: "web" } },
      spec: {
        replicas: 2,
        selector: { matchLabels: { app: "web" } },
        template: {
          metadata: { labels: { app: "web" } },
          spec: { containers: [{ name: "nginx", image: "nginx", ports: [{ containerPort: 80 }] }] },
        },
      },
    });
  });
  it("decodes an int-or-string as text and as a number", () => {
    expect(decodeCaptured(CAPTURED.service)).toMatchObject({
      spec: {
        ports: [{ name: "80-http", protocol: "TCP", port: 80, targetPort: "http" }],
        type: "ClusterIP",
      },
    });
  });
  it("keeps the zeros of fields that JSON always writes", () => {
    expect(decodeCaptured(CAPTURED.budget)).toMatchObject({
      spec: { minAvailable: "50%" },
      status: { disruptionsAllowed: 0, expectedPods: 0 },
    });
  });
  it("decodes maps of quantities", () => {
    expect(decodeCaptured(CAPTURED.quota)).toMatchObject({ spec: { hard: { cpu: "1", pods: "3" } } });
  });
  it("with cut or flipped bytes decodes to an object or fails with a Status 400", () => {
    const bytes = Buffer.from(CAPTURED.cronJob, "base64");
    fc.assert(
      fc.property(fc.nat(bytes.length), fc.nat(bytes.length - 1), fc.nat(255), (end, at, value) => {
        const broken = Uint8Array.from(bytes.subarray(0, end));
        broken[at % Math.max(end, 1)] = value;
        try {
          expect(decodeProtobuf(broken)).toBeTypeOf("object");
        } catch (error) {
          expect(error).toMatchObject({ status: { code: 400, reason: "BadRequest" } });
        }
      }),
      { numRuns: 2000 },
    );
  });
});

describe("special messages", () => {
  const decodeLease = (spec: number[]): Record<string, unknown> =>
    decodeProtobuf(encodeEnvelope("coordination.k8s.io/v1", "Lease", Uint8Array.from(delimited(2, spec))))[
      "spec"
    ] as Record<string, unknown>;

  it("write a MicroTime with six digits", () => {
    const time = [8, ...varint(1_700_000_000n), 16, ...varint(120_000_999n)];
    expect(decodeLease(delimited(4, time))).toEqual({ renewTime: "2023-11-14T22:13:20.120000Z" });
  });
  it("decode zero behind a pointer as a value", () => {
    expect(decodeLease([16, 0])).toEqual({ leaseDurationSeconds: 0 });
  });
  it("decode a boolean in place of a schema, and JSON inside a schema", () => {
    const name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    const body = [
      ...delimited(5, utf8("object")),
      ...delimited(30, [8, 1]),
      ...delimited(8, delimited(1, utf8('{"a":0}'))),
    ];
    const version = delimited(4, delimited(1, body));
    const crd = encodeEnvelope(
      "apiextensions.k8s.io/v1",
      "CustomResourceDefinition",
      Uint8Array.from(delimited(2, delimited(7, version))),
    );
    expect(MESSAGES.has(name)).toBe(true);
    expect(decodeProtobuf(crd)).toMatchObject({
      spec: {
        versions: [
          { schema: { openAPIV3Schema: { type: "object", additionalProperties: true, default: { a: 0 } } } },
        ],
      },
    });
  });
  it("accept DeleteOptions under any group version", () => {
    const body = encodeMessage(`${META}.DeleteOptions`, {
      propagationPolicy: "Background",
      gracePeriodSeconds: 0,
    });
    expect(decodeProtobuf(encodeEnvelope("apps/v1", "DeleteOptions", Uint8Array.from(body)))).toEqual({
      apiVersion: "apps/v1",
      kind: "DeleteOptions",
      propagationPolicy: "Background",
      gracePeriodSeconds: 0,
    });
  });
});

describe("hostile input", () => {
  it("is rejected if messages nest too deeply", () => {
    let body: number[] = [];
    for (let depth = 0; depth < 300; depth++) body = delimited(28, body);
    const crd = delimited(2, delimited(7, delimited(4, delimited(1, body))));
    const bytes = encodeEnvelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", Uint8Array.from(crd));
    expect(() => decodeProtobuf(bytes)).toThrow(/nested deeper/);
  });
  it("is rejected if a map key is __proto__", () => {
    const body = Uint8Array.from(delimited(2, delimited(1, utf8("__proto__"))));
    expect(() => decodeProtobuf(encodeEnvelope("v1", "ConfigMap", body))).toThrow(/__proto__/);
  });
  it("is rejected if an integer would be rounded", () => {
    const body = Uint8Array.from(delimited(1, [56, ...varint(2n ** 53n + 1n)]));
    expect(() => decodeProtobuf(encodeEnvelope("v1", "ConfigMap", body))).toThrow(/would be rounded/);
  });
  it("is rejected for unknown kinds", () => {
    expect(() => decodeProtobuf(encodeEnvelope("v1", "Gadget", new Uint8Array()))).toThrow(
      'no kind "Gadget" is registered for version "v1"',
    );
  });
});

/** Values of a field that JSON would hold: no zeros where zeros are left out. */
function arbitraryOf(field: MessageField, depth: number): fc.Arbitrary<unknown> {
  const one = scalar(field.type) ?? arbitraryMessage(field.type, depth - 1);
  if ((field.bits & MAP) !== 0)
    return fc.dictionary(fc.stringMatching(/^[a-z]{1,4}$/), one, {
      minKeys: 1,
      maxKeys: 2,
      noNullPrototype: true,
    });
  if ((field.bits & REPEATED) !== 0) return fc.array(one, { minLength: 1, maxLength: 2 });
  return one;
}

function scalar(type: string): fc.Arbitrary<unknown> | undefined {
  switch (type) {
    case "string":
      return fc.string({ minLength: 1, maxLength: 8, unit: "grapheme" });
    case "bytes":
      return fc.uint8Array({ minLength: 1, maxLength: 6 }).map((it) => Buffer.from(it).toString("base64"));
    case "bool":
      return fc.constant(true);
    case "int32":
      return fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }).filter((it) => it !== 0);
    case "int64":
      return fc.maxSafeInteger().filter((it) => it !== 0);
    case "double":
      return fc.double({ noNaN: true, noDefaultInfinity: true }).filter((it) => it !== 0);
    default:
      return undefined;
  }
}

function arbitraryMessage(name: string, depth: number): fc.Arbitrary<Record<string, unknown>> {
  const record: Record<string, fc.Arbitrary<unknown>> = {};
  for (const field of MESSAGES.get(name)?.values() ?? []) {
    const isScalar = scalar(field.type) !== undefined;
    const isUsable = field.json !== "" && !SPECIAL_DECODERS.has(field.type) && (isScalar || depth > 0);
    if (isUsable) record[field.json] = arbitraryOf(field, depth);
  }
  return fc.record(record, { requiredKeys: [], noNullPrototype: true });
}

/** Drops empty messages, which stand for absence unless the field is a pointer; the test leaves that case out. */
function withoutEmpty(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutEmpty);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, item]) => [key, withoutEmpty(item)] as const);
  return Object.fromEntries(
    entries.filter(([, it]) => typeof it !== "object" || Object.keys(it as object).length > 0),
  );
}

describe("any object of a kind in the tables", () => {
  it.each([
    ["v1", "Service", "io.k8s.api.core.v1.Service"],
    ["v1", "Pod", "io.k8s.api.core.v1.Pod"],
    ["apps/v1", "Deployment", "io.k8s.api.apps.v1.Deployment"],
    ["discovery.k8s.io/v1", "EndpointSlice", "io.k8s.api.discovery.v1.EndpointSlice"],
  ])("decodes to what was encoded: %s %s", (apiVersion, kind, name) => {
    fc.assert(
      fc.property(arbitraryMessage(name, 3), (object) => {
        const bytes = encodeEnvelope(apiVersion, kind, Uint8Array.from(encodeMessage(name, object)));
        expect(withoutEmpty(decodeProtobuf(bytes))).toEqual(withoutEmpty({ apiVersion, kind, ...object }));
      }),
      { numRuns: 60 },
    );
  });
});
