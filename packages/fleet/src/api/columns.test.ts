import { expect, it } from "vitest";
import { HUB_CRDS, MEMBER_CRDS } from "./crds.ts";

it("no column of a kind shows the first of several values as if it were all of them", () => {
  // Columns of published kinds are as published.
  const own = [...HUB_CRDS, ...MEMBER_CRDS].filter((it) => it.spec.group === "fairlead.dev");
  const columns = own.flatMap(({ spec }) =>
    spec.versions.flatMap(({ additionalPrinterColumns = [] }) =>
      additionalPrinterColumns.map(({ name, jsonPath }) => `${spec.names.plural}: ${name} is ${jsonPath}`),
    ),
  );
  // An API server takes one value of such a path (apiextensions, tableconvertor).
  expect(columns.filter((it) => it.includes("[*]"))).toEqual([]);
  const indexed = columns.filter((it) => it.includes("[0]"));
  expect(indexed.filter((it) => !it.includes(": First-"))).toEqual([]);
});
