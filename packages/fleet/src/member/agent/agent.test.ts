import { describe, expect, it } from "vitest";
import { MEMBER_CRDS } from "#api/crds.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { AccessHolder } from "./holder.ts";
import { type HubAccess, isSameHub, readHubSecret, readTokenLife } from "#api/fairlead.dev/hub-secret.ts";
import { runAgent } from "./agent.ts";
import { keepToken } from "./token.ts";

const encode = (text: string): string => Buffer.from(text).toString("base64");
const secret = (fields: Record<string, string>) => ({
  metadata: { namespace: "fleet-system", name: "fairlead-hub" },
  data: Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, encode(value)])),
});
const good = { server: "https://hub:6443", "ca.crt": "PEM", token: "t", cluster: "east" };
const { token: _, ...whereabouts } = good;
const bootstrap = { ...whereabouts, user: "fleet:member:east", "bootstrap-token": "once" };
const accessBy = (token: string): HubAccess => ({
  server: "https://hub:6443",
  ca: "PEM",
  followCa: false,
  cluster: "east",
  proof: { kind: "token", token },
});
const jwt = (claims: object): string => `h.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.s`;

describe("the Secret that names the hub", () => {
  it("is read as join writes it", () => {
    expect(readHubSecret(secret(good))).toEqual({ kind: "access", access: accessBy("t") });
    expect(readHubSecret(secret(bootstrap))).toEqual({
      kind: "access",
      access: { ...accessBy("t"), proof: { kind: "bootstrap", user: "fleet:member:east", token: "once" } },
    });
  });

  it.each([
    [{ ...good, server: "http://hub" }, "server is not an https URL"],
    [{ ...good, server: "hub" }, "server is not an https URL"],
    [{ ...good, token: "" }, "user and token are missing"],
    [{ ...bootstrap, user: "fleet:member:west" }, "user is not one of member east"],
    [
      { ...bootstrap, "bootstrap-token": "" },
      'has neither a certificate for fleet:member:east nor a token to request one; run "fairlead join east" again',
    ],
    [{ ...good, cluster: "Not/A/Name" }, "cluster is not the name of a member"],
  ])("says what is wrong with it (case %#)", (fields, problem) => {
    expect(readHubSecret(secret(fields))).toEqual({ kind: "problem", problem });
  });

  it("with a new token or new authorities is the same hub", () => {
    const access = accessBy("1");
    expect(isSameHub(access, { ...accessBy("2"), ca: "other" })).toBe(true);
    expect(isSameHub(access, { ...access, cluster: "west" })).toBe(false);
  });

  it("with another generation of the identity makes the agent join again", () => {
    const access = accessBy("1");
    const by = (user: string): HubAccess => ({ ...access, proof: { kind: "bootstrap", user, token: "t" } });
    expect(isSameHub(by("fleet:member:east"), by("fleet:member:east"))).toBe(true);
    expect(isSameHub(by("fleet:member:east"), by("fleet:member:east:2"))).toBe(false);
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
    const holder = new AccessHolder(accessBy(jwt({ iat, exp: iat + 1000 })));
    const tokenNow = (): string => (holder.access.proof.kind === "token" ? holder.access.proof.token : "");
    const first = tokenNow();
    const stop = new AbortController();
    const keeping = keepToken({ hub, local, cluster: "east", holder, deps }, stop.signal);
    await clock.advance(499_000);
    expect(asked).toBe(0);
    await clock.advance(2000);
    expect([asked, tokenNow() !== first]).toEqual([2, true]);
    const stored = await local.get(SECRETS, objectKey("fleet-system", "fairlead-hub"));
    expect(stored.data?.["token"]).toBe(encode(tokenNow()));
    await clock.advance(501_000);
    expect(asked).toBe(3);
    stop.abort();
    await keeping;
  });
});

const ESTABLISHED = {
  type: "Established",
  status: "True" as const,
  reason: "InitialNamesAccepted",
  message: "",
  lastTransitionTime: "2026-01-01T00:00:00Z",
};

describe("an agent without a certificate", () => {
  it("asks a hub that is back within five seconds, however long it was away, and one that refuses it ever less often", async () => {
    const clock = new FakeClock();
    const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
    const local = new FakeKubeClient(clock);
    for (const it of MEMBER_CRDS)
      local.seed(CUSTOM_RESOURCE_DEFINITIONS, { ...it, status: { conditions: [ESTABLISHED] } });
    local.seed(SECRETS, secret(bootstrap));
    const asked: number[] = [];
    let refusal = new FleetError("API_UNAVAILABLE", "connection refused");
    const hub = new FakeKubeClient(clock);
    hub.create = () => {
      asked.push(clock.monotonic());
      return Promise.reject(refusal);
    };
    const stop = new AbortController();
    const running = runAgent({ local, connectHub: () => hub, deps }, stop.signal);
    const pauses = async (): Promise<number> => {
      await clock.advance(3_600_000);
      const [last = 0, before = 0] = asked.toReversed();
      return last - before;
    };
    expect(await pauses()).toBe(5000);
    refusal = new FleetError("API_INVALID", "no");
    expect(await pauses()).toBe(300_000);
    stop.abort();
    await running;
  });
});
