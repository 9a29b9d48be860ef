import { describe } from "vitest";
import { answering } from "@fairlead/fleet/domain/answering.ts";
import { FakeTrafficProvider } from "@fairlead/fleet/hub/traffic-manager/providers/provider.fake.ts";
import { describeProvider } from "./contract.ts";

describe("the provider in memory", () => {
  const provider = new FakeTrafficProvider();
  describeProvider(() => ({
    provider,
    shares(label) {
      if (provider.foreign.has(label)) return Promise.resolve(new Map([["192.0.2.99", 1]]));
      const targets = provider.names.get(label);
      if (targets === undefined) return Promise.resolve(undefined);
      const serving = answering(targets);
      const sum = serving.reduce((total, it) => total + it.weight, 0);
      return Promise.resolve(new Map(serving.map((it) => [it.addresses?.[0] ?? "", it.weight / sum])));
    },
    occupy(label) {
      provider.foreign.add(label);
      return Promise.resolve();
    },
    damage(label) {
      provider.damage(label);
      return Promise.resolve();
    },
  }));
});
