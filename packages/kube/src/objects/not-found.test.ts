import { FleetError } from "@fairlead/base/errors.ts";
import { expect, it } from "vitest";
import { ignoreNotFound } from "./not-found.ts";

function forbidden(status: unknown): FleetError {
  return new FleetError("API_FORBIDDEN", "forbidden", { detail: { status } });
}

it("a write to a deleted object, or to a namespace that is being deleted, is not a failure", () => {
  ignoreNotFound(new FleetError("API_NOT_FOUND", "not found"));
  ignoreNotFound(forbidden({ details: { causes: [{ reason: "NamespaceTerminating" }] } }));
});

it.each<[string, unknown]>([
  ["of another kind", new Error("refused")],
  [
    "that is forbidden for another reason",
    forbidden({ details: { causes: [{ reason: "FieldValueInvalid" }] } }),
  ],
  ["whose response is malformed", forbidden({ details: { causes: "NamespaceTerminating" } })],
  ["whose causes are malformed", forbidden({ details: { causes: [null, 1] } })],
])("a failure %s is thrown again", (_, error) => {
  expect(() => ignoreNotFound(error)).toThrow(error);
});
