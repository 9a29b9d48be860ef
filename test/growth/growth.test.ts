import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestServer, type TestServer } from "../../packages/apiserver/test/support.ts";
import type { PolicyDraft } from "@fairlead/fleet/dataplane/policy/policy-draft.ts";
import { DECODERS } from "./decoders.ts";
import { type Growth, growthOf, isLinear } from "./measure.ts";
import { POLICIES } from "./policies.ts";
import { REQUESTS } from "./requests.ts";

/** `npm run test:full` takes each input up to its limit; otherwise it is as long as shows what grows beyond its length. */
const IS_FULL = process.env["GROWTH"] === "full";
const LENGTH = IS_FULL ? Infinity : 60_000;
/** What a request may keep all others waiting, with its body at the limit, on a slow and busy machine. Unit: milliseconds of CPU. */
const MAX_MS = 5000;
/** The longest refusal, however much is wrong with an object. Unit: bytes. */
const MAX_REFUSAL_BYTES = 1024 * 1024;
/** What a real server answers with 500, too. */
const FAILS_UPSTREAM: ReadonlySet<string> = new Set([
  "an applied configuration with items of one key",
  '/configmaps?watch=1 resourceVersion of "x"',
]);
const TIMEOUT_MS = 300_000;

function expectLinear(growth: Growth): void {
  expect(growth, "costs more than it is long").toSatisfy(isLinear);
  expect(growth.wholeMs).toBeLessThan(MAX_MS);
}

describe("the time of every parser is linear in the length of its text", () => {
  it.each(DECODERS.filter((it) => IS_FULL || it.isRepeated !== true))(
    "$name",
    async (decoder) => {
      const attempt = (input: string | Buffer): void => {
        try {
          decoder.run(input);
        } catch {
          // Taken or refused: here it is a matter of time alone.
        }
      };
      expectLinear(await growthOf(decoder, Math.min(decoder.limit, LENGTH), attempt));
    },
    TIMEOUT_MS,
  );
});

describe("the time that a node takes for a policy is linear in its length", () => {
  it.each(POLICIES.filter((it) => IS_FULL || !it.isSlow))(
    "$name",
    async ({ make, limit, run }) => {
      const sizes = new Map<string | Buffer, number>();
      const growth = await growthOf({ name: "", limit, make }, Math.min(limit, LENGTH), (text) => {
        const { chains, sets } = (run(text) as PolicyDraft).table.whole;
        const rules = chains.values().reduce((all, it) => all + it.rules.length, 0);
        const elements = sets.values().reduce((all, it) => all + it.elements.size, 0);
        sizes.set(text, rules + sets.size + elements);
      });
      const [quarter = 0, whole = 0] = sizes.values();
      expect(whole, "the kernel gets more than the policy is long").toBeLessThan(6 * quarter);
      expectLinear(growth);
    },
    TIMEOUT_MS,
  );
});

describe("the time for a request is linear in its size", () => {
  const ENVIRONMENT = IS_FULL ? 8000 : 200;
  let test: TestServer;

  beforeAll(async () => {
    test = await startTestServer();
    const metadata = { name: "target" };
    const env = Array.from({ length: ENVIRONMENT }, (_, at) => ({ name: `E${at}`, value: "w" }));
    const labels = { a: "b" };
    const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "i", env }] } };
    const made = [
      ["/api/v1/namespaces/default/serviceaccounts", { metadata: { name: "default" } }],
      ["/api/v1/namespaces/default/configmaps", { metadata, data: { a: "b" } }],
      [
        "/apis/apps/v1/namespaces/default/deployments",
        { metadata, spec: { selector: { matchLabels: labels }, template } },
      ],
    ] as const;
    for (const [path, body] of made) expect((await test.call("POST", path, { body })).code).toBe(201);
  }, TIMEOUT_MS);
  afterAll(() => test[Symbol.asyncDispose]());

  it.each(REQUESTS)(
    "$name",
    async (request) => {
      const codes = new Set<number>();
      let refusedBytes = 0;
      const growth = await growthOf(request, Math.min(request.limit, LENGTH), async (sent) => {
        const { code, text } = await test.call(sent.method, sent.path, sent);
        codes.add(code);
        if (code >= 400) refusedBytes = Math.max(refusedBytes, text.length);
      });
      expect(refusedBytes, "an error message is longer than its limit").toBeLessThan(MAX_REFUSAL_BYTES);
      if (!FAILS_UPSTREAM.has(request.name)) expect(Math.max(...codes)).toBeLessThan(500);
      expectLinear(growth);
    },
    TIMEOUT_MS,
  );
});
