import { expect, it } from "vitest";
import { rememberedBlocks } from "./networks.ts";

const NETWORK = { profile: "p", mode: "parallel" as const, ipv4: ["10.112.0.0/21"], ipv6: ["fd00::/56"] };

it("members keep the addresses that their InternalMemberClusters name, where the view has none", () => {
  const of = (name: string, network: object | undefined = NETWORK) => ({
    metadata: { namespace: `fleet-member-${name}`, name },
    spec: {
      state: "Join" as const,
      ...(network === undefined ? {} : { network: { ...NETWORK, ...network } }),
    },
  });
  const spec = { profile: "p", cluster: "b", ipv4: ["10.112.8.0/21"], ipv6: ["fd00:0:0:100::/56"] };
  const shown = [{ metadata: { name: "b" }, spec }];
  const all = [of("a"), of("b"), of("c", { profile: "q" }), of("d", { ipv4: [] })];
  expect(rememberedBlocks("p", shown, all)).toEqual([
    { metadata: { name: "a" }, spec: { profile: "p", cluster: "a", ipv4: NETWORK.ipv4, ipv6: NETWORK.ipv6 } },
  ]);
});
