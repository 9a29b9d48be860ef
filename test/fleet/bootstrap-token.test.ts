/** A join token that has expired, or that another client has used. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CERTIFICATE_SIGNING_REQUESTS, CLIENT_SIGNER } from "@fairlead/kube/api/certificates/v1/types.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { MEMBER_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import {
  BOOTSTRAP_SECONDS,
  CERTIFICATE_SECONDS,
  MEMBERS_GROUP,
} from "@fairlead/fleet/api/fairlead.dev/identity.ts";
import { HUB_SECRET } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { offsetClock, systemClock } from "@fairlead/base/clock.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { joinCluster } from "@fairlead/fleet/cli/fleet/join.ts";
import { runAgent } from "@fairlead/fleet/member/agent/agent.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { fixedCredentials } from "@fairlead/kube/config/config.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { generatePrivateKey } from "@fairlead/base/pki/keys.ts";
import { createCertificateRequest } from "@fairlead/base/pki/request.ts";
import { configAs } from "../support/access.ts";
import { connectProgram, PATIENCE_MS, startFleet, testDeps, type TestFleet } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

/** A clock that tests set ahead. */
class Later {
  aheadMs = 0;
  readonly now = (): number => offsetClock(systemClock, this.aheadMs).now();
  readonly monotonic = (): number => systemClock.monotonic();
  readonly after = systemClock.after.bind(systemClock);
}

const hubTime = new Later();
const secretKey = objectKey("fleet-system", HUB_SECRET);

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a"], join: [], clocks: { "hub/apiserver": hubTime } });
  await fleet.agents.get("a")!.stop();
});
afterAll(() => fleet[Symbol.asyncDispose]());

function join(waitForAgents: boolean) {
  const member = fleet.members.get("a")!.config;
  const options = { name: "a", hub: fleet.hub.config, member, heartbeatSeconds: 1, timeoutMs: PATIENCE_MS };
  return joinCluster({ ...options, waitForAgents }, testDeps("join"), AbortSignal.timeout(PATIENCE_MS));
}

/** The log line of an agent that cannot join. */
async function refusal(): Promise<string> {
  const stop = new AbortController();
  const said = Promise.withResolvers<string>();
  const nothing = (): void => {};
  const log: Logger = {
    debug: nothing,
    info: nothing,
    warn: nothing,
    error: (message, fields) => said.resolve(`${message}: ${String(fields?.["error"])}`),
    child: () => log,
  };
  const deps = systemDeps(log);
  await using local = connectProgram(configAs(MEMBER_ACCESS, fleet.members.get("a")!.config), deps);
  const running = runAgent(
    { local, connectHub: (config) => connectProgram(config, deps), deps },
    stop.signal,
  );
  try {
    return await said.promise;
  } finally {
    stop.abort();
    await running;
  }
}

async function secretFields(): Promise<Record<string, string>> {
  const { data = {} } = await fleet.client("a").get(SECRETS, secretKey);
  return Object.fromEntries(
    Object.entries(data).map(([name, text]) => [name, Buffer.from(text, "base64").toString("utf8")]),
  );
}

/** The member has not joined, and the hub has granted nothing. */
async function expectOutside(): Promise<void> {
  const hub = fleet.client("hub");
  const member = await hub.get(MEMBER_CLUSTERS, objectKey(undefined, "a"));
  expect(isConditionTrue(member.status?.conditions, "Joined")).toBe(false);
  expect(await secretFields()).not.toHaveProperty("tls.crt");
}

async function expectMended(): Promise<void> {
  const agent = fleet.agents.get("a")!;
  agent.start();
  await join(true);
  expect(await secretFields()).toHaveProperty("tls.crt");
  await agent.stop();
}

describe("a join token", () => {
  it("that has expired is rejected, the agent logs the remedy, and the member does not join", async () => {
    await join(false);
    hubTime.aheadMs = (BOOTSTRAP_SECONDS + 60) * 1000;
    expect(await refusal()).toBe(
      "member agent failed, retrying: the hub rejected the join token, which is valid for 15 " +
        'minutes and one certificate; run "fairlead join a" again',
    );
    await expectOutside();
    const own = (await fleet.client("hub").list(CERTIFICATE_SIGNING_REQUESTS)).items.filter((it) =>
      it.metadata.name.startsWith("fleet-member-a-"),
    );
    expect(own).toEqual([]);
    hubTime.aheadMs = 0;
    await expectMended();
  });

  it("that another client has used is rejected, the agent logs the remedy, and the member does not join", async () => {
    const hub = fleet.client("hub");
    // Again, with an unused token.
    await fleet.client("a").delete(SECRETS, secretKey);
    await join(false);
    const token = (await secretFields())["bootstrap-token"] ?? "";
    await using thief = connect({ ...fleet.hub.config, credentials: fixedCredentials({ token }) });
    const pem = createCertificateRequest(generatePrivateKey(), {
      commonName: "fleet:member:a",
      organizations: [MEMBERS_GROUP],
    });
    const spec = {
      request: Buffer.from(pem).toString("base64"),
      signerName: CLIENT_SIGNER,
      usages: ["client auth"],
      expirationSeconds: CERTIFICATE_SECONDS,
    };
    await thief.create(CERTIFICATE_SIGNING_REQUESTS, { metadata: { name: "theft" }, spec });
    await eventuallyOne(hub, CERTIFICATE_SIGNING_REQUESTS, objectKey(undefined, "theft"), (it) =>
      (it.status?.conditions ?? []).some((one) => one.type === "Approved"),
    );
    expect(await refusal()).toMatch(
      /the hub refused the certificate \(fleet-member-a-[0-9a-f]+\): the join token of member a was already used, and is valid for one certificate only; run "fairlead join a" to create another$/,
    );
    expect(await secretFields()).not.toHaveProperty("tls.crt");
    expect(await secretFields()).not.toHaveProperty(["next.key"]);
    await eventually(hub, MEMBER_CLUSTERS, (all) => all.length === 1);
    await expectMended();
  });
});
