/** A compromised member: what it says of its pods changes nothing of what other members say. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_CLUSTERS,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";
import {
  HUB_SECRET,
  NODE_RANGES,
  POD_RANGES,
  VIEW_NAMESPACE,
} from "@fairlead/fleet/api/fairlead.dev/names.ts";
import {
  IDENTITY_DEMANDS,
  IDENTITY_SLICES,
  type IdentityDemand,
  type IdentitySlice,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/identities.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { formatRanges, listedRanges } from "@fairlead/fleet/domain/ranges.ts";
import { MAILBOX_POLICY_BINDINGS } from "@fairlead/fleet/authz/policies/policies.ts";
import { VALIDATING_ADMISSION_POLICY_BINDINGS } from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { PODS, SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { fixedCredentials } from "@fairlead/kube/config/config.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { startFleet, testDeps, type TestFleet } from "../support/fleet.ts";
import { hostilities, schemaOf } from "../support/hostile.ts";
import { addNode } from "../support/mesh.ts";
import { admit, runPod } from "../support/pods.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

/** The oldest member, and the youngest: both are taken over. */
const ELDER = "0";
const MEMBERS = [ELDER, "a", "c", "m"];
const MAILBOX = "fleet-member-m";
const DEMAND = objectKey(MAILBOX, "m");
/** The whole world, wide private networks, and networks of pods and nodes of others; 10.84.0.1 and fd99::1 are of no member. */
const CLAIMS = [
  "0.0.0.0/0,::/0",
  "8.8.8.8/32",
  "10.0.0.0/8",
  "10.1.0.0/16,10.2.0.0/16",
  "192.168.1.0/24,192.168.2.0/24",
  "10.84.0.0/16,fd99::/64",
];
const ANY = "io.cilium.k8s.policy.cluster";

let fleet: TestFleet;
let stack: AsyncDisposableStack;
let asM: KubeClient;
let sound: IdentitySlice;
let asElder: KubeClient;
let soundOfElder: IdentitySlice;
const hub = () => fleet.client("hub");

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  fleet = stack.use(await startFleet({ members: MEMBERS }));
  for (const [at, name] of MEMBERS.entries())
    await addNode(fleet.client(name), "n1", { address: `192.168.${at}.1`, podCIDR: `10.${at}.0.0/16` });
  for (const name of [ELDER, "a", "m"]) {
    await admit(fleet.client("c"), `of-${name}`, { labels: { app: name, [ANY]: name } });
    const address = `10.${MEMBERS.indexOf(name)}.0.5`;
    await runPod(fleet.client(name), "web", { labels: { app: name }, address });
  }
  await known(["10.0.0.5 0", "10.1.0.5 a", "10.3.0.5 m"]);
  [asElder, soundOfElder] = await takeOver(ELDER);
  [asM, sound] = await takeOver("m");
});
afterAll(() => stack.disposeAsync());

/** @returns A client with the credential of a member whose agent is stopped, and what that had published. */
async function takeOver(name: string): Promise<[KubeClient, IdentitySlice]> {
  await fleet.agents.get(name)?.stop();
  const secret = await fleet.client(name).get(SECRETS, objectKey(FLEET_SYSTEM_NAMESPACE, HUB_SECRET));
  const field = (key: string): string => Buffer.from(secret.data?.[key] ?? "", "base64").toString();
  const credentials = fixedCredentials({ certificate: field("tls.crt"), key: field("tls.key") });
  const client = stack.use(connect({ ...fleet.hub.config, credentials }, testDeps(name)));
  const own = await client.list(IDENTITY_SLICES, { namespace: `fleet-member-${name}` });
  return [client, own.items.find((it) => it.spec.type === "Pods")!];
}

/** What c knows: an address and the label "app". */
function known(wanted: readonly string[]): Promise<readonly IdentitySlice[]> {
  const shown = (all: readonly IdentitySlice[]): string =>
    all
      .flatMap(({ spec }) =>
        (spec.pods ?? []).flatMap((it) => it.addresses.map((one) => `${one} ${spec.labels?.["app"]}`)),
      )
      .toSorted()
      .join();
  return eventually(fleet.client("c"), IDENTITY_SLICES, (all) => shown(all) === wanted.join(), {
    namespace: FLEET_SYSTEM_NAMESPACE,
  });
}

const isRefused = (write: Promise<unknown>): Promise<boolean> =>
  write.then(
    () => false,
    (error: unknown) => hasCode(error, "API_INVALID", "API_FORBIDDEN", "API_BAD_REQUEST"),
  );

async function say(spec: Partial<IdentitySlice["spec"]>): Promise<void> {
  const value = { ...sound.spec, ...spec };
  await asM.jsonPatch(IDENTITY_SLICES, keyOf(sound), [{ op: "replace", path: "/spec", value }]);
}

function refusedWith(text: string, demand = DEMAND): Promise<IdentityDemand> {
  return eventuallyOne(hub(), IDENTITY_DEMANDS, demand, (it) => {
    const accepted = findCondition(it.status?.conditions, "Accepted");
    return accepted?.status === "False" && accepted.message.includes(text);
  });
}

