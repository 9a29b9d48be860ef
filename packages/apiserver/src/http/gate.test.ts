import type { IncomingMessage } from "node:http";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseSelection } from "#registry/selectors.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { StatusError } from "#status.ts";
import { Passage } from "./gate.ts";

const ANONYMOUS = { name: "", groups: [] };
const SECRETS = {
  isCustom: false,
  namespaced: true,
  strategy: { fieldSelectors: { type: (object: ApiObject) => String(object["type"]) } },
} as unknown as ResourceDefinition;

function passage(url: string, method = "GET"): Passage {
  return new Passage({ url, method, headers: {} } as IncomingMessage, "id");
}

function authorizedName(it: Passage): string {
  const attributes = it.attributes(ANONYMOUS);
  return "resource" in attributes ? attributes.resource.name : "";
}

const NAMES = ["mine", "admins", "a,b", String.raw`a\b`, "a=b", " mine", ""];

const NOISE = ["=", "==", "!=", ",", "\\", String.raw`\,`, String.raw`\=`, String.raw`\\`, " ", "type"];
const term = fc
  .tuple(
    fc.constantFrom("metadata.name", "metadata.name", "metadata.namespace", "type", ""),
    fc.constantFrom("=", "=", "==", "!="),
    fc.constantFrom("mine", "admins", ...NAMES.map((it) => it.replaceAll(/[\\,=]/g, "\\$&"))),
    fc.constantFrom(",", ",", ",", ...NOISE),
  )
  .map((it) => it.join(""));
/** Text made of fragments of selectors, often malformed. */
const selector = fc
  .array(fc.oneof({ weight: 4, arbitrary: term }, fc.constantFrom(...NOISE, ...NAMES)), { maxLength: 4 })
  .map((it) => it.join(""));

describe("a list with a field selector for one name", () => {
  it("is authorized with the name that the selector requires", () => {
    let authorized = 0;
    fc.assert(
      fc.property(selector, fc.constantFrom("", "&watch=1"), (fields, more) => {
        const url = `/api/v1/namespaces/a/secrets?fieldSelector=${encodeURIComponent(fields)}${more}`;
        const asked = passage(url);
        const name = authorizedName(asked);
        let selection: ReturnType<typeof parseSelection>;
        try {
          selection = parseSelection(SECRETS, "", asked.fields);
        } catch (error) {
          expect(error).toBeInstanceOf(StatusError);
          return;
        }
        if (name === "") return;
        authorized += 1;
        expect(selection.name).toBe(name);
      }),
      { numRuns: 3000, seed: 1 },
    );
    // Otherwise the property would say nothing.
    expect(authorized).toBeGreaterThan(100);
  });

  it.each([
    ["metadata.name=mine", "mine"],
    ["metadata.name==mine,type=t", "mine"],
    ["metadata.name=mine,metadata.name=admins", "admins"],
    [String.raw`metadata.name=a\,b`, "a,b"],
    [String.raw`metadata.namespace!=x\,metadata.name=mine`, ""],
    [String.raw`metadata.name!=x\,metadata.name=mine`, ""],
    ["metadata.name!=mine", ""],
    ["metadata.name=a/b", ""],
    ["metadata.name", ""],
    [" metadata.name=mine", ""],
  ])("%s is authorized as %j", (fields, name) => {
    const query = `fieldSelector=${encodeURIComponent(fields)}`;
    expect(authorizedName(passage(`/api/v1/namespaces/a/secrets?${query}`))).toBe(name);
  });

  it("is authorized without that name for deletecollection, as upstream", () => {
    const url = "/api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Dmine";
    expect(authorizedName(passage(url, "DELETE"))).toBe("");
  });
});
