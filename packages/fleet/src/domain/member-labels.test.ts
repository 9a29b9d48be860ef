import { describe, expect, it } from "vitest";
import { planLabels } from "./member-labels.ts";

const at = { observationTime: "2026-01-01T00:00:00Z" };
const NAMES = { "kubernetes-fleet.io/member-name": "a", "fleet.azure.com/member-name": "a" };
const report = (facts: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(facts).map(([key, value]) => [key, { value, ...at }]));
const plan = (labels: Readonly<Record<string, string>>, facts?: Readonly<Record<string, string>>) =>
  planLabels({ metadata: { name: "a", labels } }, facts && report(facts));

describe("labels of a MemberCluster", () => {
  it("are its name before the member reports, and then where it is and what it runs", () => {
    expect(plan({})).toEqual(NAMES);
    const facts = {
      "fairlead.dev/region": "eastus",
      "fairlead.dev/kubernetes-version": "v1.34.1+k3s1",
      "fairlead.dev/distribution": "k3s",
      "fairlead.dev/node-provider": "azure",
      "fairlead.dev/azure-subscription": "1234",
    };
    const labels = {
      "topology.kubernetes.io/region": "eastus",
      "fleet.azure.com/location": "eastus",
      "fleet.azure.com/subscription-id": "1234",
      "fairlead.dev/kubernetes-version": "v1.34.1_k3s1",
      "fairlead.dev/distribution": "k3s",
      "fairlead.dev/node-provider": "azure",
    };
    expect(plan(NAMES, facts)).toEqual(labels);
    expect(plan({ ...NAMES, ...labels }, facts)).toBeUndefined();
  });

  it("of users stay, and a member that reports another region stays in its first", () => {
    const labels = {
      ...NAMES,
      "topology.kubernetes.io/region": "eu",
      "fleet.azure.com/location": "westeurope",
    };
    expect(plan(labels, { "fairlead.dev/region": "us" })).toBeUndefined();
  });

  it("follow an upgrade, and go with what is not reported any more, but not while nothing is reported", () => {
    const labels = {
      ...NAMES,
      "fairlead.dev/kubernetes-version": "v1.33.1",
      "fairlead.dev/distribution": "k3s",
    };
    expect(plan(labels, { "fairlead.dev/kubernetes-version": "v1.34.1" })).toEqual({
      "fairlead.dev/kubernetes-version": "v1.34.1",
      "fairlead.dev/distribution": null,
    });
    expect(plan(labels)).toBeUndefined();
  });

  it.each(["a b", "-a", "x".repeat(65), "a\u001b[0m", "a,b=c"])(
    "are not made of a report that is not the value of a label: %j",
    (value) => {
      expect(plan(NAMES, { "fairlead.dev/region": value })).toBeUndefined();
    },
  );
});
