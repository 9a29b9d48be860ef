import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { root } from "./steps.ts";
import { FILES, GUARDED, OURS_ALONE, PROGRAMS } from "./test-real.ts";

it("every test that is left out against a real server exists", () => {
  const texts = FILES.map((it) => readFileSync(join(root, `packages/apiserver/test/${it}.test.ts`), "utf8"));
  const unknown = Object.keys(OURS_ALONE).filter(
    (title) => !texts.some((text) => text.includes(`it("${title}`)),
  );
  expect(unknown).toEqual([]);
});

it("every file that is run against a real server exists", () => {
  const missing = [...GUARDED, ...PROGRAMS].filter(
    (it) => !existsSync(join(root, `test/fleet/${it}.test.ts`)),
  );
  expect(missing).toEqual([]);
});
