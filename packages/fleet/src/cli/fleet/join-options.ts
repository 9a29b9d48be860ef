import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { Prefix } from "@fairlead/base/netaddr/prefix.ts";
import type { CheckName, Finding } from "./checks/finding.ts";
import type { IdentityKind } from "./identity.ts";
import type { MemberInstall } from "./install/member-manifests.ts";
import type { Report } from "./steps.ts";

export interface JoinOptions {
  /** Name of the member, which becomes its cluster id: a label of RFC 1123. */
  readonly name: string;
  readonly hub: ClusterConfig;
  readonly member: ClusterConfig;
  /** URL of the hub as the member sees it. Default: as the hub's kubeconfig has it. */
  readonly hubServer?: string;
  /** Certificates by which the member checks the hub, PEM. Default: as the hub's kubeconfig has it. */
  readonly hubCa?: string;
  /** How often the member's agents report. Unit: seconds. Range: 1 to 600. Default: 60. */
  readonly heartbeatSeconds?: number;
  /** The identity of the member on the hub. Default: as before; else a certificate if the hub signs them. */
  readonly identity?: IdentityKind;
  /** Issues a new identity; certificates of the previous identity stop working. Default: false. */
  readonly rotate?: boolean;
  /** What to install in the member. Default: nothing; its agent is deployed separately. */
  readonly install?: MemberInstall;
  /** The image of the pod that probes the hub from the member. Default: that of `install`; without one, the probe is skipped. */
  readonly probeImage?: string;
  /** The networks of its pods, those of future nodes included. Default: the configuration of kubeadm. */
  readonly podCidrs?: readonly Prefix[];
  /** Labels of its MemberCluster, besides those that it has. */
  readonly labels?: Readonly<Record<string, string>>;
  /** The parallel profile in which the member will be: its networks may then be those of other members, too. */
  readonly parallelProfile?: string;
  readonly skipChecks?: ReadonlySet<CheckName>;
  /** Wait until the agents of the member say that they joined. Default: true. */
  readonly waitForAgents?: boolean;
  /** For each wait. Unit: milliseconds. Default: 60 000. */
  readonly timeoutMs?: number;
}

export interface JoinDeps extends RuntimeDeps {
  /** Receives each step, for people. */
  readonly progress?: (report: Report) => void;
  /** Called with each finding before anything is changed. */
  readonly onFinding?: (finding: Finding) => void;
}

export const DEFAULT_TIMEOUT_MS = 60_000;
