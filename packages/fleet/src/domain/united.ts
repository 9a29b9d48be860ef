import { type ExportedService, isFor, type ModelPort } from "./exported-service.ts";
import { exposedPorts, unionOfPorts } from "./merge.ts";

/**
 * The fleet API with united ports: every cluster takes part with those of its ports that no older export has otherwise.
 * A port leads to the clusters that have it, so that a change of ports can be rolled through clusters one by one.
 */
export interface UnitedPorts {
  readonly ports: readonly ModelPort[];
  /** Those with a port that is imported. */
  readonly clusters: readonly {
    readonly of: ExportedService;
    readonly ports: readonly { readonly name: string; readonly importedAs: string }[];
  }[];
  /** Per cluster, its ports that conflict with older exports; undefined if none does. */
  readonly conflicts: ReadonlyMap<string, string | undefined>;
}

/** @param ordered - Oldest first, none of them headless. */
export function unitePorts(ordered: readonly ExportedService[]): UnitedPorts {
  const ports = unionOfPorts(ordered);
  const owners = new Map(ports.map((port) => [port, ordered.find((it) => it.ports.includes(port))] as const));
  return {
    ports,
    clusters: ordered
      .map((of) => ({ of, ports: exposedPorts(of.ports, ports) }))
      .filter((it) => it.ports.length > 0),
    conflicts: new Map(
      ordered.map((of) => {
        const lost = of.ports.flatMap((port) => describeLoss(of, port, owners));
        return [of.cluster, lost.length === 0 ? undefined : lost.join("; ")];
      }),
    ),
  };
}

/** How a port conflicts with an older export, and with which; empty if the union has it as it is. */
function describeLoss(
  of: ExportedService,
  port: ModelPort,
  owners: ReadonlyMap<ModelPort, ExportedService | undefined>,
): string[] {
  for (const [other, winner] of owners) {
    const loss = compare(port, other);
    if (loss === undefined) continue;
    const { field, mine, theirs, outcome } = loss;
    if (mine === theirs) return [];
    const own = `${field} of ${of.namespace}/${of.name} is ${show(mine)} in cluster ${of.cluster}`;
    const isReported = winner !== undefined && isFor(winner, of.cluster);
    const others = isReported
      ? `${show(theirs)} in cluster ${winner.cluster}, whose export is older and wins`
      : "another in a cluster that does not export here, and wins";
    return [`${own} and ${others}: ${outcome}`];
  }
  return [];
}

interface Loss {
  readonly field: string;
  readonly mine: string | undefined;
  readonly theirs: string | undefined;
  readonly outcome: string;
}

/** The difference of a port to one of the union with the same number or name; undefined without such a port. */
function compare(port: ModelPort, other: ModelPort): Loss | undefined {
  const [number, taken] = [port, other].map((it) => `${it.protocol}/${it.port}`);
  if (number !== taken)
    return other.name === port.name
      ? {
          field: `port ${show(port.name)}`,
          mine: number,
          theirs: taken,
          outcome: "the other is not imported",
        }
      : undefined;
  const outcome = "the port is imported as there";
  return other.name === port.name
    ? { field: `appProtocol of port ${number}`, mine: port.appProtocol, theirs: other.appProtocol, outcome }
    : { field: `the name of port ${number}`, mine: port.name, theirs: other.name, outcome };
}

function show(value: string | undefined): string {
  return value === undefined || value === "" ? "unset" : value;
}
