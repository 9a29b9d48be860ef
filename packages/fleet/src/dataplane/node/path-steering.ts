import type { Clock } from "@fairlead/base/clock.ts";
import type { Logger } from "@fairlead/base/log.ts";
import type { UdpEndpoint } from "../control/datagram.ts";
import type { BlockedSource } from "../control/port-share.ts";
import type { Endpoint, Pair } from "./devices.ts";
import {
  choosePath,
  type ChosenPath,
  type DirectPath,
  endpointText,
  isLivingPath,
  isSameEndpoint,
} from "./path-choice.ts";

export interface SteeringView {
  /** This gateway's cluster. */
  readonly cluster: string;
  readonly direct: (pair: Pair) => readonly DirectPath[];
  readonly relays: ReadonlyMap<string, UdpEndpoint>;
  readonly tls: ReadonlyMap<string, UdpEndpoint>;
}

/** After a move, endpoints are looked at so often, until they have been as chosen for so long. Unit: milliseconds. */
const LOOK_MS = 250;
const SETTLED_MS = 1000;
/** So long a tunnel that is there already is not moved, so that its direct path can be probed. Unit: milliseconds. */
const ADOPT_MS = 1000;

/**
 * Keeps each tunnel on the path chosen for it. WireGuard sends to where the last datagram came from, so a late one that came by the old
 * path returns the tunnel there, before the other gateway has seen the new path: the endpoint is set again until it stays.
 */
export class PathSteering {
  readonly #clock: Clock;
  readonly #log: Logger;
  /** The path that this gateway chose for each pair. */
  #chosen: ReadonlyMap<string, ChosenPath> = new Map();
  #blocked: ReadonlyMap<string, BlockedSource> = new Map();
  /** Endpoints that an earlier agent left, while they are not to be changed. */
  #adopted: ReadonlyMap<string, string> = new Map();
  #adoptedUntilMs = Number.NEGATIVE_INFINITY;
  #leftDirect: readonly string[] = [];
  #movedAtMs = Number.NEGATIVE_INFINITY;

  constructor({ clock, log }: { readonly clock: Clock; readonly log: Logger }) {
    this.#clock = clock;
    this.#log = log;
  }

  /**
   * @param endpoints - Where an earlier agent left tunnels.
   * @returns How long they stay there. Unit: milliseconds.
   */
  adopt(endpoints: ReadonlyMap<string, string>): number {
    this.#adopted = endpoints;
    this.#adoptedUntilMs = this.#clock.monotonic() + ADOPT_MS;
    return ADOPT_MS;
  }

