import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { ClusterUpgrade, ClusterUpgradeStatus } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { importedSlices } from "../imported-slices.ts";
import { FlowProbes, type FlowProbe } from "../probes/flow-probes.ts";
import { planFlowTargets } from "../probes/flow-targets.ts";
import { type Lookup, Lookups } from "../probes/lookups.ts";
import type { Session } from "../session.ts";

/** How other clusters and names are asked. */
export interface Asking {
  readonly flow: FlowProbe;
  readonly lookup: Lookup;
}

const DNS_SERVICE = objectKey("kube-system", "kube-dns");
/** More are not looked up. */
const MAX_NAMES = 20;

/** What a member finds as a client: flows to other members, for their health checks, and lookups, for its own. */
export class ClientSight implements AsyncDisposable {
  readonly #flows: FlowProbes;
  readonly #lookups: Lookups;

  constructor(session: Session, { flow, lookup }: Asking) {
    const { cluster, deps } = session;
    const { clock } = deps;
    this.#flows = new FlowProbes({
      cluster,
      targets: ({ cluster: other, paths }) => planFlowTargets(importedSlices(session, other), paths),
      probe: flow,
      clock,
    });
    this.#lookups = new Lookups({
      servers: () => dnsServers(session),
      names: () => namesOf(session),
      lookup,
      clock,
    });
  }

  /** Does what the hub asks for, and no more. */
  want({ probes = [], measure }: ClusterUpgrade["spec"]): void {
    this.#flows.want(probes);
    this.#lookups.want(measure === true);
  }

  get measurements(): ClusterUpgradeStatus["measurements"] {
    return this.#lookups.measurements;
  }

  get flows(): Pick<ClusterUpgradeStatus, "flows"> {
    const flows = this.#flows.report();
    return flows.length === 0 ? {} : { flows };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#flows[Symbol.asyncDispose](), this.#lookups[Symbol.asyncDispose]()]);
  }
}

/** The address that pods ask, and the servers behind it: the first may not be reached from everywhere. */
function dnsServers({ here }: Session): string[] {
  const address = here.services.store.get(DNS_SERVICE)?.spec?.clusterIP;
  if (address === undefined || address === "" || address === "None") return [];
  const slices = [...here.slices.store.byIndex("service", DNS_SERVICE)];
  const ready = slices
    .flatMap((it) => it.endpoints ?? [])
    .filter((it) => it.conditions?.ready !== false)
    .flatMap((it) => it.addresses.slice(0, 1));
  return [address, ...new Set(ready.slice(0, MAX_NAMES))];
}

/** A name that every cluster has, and those of imports that have addresses of their own. */
function namesOf({ here }: Session): string[] {
  const names = ["kubernetes.default.svc.cluster.local"];
  for (const { metadata, spec } of here.mcsImports.store.list()) {
    if (names.length >= MAX_NAMES) break;
    if (spec?.type !== "Headless") names.push(`${metadata.name}.${metadata.namespace}.svc.clusterset.local`);
  }
  return names;
}
