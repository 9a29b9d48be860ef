import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { root } from "./steps.ts";
import { FILES, OURS_ALONE } from "./test-real.ts";

it("every test that is left out against a real server exists", () => {
  const texts = FILES.map((it) => readFileSync(join(root, `packages/apiserver/test/${it}.test.ts`), "utf8"));
  const unknown = Object.keys(OURS_ALONE).filter(
    (title) => !texts.some((text) => text.includes(`it("${title}`)),
  );
  expect(unknown).toEqual([]);
});
