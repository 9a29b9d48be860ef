import { expect, it } from "vitest";
import { validateGenerateName } from "./metadata.ts";
import { subdomainProblems } from "#values/names.ts";

const fieldsOf = (generateName: string): readonly string[] =>
  validateGenerateName(
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "x", generateName } },
    { strategy: { checkName: subdomainProblems } },
  ).map((it) => it.field);

it("an invalid generateName is reported under its own field", () => {
  expect(fieldsOf("UPPER-")).toEqual(["metadata.generateName"]);
  expect(fieldsOf("a".repeat(260))).toEqual(["metadata.generateName"]);
});

it("generateName may end in a dash", () => {
  expect(fieldsOf("web-")).toEqual([]);
  expect(fieldsOf("")).toEqual([]);
});