let round = 0;
/** A change of a's pod reaches c, and all else is as it was. */
async function othersGoOn(): Promise<void> {
  round += 1;
  const address = `10.1.1.${round}`;
  const status = { podIP: address, podIPs: [{ ip: address }] };
  await fleet.client("a").mergePatch(PODS, objectKey("work", "web"), { status }, { subresource: "status" });
  await known(["10.0.0.5 0", `${address} a`, "10.3.0.5 m"]);
}

describe("the hub's API server", () => {
  it("lets a member write only of its own pods, in its own mailbox, and not what the hub says", async () => {
    const slice = (namespace: string, cluster: string): IdentitySlice => ({
      metadata: { namespace, name: "x" },
      spec: { ...sound.spec, cluster },
    });
    const status = { status: { wanted: { requests: [{}] } } };
    const writes = [
      asM.create(IDENTITY_SLICES, slice("fleet-member-a", "a")),
      asM.create(IDENTITY_SLICES, slice(MAILBOX, "a")),
      asM.create(IDENTITY_SLICES, slice(VIEW_NAMESPACE, "m")),
      asM.create(IDENTITY_DEMANDS, { metadata: { namespace: MAILBOX, name: "a" }, spec: { requests: [] } }),
      asM.mergePatch(IDENTITY_DEMANDS, DEMAND, status, { subresource: "status" }),
      asM.list(IDENTITY_SLICES, { namespace: "fleet-member-a" }),
      say({ labels: { ["a".repeat(318)]: "b" } }),
      say({ pods: [{ name: "x", addresses: ["10.3.0.5"], labels: { ["a".repeat(318)]: "b" } }] }),
      say({ labels: { app: "a".repeat(64) } }),
    ];
    expect(await Promise.all(writes.map(isRefused))).toEqual(writes.map(() => true));
  });
});

describe.each(["policies and controllers", "controllers alone"])("a hostile member, with %s", (by) => {
  beforeAll(async () => {
    if (by === "controllers alone")
      for (const it of MAILBOX_POLICY_BINDINGS)
        await hub().delete(VALIDATING_ADMISSION_POLICY_BINDINGS, keyOf(it));
  });

  it("does not get the address of another's pod, and sees why; its other pods stay", async () => {
    const stolen = { name: "thief", addresses: ["10.1.0.5"] };
    await say({ pods: [...(sound.spec.pods ?? []), stolen] });
    await refusedWith("work/thief: 10.1.0.5 is ");
    await othersGoOn();
    await say({});
  });

  it.each(CLAIMS)("gets nothing by claiming %s, however old it is", async (claimed) => {
    for (const [name, client, own] of [
      [ELDER, asElder, soundOfElder],
      ["m", asM, sound],
    ] as const) {
      const key = objectKey(`fleet-member-${name}`, name);
      const report = async (value: string): Promise<void> => {
        const of = (property: string) => ({ [property]: { value, observationTime: "2020-01-01T00:00:00Z" } });
        const properties = { ...of(POD_RANGES), ...of(NODE_RANGES) };
        const status = { subresource: "status" } as const;
        await client.mergePatch(INTERNAL_MEMBER_CLUSTERS, key, { status: { properties } }, status);
        await eventuallyOne(
          hub(),
          MEMBER_CLUSTERS,
          objectKey(undefined, name),
          (it) => it.status?.properties?.[POD_RANGES]?.value === value,
        );
      };
      const ofOwn = `10.${MEMBERS.indexOf(name)}.0.0/16`;
      await report(formatRanges(listedRanges(`${ofOwn},${claimed}`)));
      await othersGoOn();
      const thieves = [
        `10.1.1.${round}`,
        "8.8.8.8",
        "10.2.0.9",
        "192.168.1.1",
        "192.168.2.1",
        "10.84.0.1",
        "fd99::1",
      ];
      for (const address of thieves) {
        const spec = {
          ...own.spec,
          pods: [...(own.spec.pods ?? []), { name: "thief", addresses: [address] }],
        };
        await client.jsonPatch(IDENTITY_SLICES, keyOf(own), [{ op: "replace", path: "/spec", value: spec }]);
        await refusedWith(`work/thief: ${address} is `, key);
        await othersGoOn();
      }
      await report(ofOwn);
      await client.jsonPatch(IDENTITY_SLICES, keyOf(own), [
        { op: "replace", path: "/spec", value: own.spec },
      ]);
      await othersGoOn();
    }
  });

  it("changes nothing of what others say, whatever it says", async () => {
    const attacks = hostilities(sound, schemaOf(HUB_CRDS, "IdentitySlice"), ["spec"]);
    expect(attacks.length).toBeGreaterThan(60);
    for (const { object } of attacks) {
      const value = (object as IdentitySlice).spec;
      await isRefused(
        asM.jsonPatch(IDENTITY_SLICES, keyOf(sound), [{ op: "replace", path: "/spec", value }]),
      );
    }
    const demand = await asM.list(IDENTITY_DEMANDS, { namespace: MAILBOX });
    for (const { object } of hostilities(demand.items[0]!, schemaOf(HUB_CRDS, "IdentityDemand"), ["spec"])) {
      const { spec: value } = object as IdentityDemand;
      await isRefused(asM.jsonPatch(IDENTITY_DEMANDS, DEMAND, [{ op: "replace", path: "/spec", value }]));
    }
    await asM.jsonPatch(IDENTITY_DEMANDS, DEMAND, [
      { op: "replace", path: "/spec", value: { requests: [] } },
    ]);
    await say({});
    await othersGoOn();
  }, 40_000);
});
