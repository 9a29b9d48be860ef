import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cloneJson } from "@fairlead/base/json.ts";
import { ServiceAccountTokens } from "#auth/tokens.ts";
import { generatePrivateKey } from "@fairlead/base/pki/keys.ts";
import { StatusError } from "#status.ts";
import { anyObjectOf } from "./any-object.fake.ts";
import { builtinResources } from "#catalog/builtin.ts";
import { FakeKind } from "./strategy.fake.ts";

const { resources } = builtinResources({
  serviceRanges: ["10.96.0.0/16", "fd00:96::/112"],
  serviceAccountTokens: new ServiceAccountTokens({ privateKey: generatePrivateKey() }),
  newUid: () => "id",
});

const defaulted = resources.filter((it) => it.strategy.applyDefaults !== undefined);

describe("defaults", () => {
  it.each(defaulted.map((it) => [`${it.kind} of ${it.group || "core"}`, it] as const))(
    "of %s change nothing the second time",
    (_name, definition) => {
      fc.assert(
        fc.property(anyObjectOf(definition), (object) => {
          const once = cloneJson(object);
          definition.strategy.applyDefaults?.(once);
          const twice = cloneJson(once);
          definition.strategy.applyDefaults?.(twice);
          expect(twice).toEqual(once);
        }),
        { numRuns: 60 },
      );
    },
  );

  it("and columns accept any object that the schema allows", () => {
    for (const definition of resources) {
      fc.assert(
        fc.property(anyObjectOf(definition), (object) => {
          for (const column of definition.columns) {
            const cell = column.cell(object, 0);
            expect(cell === null || ["string", "number", "boolean"].includes(typeof cell)).toBe(true);
          }
        }),
        { numRuns: 20 },
      );
    }
  });

  it("and validation accept any object that the schema allows, and any change of it, without an exception", () => {
    for (const definition of resources) {
      const object = anyObjectOf(definition);
      fc.assert(
        fc.property(object, object, fc.constantFrom("system:masters", "devs"), (first, second, group) => {
          const kind = new FakeKind(definition, { user: { name: "ada", groups: [group] } });
          kind.provide("serviceaccounts", { ...first, metadata: { name: "default", namespace: "n" } });
          for (const it of [first, second, first]) {
            try {
              kind.write(it);
            } catch (error) {
              // Refusals are answers; anything else would be a 500.
              expect(error).toBeInstanceOf(StatusError);
              expect((error as StatusError).code).toBeLessThan(500);
            }
          }
        }),
        { numRuns: 40 },
      );
    }
  });
});
