import { expect, it } from "vitest";
import type { Manager } from "./managers.ts";
import { conflictError } from "./conflicts.ts";

const manager = { name: "m", operation: "Apply", apiVersion: "v1", subresource: "" } as Manager;

it("conflicts below one long key are reported up to a limit of what their paths have in all, and all are counted", () => {
  const key = `f:${"k".repeat(700_000)}`;
  const { status, message } = conflictError(
    Array.from({ length: 1000 }, (_, at) => ({ manager, path: ["f:data", key, `f:${at}`] })),
  );
  expect(status.details?.causes).toHaveLength(1);
  expect(message).toMatch(/^Apply failed with 1000 conflicts: /);
  expect(JSON.stringify(status).length).toBeLessThan(200_000);
});
