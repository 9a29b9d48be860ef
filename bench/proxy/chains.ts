import { exec } from "@fairlead/base/exec.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";

/** Chains per Service and per endpoint, programmed by the nft program, as kube-proxy's nftables mode lays them out. */

export interface ChainsPlan {
  readonly services: number;
  readonly serviceAddress: (service: number) => string;
  /** Of a service, after so many changes of one of them. */
  readonly endpoints: (service: number, round: number) => readonly string[];
}

const ENDPOINT_PORT = 8080;

/** Makes the table, and returns an action that replaces the last endpoint of the service in the middle. */
export async function programChains(
  netns: string,
  plan: ChainsPlan,
): Promise<{ readonly update: () => Promise<void>; readonly remove: () => Promise<void> }> {
  const nft = (script: string): Promise<void> => runInside(netns, "nft", ["-f", "-"], script);
  const numbers = Array.from({ length: plan.services }, (_, at) => at);
  const script = [
    "table ip peer {",
    "map services { type ipv4_addr . inet_proto . inet_service : verdict; }",
    ...numbers.flatMap((it) => chainsOf(it, plan)),
    "chain dispatch { type nat hook prerouting priority -100; ip daddr . meta l4proto . th dport vmap @services; }",
    "}",
    ...numbers.map(
      (it) => `add element ip peer services { ${plan.serviceAddress(it)} . tcp . 80 : goto service-${it} }`,
    ),
    "",
  ].join("\n");
  await nft(script);
  const number = plan.services >> 1;
  let round = 0;
  return {
    update: () => {
      const addresses = plan.endpoints(number, ++round);
      const last = addresses.length - 1;
      return nft(
        `flush chain ip peer endpoint-${number}-${last}\nadd rule ip peer endpoint-${number}-${last} meta l4proto tcp dnat to ${addresses[last]}:${ENDPOINT_PORT}\n`,
      );
    },
    remove: () => nft("delete table ip peer\n"),
  };
}

function chainsOf(number: number, plan: ChainsPlan): readonly string[] {
  const addresses = plan.endpoints(number, 0);
  const choices = addresses.map((_, at) => `${at} : goto endpoint-${number}-${at}`).join(", ");
  return [
    ...addresses.map(
      (it, at) => `chain endpoint-${number}-${at} { meta l4proto tcp dnat to ${it}:${ENDPOINT_PORT}; }`,
    ),
    `chain service-${number} { numgen random mod ${addresses.length} vmap { ${choices} }; }`,
  ];
}

export async function runInside(
  netns: string,
  command: string,
  args: readonly string[],
  input = "",
): Promise<void> {
  const line = inNetns(netns, command, args);
  await exec(line.command, line.args, { input, timeoutMs: 300_000 });
}
