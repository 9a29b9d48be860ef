/** The settings of a run, which `npm run test:e2e` (scripts/e2e.ts) passes in the environment. */

export interface Settings {
  /** Where kubectl, Helm and Fairlead find the contexts: as `KUBECONFIG` has it. */
  readonly kubeconfig: string;
  readonly hub: string;
  /** Contexts of the members, which are also their names in the fleet. At least two. */
  readonly members: readonly string[];
  /** Of Fairlead; the suite's own pods run it, too. */
  readonly image: string;
  /** Paths of the programs. */
  readonly kubectl: string;
  readonly helm: string;
  readonly fairlead: string;
  /** Shell commands that take the hub's API server away and bring it back. Without them `fairlead hub` is scaled to 0. */
  readonly hubDown: string | undefined;
  readonly hubUp: string | undefined;
  /** The members share a profile; absent: their pods reach each other by themselves, and nothing of Fairlead runs on the nodes. */
  readonly mesh?: MeshSettings | undefined;
  /** How long Helm waits for what it installs, upgrades or removes. */
  readonly helmTimeoutSeconds: number;
  /** Leaves everything installed. */
  readonly keep: boolean;
}

export interface MeshSettings {
  readonly mode: "flat" | "parallel";
  /** Relay and node agents run already; otherwise charts install them. */
  readonly hasAgents: boolean;
  /** In a parallel network: how members reach the relay. Empty: by the addresses of the hub's first node. */
  readonly relayAddresses: readonly string[];
}

export const SETTINGS_VARIABLE = "FAIRLEAD_E2E";

export function readSettings(): Settings {
  const text = process.env[SETTINGS_VARIABLE];
  if (text === undefined)
    throw new Error("this suite is run by: npm run test:e2e [-- --hub-context HUB --member-contexts A,B]");
  return JSON.parse(text) as Settings;
}
