import { describe, expect, it } from "vitest";
import { CERTIFICATE_SIGNING_REQUESTS } from "@fairlead/kube/api/certificates/v1/types.ts";
import { SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { issueAuthority, issueClientCertificate } from "@fairlead/base/pki/issue.ts";
import { nextAuthority } from "./authority.ts";
import { keepCertificate } from "./certificate.ts";
import { AccessHolder } from "./holder.ts";

const user = "fleet:member:east";
const secretKey = objectKey("fleet-system", "fairlead-hub");

describe("a certificate", () => {
  it("is renewed at about two thirds of its life, with a key that is in the Secret before it is asked for", async () => {
    const clock = new FakeClock();
    const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
    const ca = await issueAuthority({ commonName: "hub", clock });
    const subject = { commonName: user, organizations: ["fleet:members"], days: 30, clock };
    const pair = await issueClientCertificate(ca, subject);
    const [hub, local] = [new FakeKubeClient(clock), new FakeKubeClient(clock)];
    local.seed(SECRETS, { metadata: { namespace: "fleet-system", name: "fairlead-hub" }, data: {} });
    const holder = new AccessHolder({
      server: "https://hub",
      ca: undefined,
      followCa: false,
      cluster: "east",
      proof: { kind: "certificate", user, pair },
    });
    const stop = new AbortController();
    const keeping = keepCertificate({ hub, local, holder, deps }, stop.signal);
    const asked = async () => (await hub.list(CERTIFICATE_SIGNING_REQUESTS)).items;
    await clock.advance(18 * 86_400_000);
    expect(await asked()).toEqual([]);
    await clock.advance(4 * 86_400_000);
    expect(await asked()).toMatchObject([{ spec: { usages: ["digital signature", "client auth"] } }]);
    const stored = await local.get(SECRETS, secretKey);
    expect(stored.data?.["next.key"]).toBeDefined();
    stop.abort();
    await keeping;
  });
});

describe("the authorities by which the hub is known", () => {
  it("are replaced by those that the hub publishes, if one of the present ones is among them", async () => {
    const [one, two] = [await issueAuthority({ commonName: "1" }), await issueAuthority({ commonName: "2" })];
    expect(nextAuthority(one.cert, one.cert + two.cert)).toBe(one.cert + two.cert);
    expect(nextAuthority(one.cert + two.cert, two.cert)).toBe(two.cert);
    expect(nextAuthority(one.cert, `\n${one.cert}`)).toBeUndefined();
    expect(nextAuthority(one.cert, two.cert)).toBeUndefined();
    expect(nextAuthority(one.cert, "")).toBeUndefined();
    expect(nextAuthority(undefined, one.cert)).toBeUndefined();
  });
});
