import { NODE_ACCESS, type ProgramAccess, RELAY_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import type { ExtraProgram } from "@fairlead/lab/topology.ts";

/** The programs of a parallel network, which a lab runs with topology nat. */

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
  {
    command: "node",
    on: "nodes",
    user: "fairlead:node",
    args: [
      ["--kubeconfig", "{kubeconfig}"],
      ["--node-name", "{node}"],
      ["--state-dir", "{state}"],
      ["--cri-socket", "{cri}"],
    ].flat(),
  },
];

const ACCESS: ReadonlyMap<string, ProgramAccess> = new Map([
  ["relay", RELAY_ACCESS],
  ["node", NODE_ACCESS],
]);

/** The rights of a program of `PARALLEL_PROGRAMS`. */
export function accessOfExtra({ command }: Pick<ExtraProgram, "command">): ProgramAccess | undefined {
  return ACCESS.get(command);
}
