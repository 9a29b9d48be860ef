import { expect, it } from "vitest";
import { startTestServer } from "./support.ts";

const PATH = "/api/v1/namespaces/default/configmaps";
const LIMIT = 1.5 * 1024 * 1024;

it("an object that grows by patches is rejected at the size limit, stays readable, and can be reduced", async () => {
  await using test = await startTestServer();
  await test.call("POST", PATH, { body: { metadata: { name: "grown" }, data: {} } });
  const headers = { "Content-Type": "application/merge-patch+json" };
  const labels = (at: number, value: string | null): Record<string, string | null> =>
    Object.fromEntries(Array.from({ length: 2000 }, (_, it) => [`${"a".repeat(40)}-${at}-${it}`, value]));
  const patch = (at: number, value: string | null) =>
    test.call("PATCH", `${PATH}/grown`, { headers, body: { metadata: { labels: labels(at, value) } } });
  const codes = [];
  for (let at = 0; at < 9; at += 1) {
    const { code, json } = await patch(at, "b".repeat(60));
    codes.push(code);
    if (code !== 200) expect(json).toMatchObject({ reason: "RequestEntityTooLarge", code: 413 });
  }
  expect(new Set(codes)).toEqual(new Set([200, 413]));
  expect(codes.at(-1)).toBe(413);
  const { code, text } = await test.call("GET", `${PATH}/grown`);
  expect(code).toBe(200);
  expect(text.length).toBeLessThanOrEqual(LIMIT);
  expect((await patch(0, null)).code).toBe(200);
});
