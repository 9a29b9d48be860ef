import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { root } from "./steps.ts";
import { TESTS } from "./test.ts";

it("a part of npm test that is run on its own has the same tests", () => {
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    readonly scripts: Readonly<Record<string, string>>;
  };
  for (const part of ["unit", "integration", "lab"])
    expect(scripts[`test:${part}`]).toBe(TESTS.find((it) => it.name === `${part} tests`)?.command.join(" "));
});
