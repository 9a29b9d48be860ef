import {
  EXTERNAL_UPGRADER_ACCESS,
  NODE_ACCESS,
  type ProgramAccess,
  RELAY_ACCESS,
} from "@fairlead/fleet/authz/programs.ts";
import type { ExtraProgram } from "@fairlead/lab/topology.ts";

/** Programs that not every lab runs. */

/** With topology flat: it enforces policies. */
export const NODE_PROGRAM: ExtraProgram = {
  command: "node",
  on: "nodes",
  user: "fairlead:node",
  args: [
    ["--kubeconfig", "{kubeconfig}"],
    ["--node-name", "{node}"],
    ["--state-dir", "{state}"],
    ["--cri-socket", "{cri}"],
  ].flat(),
  boot: { rules: "{state}/policy.nft", mark: "{state}/policy.restored" },
};

/** With topology nat. */
export const PARALLEL_PROGRAMS: readonly ExtraProgram[] = [
  {
    command: "relay",
    on: "hub",
    user: "fairlead:relay",
    args: [
      ["--kubeconfig", "{kubeconfig}"],
      ["--name", "relay"],
      ["--key", "{state}/relay.key"],
      ["--address", "{v4}"],
      ["--address", "{v6}"],
      ["--tls-port", "443"],
    ].flat(),
  },
  NODE_PROGRAM,
];

/** Carries out what update runs ask for. */
export const UPGRADE_PROGRAM: ExtraProgram = {
  command: "lab-upgrader",
  on: "machine",
  user: "fairlead:lab-upgrader",
  args: ["--kubeconfig", "{kubeconfig}", "--lab", "{lab}"],
};

const ACCESS: ReadonlyMap<string, ProgramAccess> = new Map([
  ["relay", RELAY_ACCESS],
  ["node", NODE_ACCESS],
  ["lab-upgrader", EXTERNAL_UPGRADER_ACCESS],
]);

/** The rights of one of these programs. */
export function accessOfExtra({ command }: Pick<ExtraProgram, "command">): ProgramAccess | undefined {
  return ACCESS.get(command);
}
