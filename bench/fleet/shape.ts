/** Exporters and importers of a fleet of a given size. The services of a namespace have the same clusters. */

export interface FleetShape {
  readonly members: number;
  readonly services: number;
  readonly endpoints: number;
}

/** Services that share a namespace. */
const SERVICES_PER_NAMESPACE = 10;
/** Clusters that export each service; as many more have its namespace and import it only. */
const EXPORTERS = 5;

export interface ServiceOf {
  readonly namespace: string;
  readonly name: string;
  /** Addresses that this member has of it; empty: it imports it only. */
  readonly addresses: readonly string[];
  /** Whether an annotation shares it, in the place of a ServiceExport. Default: false. */
  readonly isGlobal?: boolean;
}

export interface MemberShape {
  readonly name: string;
  readonly services: readonly ServiceOf[];
  /** Slices and endpoints that it should have imported in the end, its own among them. */
  readonly imports: { readonly slices: number; readonly endpoints: number };
  /** A pod that the policies of all other members name, the network of its cluster, and how many pods of others it should know. */
  readonly pod?: { readonly address: string; readonly cidr: string; readonly others: number };
}

function memberName(at: number): string {
  return `member-${String(at).padStart(3, "0")}`;
}

/** What each member has, in the order of their numbers. Every service has all its endpoints in `EXPORTERS` clusters. */
export function shapeOf({ members, services, endpoints }: FleetShape): MemberShape[] {
  const exporters = Math.min(EXPORTERS, members);
  const users = Math.min(EXPORTERS * 2, members);
  const perExporter = Math.round(endpoints / services / exporters);
  const all = Array.from({ length: members }, (): ServiceOf[] => []);
  for (let at = 0; at < services; at += 1) {
    const group = Math.floor(at / SERVICES_PER_NAMESPACE);
    for (let user = 0; user < users; user += 1) {
      const member = (group * EXPORTERS + user) % members;
      const count = user < exporters ? perExporter : 0;
      all[member]?.push({
        namespace: `team-${group}`,
        name: `service-${at}`,
        addresses: Array.from({ length: count }, (_, endpoint) => addressOf(at, user, endpoint)),
      });
    }
  }
  return all.map((its, at) => ({
    name: memberName(at),
    services: its,
    imports: { slices: its.length * exporters, endpoints: its.length * exporters * perExporter },
  }));
}

/** Unique within the fleet: 16 bits of service, 3 of cluster, 5 of endpoint, in 10.0.0.0/8. */
function addressOf(service: number, cluster: number, endpoint: number): string {
  const bits = (service << 8) | (cluster << 5) | endpoint;
  return `10.${(bits >> 16) & 255}.${(bits >> 8) & 255}.${bits & 255}`;
}

/** A global Service with an endpoint in every member, and a pod in each that policies of all others name. */
export function shapeOfEveryone(members: number): MemberShape[] {
  return Array.from({ length: members }, (_, at) => ({
    name: memberName(at),
    services: [{ namespace: "shop", name: "hello", addresses: [addressIn(at, 10)], isGlobal: true }],
    // Those of the Service itself, from the others, and those of what imports it.
    imports: { slices: 2 * members - 1, endpoints: 2 * members - 1 },
    pod: { address: addressIn(at, 11), cidr: `${addressIn(at, 0)}/20`, others: members - 1 },
  }));
}

/** In the network of a member: 255 of 172.16.0.0/12. */
export function addressIn(member: number, host: number): string {
  return `172.${16 + (member >> 4)}.${((member & 15) << 4) + (host >> 8)}.${host & 255}`;
}
