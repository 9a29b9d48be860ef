import { describe, expect, it } from "vitest";
import { SECRETS } from "#api/core/v1/types.ts";
import { FakeClock } from "#base/clock.fake.ts";
import { noMetrics } from "#base/metrics.none.ts";
import { silentLogger } from "#base/log.ts";
import { seededRng } from "#base/rng.ts";
import { objectKey } from "#api/meta/key.ts";
import { FakeKubeClient } from "#kube/client.fake.ts";
import { isSameHub, readHubSecret, readTokenLife } from "./hub-secret.ts";
import { keepToken, TokenHolder } from "./token.ts";

const encode = (text: string): string => Buffer.from(text).toString("base64");
const secret = (fields: Record<string, string>) => ({
  metadata: { namespace: "fleet-system", name: "fairlead-hub" },
  data: Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, encode(value)])),
});
const good = { server: "https://hub:6443", "ca.crt": "PEM", token: "t", cluster: "east" };
const jwt = (claims: object): string => `h.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.s`;

describe("the Secret that names the hub", () => {
  it("is read as join writes it", () => {
    expect(readHubSecret(secret(good))).toEqual({
      kind: "access",
      access: { server: "https://hub:6443", ca: "PEM", cluster: "east", token: "t" },
    });
  });

  it.each([
    [{ ...good, server: "http://hub" }, "server is not an https URL"],
    [{ ...good, server: "hub" }, "server is not an https URL"],
    [{ ...good, token: "" }, "token is missing"],
    [{ ...good, cluster: "Not/A/Name" }, "cluster is not the name of a member"],
  ])("says what is wrong with it (case %#)", (fields, problem) => {
    expect(readHubSecret(secret(fields))).toEqual({ kind: "problem", problem });
  });

  it("with a new token alone is the same hub", () => {
    const access = { server: "https://hub", ca: "x", cluster: "east", token: "1" };
    expect(isSameHub(access, { ...access, token: "2" })).toBe(true);
    expect(isSameHub(access, { ...access, cluster: "west" })).toBe(false);
  });
});

describe("a token", () => {
  it("tells its life; one that does not has no end", () => {
    expect(readTokenLife(jwt({ iat: 100, exp: 300 }))).toEqual({ fromMs: 100_000, untilMs: 300_000 });
    for (const text of ["", "opaque", "a.b.c", jwt({}), jwt([1])])
      expect(readTokenLife(text)).toBeUndefined();
  });

  it("is replaced at half of its life, in the Secret too, and again when the hub was away", async () => {
    const clock = new FakeClock(1_000_000_000);
    const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
    const local = new FakeKubeClient(clock);
    local.seed(SECRETS, secret(good));
    let asked = 0;
    const hub = new FakeKubeClient(clock);
    hub.request = () => {
      asked += 1;
      if (asked === 1) return Promise.reject(new Error("the hub is away"));
      const iat = clock.now() / 1000;
      return Promise.resolve({ status: { token: jwt({ iat, exp: iat + 1000 }) } });
    };
    const iat = clock.now() / 1000;
    const holder = new TokenHolder(jwt({ iat, exp: iat + 1000 }));
    const first = holder.token;
    const stop = new AbortController();
    const keeping = keepToken({ hub, local, cluster: "east", holder, deps }, stop.signal);
    await clock.advance(499_000);
    expect(asked).toBe(0);
    await clock.advance(2000);
    expect([asked, holder.token !== first]).toEqual([2, true]);
    const stored = await local.get(SECRETS, objectKey("fleet-system", "fairlead-hub"));
    expect(stored.data?.["token"]).toBe(encode(holder.token));
    await clock.advance(501_000);
    expect(asked).toBe(3);
    stop.abort();
    await keeping;
  });
});
