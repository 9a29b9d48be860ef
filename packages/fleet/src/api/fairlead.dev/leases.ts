import { MANAGER_LEASES } from "../networking.fleet.azure.com/names.ts";

/**
 * The Leases of each program, in the order in which it takes them. The first is for its own copies; the others keep out
 * the managers of fleet-networking that do the same work.
 */
export const LEASES_OF = {
  hub: ["fairlead-hub", MANAGER_LEASES.hub],
  memberNet: [MANAGER_LEASES.member, MANAGER_LEASES.hub],
  mcs: [MANAGER_LEASES.mcsMember, MANAGER_LEASES.mcsHub],
  member: [MANAGER_LEASES.member, MANAGER_LEASES.hub, MANAGER_LEASES.mcsMember, MANAGER_LEASES.mcsHub],
} as const satisfies Record<string, readonly string[]>;