  /** Where each tunnel is sent. The gateway of the higher name begins at a relay and then follows the other one. */
  choose(pairs: readonly Pair[], view: SteeringView): ReadonlyMap<string, Endpoint> {
    const before = this.#chosen;
    const chosen = new Map<string, ChosenPath>();
    for (const pair of pairs) {
      const path = this.#choose(pair, view);
      if (path !== undefined) chosen.set(pair.id, path);
      if (path?.kind !== before.get(pair.id)?.kind)
        this.#log.info("the path of a tunnel changed", { gateway: pair.id, path: path?.kind ?? "none" });
    }
    this.#chosen = chosen;
    this.#leftDirect = [...before].flatMap(([id, { kind }]) =>
      kind === "direct" && chosen.get(id)?.kind !== "direct" ? [id] : [],
    );
    const endpointOf = (pair: Pair, { kind, endpoint }: ChosenPath): Endpoint => ({
      endpoint: endpointText(endpoint),
      isHeld: isHeld(pair, kind, view),
    });
    return new Map(
      pairs.flatMap((pair) => {
        const path = chosen.get(pair.id);
        return path === undefined ? [] : [[pair.id, endpointOf(pair, path)] as const];
      }),
    );
  }

  /** Whether this gateway chose another direct path for the tunnel. */
  isElsewhere(pair: Pair, endpoint: UdpEndpoint): boolean {
    const path = this.#chosen.get(pair.id);
    return path?.kind === "direct" && !isSameEndpoint(path.endpoint, endpoint);
  }

  /** Pairs that the last choice took from a direct path. */
  get leftDirect(): readonly string[] {
    return this.#leftDirect;
  }

  /** Pairs whose chosen path is of that kind. */
  *of(kind: ChosenPath["kind"]): Iterable<string> {
    for (const [id, it] of this.#chosen) if (it.kind === kind) yield id;
  }

  /**
   * Takes note of the endpoints that WireGuard was found with.
   *
   * @returns What is to be blocked: where datagrams still come by a direct path that carries none to the other side.
   */
  note(
    pairs: readonly Pair[],
    found: ReadonlyMap<string, string>,
    view: SteeringView,
  ): readonly BlockedSource[] {
    const now = this.#clock.monotonic();
    const blocked = new Map<string, BlockedSource>();
    for (const pair of pairs) {
      const path = this.#chosen.get(pair.id);
      const endpoint = found.get(pair.id);
      if (path === undefined || endpoint === undefined || !isHeld(pair, path.kind, view)) continue;
      if (endpoint !== endpointText(path.endpoint)) this.#movedAtMs = now;
      const source = path.kind === "direct" ? undefined : this.#pullBack(pair, endpoint, view.direct(pair));
      if (source !== undefined) blocked.set(pair.id, { port: pair.port, source });
    }
    this.#blocked = blocked;
    return [...blocked.values()];
  }

  /** Whether WireGuard has left the path that was chosen. */
  hasStrayed(pair: Pair, endpoint: string | undefined): boolean {
    const path = this.#chosen.get(pair.id);
    return path?.kind === "direct" && endpoint !== undefined && endpoint !== endpointText(path.endpoint);
  }

  /** When endpoints are to be looked at again; undefined while they are as chosen. Unit: milliseconds. */
  get lookInMs(): number | undefined {
    return this.#clock.monotonic() - this.#movedAtMs < SETTLED_MS ? LOOK_MS : undefined;
  }

  /** A dead direct path by which datagrams of the pair still come, or came until they were dropped. */
  #pullBack({ id }: Pair, endpoint: string, paths: readonly DirectPath[]): UdpEndpoint | undefined {
    const now = this.#clock.monotonic();
    const wasBlocked = this.#blocked.get(id)?.source;
    const isPulling = (it: UdpEndpoint): boolean =>
      endpointText(it) === endpoint || isSameEndpoint(it, wasBlocked);
    return paths.find((it) => !isLivingPath(it, now) && isPulling(it.endpoint))?.endpoint;
  }

  #choose(pair: Pair, { cluster, direct, relays, tls }: SteeringView): ChosenPath | undefined {
    const nowMs = this.#clock.monotonic();
    const before = this.#chosen.get(pair.id);
    const paths = direct(pair);
    const others = { nowMs, relay: relays.get(pair.id), tcp: tls.get(pair.id) };
    if (!leads(cluster, pair)) {
      // It has followed to the direct path: another relay does not matter.
      const hasFollowed = before?.kind === "relay" && paths.some((it) => isLivingPath(it, nowMs));
      return hasFollowed ? before : choosePath({ ...others, direct: [], current: before?.endpoint });
    }
    const current = before?.endpoint ?? this.#adoptedPath(pair, paths);
    const path = choosePath({ ...others, direct: paths, current });
    return before !== undefined || this.#mayLeave(pair, path, nowMs) ? path : undefined;
  }

  /** Whether the tunnel of an earlier agent may take the path. */
  #mayLeave({ id }: Pair, path: ChosenPath | undefined, nowMs: number): boolean {
    const adopted = nowMs < this.#adoptedUntilMs ? this.#adopted.get(id) : undefined;
    if (adopted === undefined || path?.kind === "direct") return true;
    return path !== undefined && endpointText(path.endpoint) === adopted;
  }

  #adoptedPath({ id }: Pair, paths: readonly DirectPath[]): UdpEndpoint | undefined {
    return paths.find((it) => endpointText(it.endpoint) === this.#adopted.get(id))?.endpoint;
  }
}

/** Of two gateways that of the lower cluster name chooses. */
function leads(cluster: string, pair: Pair): boolean {
  return cluster < pair.remote.cluster;
}

/** A direct path is proven by its probes, in both directions; of relays, the one by which datagrams arrive is as good. */
function isHeld(pair: Pair, kind: ChosenPath["kind"], { cluster, direct }: SteeringView): boolean {
  if (!leads(cluster, pair) || kind === "tcp") return false;
  return kind === "direct" || direct(pair).some((it) => it.failedAtMs !== undefined);
}
