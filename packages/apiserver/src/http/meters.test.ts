import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { createServerMeters } from "./meters.ts";

it("the metrics of the API server are listed in docs/apiserver.md", async () => {
  const metrics = createMetrics();
  createServerMeters(metrics);
  const served = [...(await metrics.render()).matchAll(/^# TYPE (\S+)/gm)].map((it) => it[1]);
  const guide = readFileSync(join(import.meta.dirname, "../../../../docs/apiserver.md"), "utf8");
  const listed = [...guide.matchAll(/^\| `([a-z_]+)` \|/gm)].map((it) => it[1]);
  expect(new Set(served)).toEqual(new Set(listed));
});
