import { describe, expect, it } from "vitest";
import { ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { fillStored } from "@fairlead/apiserver/builtin/zeroes.ts";
import { builtinSchema, splitApiVersion } from "@fairlead/apiserver/schema/definitions.ts";
import { isObject } from "@fairlead/base/json.ts";
import { exportedFacts } from "@fairlead/fleet/member/endpoints/export.ts";
import { parseResponse, readObject } from "@fairlead/kube/client/read.ts";
import { type RecordedObject, recordedObjects } from "./recorded.ts";

const OBJECTS = recordedObjects();

/** The definition of a built-in kind. */
function schemaOf({ object: { apiVersion, kind } }: RecordedObject): ReturnType<typeof builtinSchema> {
  const { group, version } = splitApiVersion(apiVersion);
  return builtinSchema(group, version, kind);
}

/** What holds for no value in it. */
function without(value: unknown, isGone: (value: unknown) => boolean): unknown {
  if (Array.isArray(value)) return value.map((it) => without(it, isGone));
  if (!isObject(value)) return value;
  const kept = Object.entries(value).filter(([, it]) => !isGone(it));
  return Object.fromEntries(kept.map(([key, it]) => [key, without(it, isGone)]));
}

const isNull = (value: unknown): boolean => value === null;

describe("objects as real components write them", () => {
  it("are those of nine components, with null lists and times among them", () => {
    const components = new Set(OBJECTS.map(({ name }) => name.slice(0, name.indexOf("/"))));
    expect(components.size).toBe(9);
    expect(
      OBJECTS.filter(({ text }) => /"(endpoints|ports|eventTime|lastProbeTime)": null/.test(text)).length,
    ).toBeGreaterThan(20);
  });

  const builtin = OBJECTS.filter((it) => schemaOf(it) !== undefined).map((it) => [it.name, it] as const);

  it.each(builtin)("%s: the embedded API server writes the same nulls and zeroes", (_, recorded) => {
    const stored = structuredClone(recorded.object) as unknown as Record<string, unknown>;
    fillStored(stored, schemaOf(recorded) ?? {});
    expect(stored).toEqual(recorded.object);
    const sent = without(recorded.object, isNull) as Record<string, unknown>;
    fillStored(sent, schemaOf(recorded) ?? {});
    expect(sent).toEqual(recorded.object);
  });

  it.each(OBJECTS.map((it) => [it.name, it] as const))("%s: is read without nulls", (_, { text, object }) => {
    expect(parseResponse(text)).toEqual(without(object, isNull));
  });

  it.each(
    OBJECTS.filter(({ object }) => object.kind === "EndpointSlice").map((it) => [it.name, it.text] as const),
  )("%s: is exported", (_, text) => {
    const slice = readObject(ENDPOINT_SLICES, parseResponse(text) as EndpointSlice);
    const facts = exportedFacts(slice);
    if (slice.addressType === "FQDN") expect(facts).toBeUndefined();
    else expect(facts?.endpoints).toHaveLength(slice.endpoints.length);
  });
});
