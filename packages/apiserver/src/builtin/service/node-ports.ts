import type { ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { type FieldError, internalError, StatusError } from "#status.ts";
import { invalid } from "#values/field-errors.ts";
import type { ServiceAllocations } from "./allocations.ts";
import { isOnNodes, needsHealthCheckNodePort, needsNodePort, nodePortsOf, portsOf } from "./shape.ts";

/** Which ports on the nodes a Service has, those that it names and those that it is given. */

/** The ports of one write. */
class Taking {
  readonly #key: ObjectKey;
  readonly #allocations: ServiceAllocations;
  readonly #used: Set<number>;

  constructor(spec: ServiceSpec, key: ObjectKey, allocations: ServiceAllocations) {
    this.#key = key;
    this.#allocations = allocations;
    this.#used = new Set(nodePortsOf(spec));
  }

  /** Why the Service cannot have this port, apart from ports that it already holds. */
  refuse(port: number, held: ReadonlySet<number> = new Set()): string | undefined {
    if (held.has(port)) return "provided port is already allocated";
    return this.#allocations.refusePort(port, this.#key);
  }

  /** @throws {StatusError} 500 if no port is free. */
  choose(what = "a nodePort"): number {
    const port = this.#allocations.choosePort(this.#key, this.#used);
    if (port === undefined) throw internalError(`failed to allocate ${what}: range is full`);
    this.#used.add(port);
    return port;
  }

  /** @throws {StatusError} 500, as upstream says it, where the port that is named cannot be had. */
  forHealthChecks(spec: ServiceSpec, others: ReadonlySet<number>): void {
    const named = spec.healthCheckNodePort ?? 0;
    if (named === 0) {
      spec.healthCheckNodePort = this.choose("a HealthCheck NodePort 0");
      return;
    }
    const why = this.refuse(named, others);
    if (why === undefined) return;
    throw internalError(`failed to allocate requested HealthCheck NodePort ${named}: ${why}`);
  }
}

/** For a new Service: ports of one number, such as DNS by UDP and TCP, share a node port. */
export function choosePorts(
  spec: ServiceSpec,
  key: ObjectKey,
  allocations: ServiceAllocations,
): readonly FieldError[] {
  const taking = new Taking(spec, key, allocations);
  const held = new Set<number>();
  const errors = isOnNodes(spec) ? choosePortsByNumber(spec, taking, held) : [];
  if (errors.length === 0 && needsHealthCheckNodePort(spec)) taking.forHealthChecks(spec, held);
  return errors;
}

function choosePortsByNumber(spec: ServiceSpec, taking: Taking, held: Set<number>): readonly FieldError[] {
  const byNumber = new Map<number, number>();
  // The node port that any port of the same number names.
  const named = new Map(
    portsOf(spec)
      .filter((it) => (it.nodePort ?? 0) !== 0)
      .map((it) => [it.port, it.nodePort] as const)
      .toReversed(),
  );
  for (const [at, port] of portsOf(spec).entries()) {
    const asked = port.nodePort ?? 0;
    if (asked === 0 && !needsNodePort(spec)) continue;
    const shared = byNumber.get(port.port);
    const wanted = shared === undefined ? named.get(port.port) : asked || shared;
    const isNew = wanted !== undefined && wanted !== shared;
    const why = isNew ? taking.refuse(wanted, held) : undefined;
    if (why !== undefined) return [invalid(`spec.ports[${at}].nodePort`, wanted, why)];
    const nodePort = wanted ?? taking.choose();
    port.nodePort = nodePort;
    held.add(nodePort);
    if (shared === undefined) byNumber.set(port.port, nodePort);
  }
  return [];
}

/** For a Service that has some: its own may stay and move between its ports. */
export function choosePortsAgain(
  spec: ServiceSpec,
  old: ServiceSpec,
  key: ObjectKey,
  allocations: ServiceAllocations,
): readonly FieldError[] {
  const taking = new Taking(spec, key, allocations);
  const seen = new Set<string>();
  for (const [at, port] of (isOnNodes(spec) ? portsOf(spec) : []).entries()) {
    const asked = port.nodePort ?? 0;
    if (asked === 0 && !needsNodePort(spec)) continue;
    const why = asked === 0 ? undefined : taking.refuse(asked);
    if (why !== undefined) return [invalid(`spec.ports[${at}].nodePort`, asked, why)];
    port.nodePort = asked === 0 ? taking.choose() : asked;
    const pair = `${port.protocol} ${port.nodePort}`;
    if (seen.has(pair)) throw new StatusError({ code: 500, message: `duplicate nodePort: {${pair}}` });
    seen.add(pair);
  }
  if (needsHealthCheckNodePort(spec) && !needsHealthCheckNodePort(old)) {
    taking.forHealthChecks(spec, new Set(portsOf(spec).map((it) => it.nodePort ?? 0)));
  }
  return [];
}
