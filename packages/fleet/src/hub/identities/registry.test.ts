import { expect, it } from "vitest";
import type { IdentityDemand, IdentityWants } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { HubInformers } from "../informers.ts";
import { IdentityRegistry } from "./registry.ts";

const MEMBERS = Array.from({ length: 50 }, (_, at) => `m${at}`);

/** A hub with these demands, and how many of them were read. */
function hub() {
  const demands = new Map<string, IdentityDemand>();
  let read = 0;
  const set = (member: string, wants: IdentityWants): void => {
    const metadata = { namespace: `fleet-member-${member}`, name: member };
    demands.set(objectKey(metadata.namespace, member), { metadata, spec: wants });
  };
  const informers = {
    viewOf: () => "fleet-view-p",
    areMembersByMailbox: () => false,
    members: { store: { get: (name: string) => ({ metadata: { name } }) } },
    identityDemands: {
      store: {
        list: () => demands.values(),
        get: (key: string) => {
          read += 1;
          return demands.get(key);
        },
      },
    },
  };
  const registry = new IdentityRegistry(informers as unknown as HubInformers, () => 0);
  return { registry, set, read: () => read };
}

it("changes of a demand are read once, and cost only the members of which something else is wanted", () => {
  const { registry, set, read } = hub();
  for (const it of MEMBERS) set(it, { requests: [{ namespaces: [it] }] });
  const wantedAtFirst = new Map(MEMBERS.map((it) => [it, registry.wantedOf(it)]));
  expect(read()).toBe(MEMBERS.length);
  for (let at = 0; at < 100; at++) {
    set("m0", { requests: [{ namespaces: ["m0"] }, { namespaces: [`n${at}`], clusters: ["m1", "m2"] }] });
    registry.forgetDemand("m0");
  }
  expect(read()).toBe(MEMBERS.length);
  expect(registry.takeChanged().toSorted()).toEqual(["m1", "m2"]);
  expect(read()).toBe(MEMBERS.length + 1);
  for (const [member, wanted] of wantedAtFirst)
    expect(registry.wantedOf(member) === wanted).toBe(!["m1", "m2"].includes(member));
  expect(registry.takeChanged()).toEqual([]);
});
