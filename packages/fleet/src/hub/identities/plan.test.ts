import { describe, expect, it } from "vitest";
import {
  type IdentitySlice,
  MAX_IDENTITY_ADDRESSES,
  MAX_IDENTITY_PODS,
} from "#api/fairlead.dev/v1alpha1/identities.ts";
import { readWants } from "#domain/identity-wants.ts";
import { type IdentityView, planIdentity } from "./plan.ts";

type Spec = IdentitySlice["spec"];

const WEB: Spec = {
  cluster: "a",
  type: "Pods",
  namespace: "shop",
  labels: { app: "web" },
  pods: [
    { name: "web-1", addresses: ["10.1.0.5"] },
    { name: "web-2", addresses: ["10.1.0.6"] },
  ],
  publishedAt: "2026-01-01T00:00:00Z",
};

function plan(spec: Partial<Spec>, view: Partial<Omit<IdentityView, "slice">> = {}) {
  return planIdentity({
    slice: { metadata: { name: "s", namespace: "fleet-member-a" }, spec: { ...WEB, ...spec } },
    isMember: true,
    isForgotten: false,
    exporters: undefined,
    wanted: readWants({ requests: [{}], nodes: true }),
    check: (address) =>
      address.startsWith("10.1.") ? undefined : `${address} is not in the networks of the member`,
    ...view,
  });
}

describe("a slice of a member", () => {
  it("is shown as it is if other members need it", () => {
    expect(plan({})).toEqual({ spec: WEB, problem: undefined });
    expect(plan({}, { wanted: readWants({ requests: [{ namespaces: ["bank"] }] }) }).spec).toBeUndefined();
    expect(plan({ type: "Nodes" }, { wanted: readWants({ requests: [{}] }) }).spec).toBeUndefined();
  });

  it("is shown if a pod is needed by the labels that it has now, and not by those that it has no more", () => {
    const by = (labels: Record<string, string>) => ({
      wanted: readWants({ requests: [{ podSelector: { matchLabels: labels } }] }),
    });
    const [pod] = WEB.pods ?? [];
    const pods = [
      { name: "web-1", addresses: ["10.1.0.5"], ...pod, labels: { tier: "1" }, without: ["app"] },
    ];
    expect(plan({ labels: { app: "web" }, pods }, by({ tier: "1" })).spec).toBeDefined();
    expect(plan({ labels: { app: "web" }, pods }, by({ app: "web" })).spec).toBeUndefined();
  });

  it("is shown without the pods whose addresses are not of the member, and the message names the first", () => {
    const pods = [{ name: "liar", addresses: ["10.1.0.9", "10.2.0.5"] }, ...(WEB.pods ?? [])];
    expect(plan({ pods })).toEqual({
      spec: WEB,
      problem: "shop/liar: 10.2.0.5 is not in the networks of the member",
    });
    expect(plan({ pods: [{ name: "loop", addresses: ["127.0.0.1"] }] })).toEqual({
      spec: undefined,
      problem: "shop/loop: 127.0.0.1 is in a special-purpose range",
    });
  });

  it("of addresses is shown where these are needed, without those of others and of no one, and with nothing else", () => {
    const { cluster, publishedAt } = WEB;
    const spec: Spec = {
      cluster,
      type: "Addresses",
      addresses: ["10.1.0.9", "10.2.0.9", "10.1.0.10"],
      publishedAt,
    };
    const told = (of: Spec, addresses = true) =>
      planIdentity({
        slice: { metadata: { name: "s", namespace: "fleet-member-a" }, spec: of },
        isMember: true,
        isForgotten: false,
        exporters: undefined,
        wanted: readWants({ requests: [{ addresses }] }),
        check: (address) =>
          address.startsWith("10.1.") ? undefined : `${address} is not in the networks of the member`,
      });
    expect(told(spec)).toEqual({
      spec: { ...spec, addresses: ["10.1.0.9", "10.1.0.10"] },
      problem: "addresses: 10.2.0.9 is not in the networks of the member",
    });
    expect(told(spec, false)).toEqual({ spec: undefined, problem: undefined });
    expect(told({ ...spec, addresses: ["127.0.0.1", "x"] })).toEqual({
      spec: undefined,
      problem: "addresses: 127.0.0.1 is in a special-purpose range",
    });
    expect(told({ ...spec, pods: WEB.pods ?? [] }).problem).toBe(
      "spec.pods is set, which slices of addresses do not have",
    );
    const many = Array.from({ length: MAX_IDENTITY_ADDRESSES + 1 }, () => "10.1.0.9");
    expect(told({ ...spec, addresses: many }).problem).toBe(
      `spec.addresses: at most ${MAX_IDENTITY_ADDRESSES} are allowed`,
    );
  });

  it("is not shown if it is of a namespace that the member is not to export", () => {
    expect(plan({}, { exporters: ["b"] })).toEqual({
      spec: undefined,
      problem: "the annotation fairlead.dev/allowed-exporters of namespace shop on the hub does not name a",
    });
  });

  it("is not shown if the mailbox is not that of a member, or of one that has been silent for too long", () => {
    expect(plan({}, { isForgotten: true })).toEqual({ spec: undefined, problem: undefined });
    expect(plan({}, { isMember: false })).toEqual({ spec: undefined, problem: undefined });
  });

  it.each<[string, Partial<Spec>]>([
    ['spec.cluster is "b", but this is the mailbox of a', { cluster: "b" }],
    ['spec.namespace "" is not a DNS label', { namespace: "" }],
    [
      "namespace fleet-system is reserved, nothing of it is shown to other members",
      { namespace: "fleet-system" },
    ],
    ['spec.labels: "app=a b" is not a label', { labels: { app: "a b" } }],
    [
      "spec.labels: at most 256 labels are allowed, not 10000",
      { labels: Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`l${at}`, ""])) },
    ],
    ['spec.serviceAccount "a;b" is not a name', { serviceAccount: "a;b" }],
    [
      'spec.ports: "http" is not the name of a port',
      { ports: [{ name: "http", protocol: "TCP", port: 65_536 }] },
    ],
    ['spec.pods: "A/B" is not the name of an object', { pods: [{ name: "A/B", addresses: ["10.1.0.5"] }] }],
    [
      'spec.pods[].without: "a b" is not the key of a label',
      { pods: [{ name: "web-1", addresses: ["10.1.0.5"], without: ["a b"] }] },
    ],
    [
      `spec.pods: at most ${MAX_IDENTITY_PODS} are allowed`,
      { pods: Array.from({ length: 65 }, (_, at) => ({ name: `p${at}`, addresses: ["10.1.0.5"] })) },
    ],
  ])("is refused with the message %s", (problem, spec) => {
    expect(plan(spec)).toEqual({ spec: undefined, problem });
  });
});
