import { NODE_ACCESS, type ProgramAccess, RELAY_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import type { ExtraProgram } from "@fairlead/lab/topology.ts";

/** The programs of networks between clusters that not every lab runs. */

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

const ACCESS: ReadonlyMap<string, ProgramAccess> = new Map([
  ["relay", RELAY_ACCESS],
  ["node", NODE_ACCESS],
]);

/** The rights of a program of `PARALLEL_PROGRAMS`. */
export function accessOfExtra({ command }: Pick<ExtraProgram, "command">): ProgramAccess | undefined {
  return ACCESS.get(command);
}
