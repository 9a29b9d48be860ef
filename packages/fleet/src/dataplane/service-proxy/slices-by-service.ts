import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Change } from "@fairlead/kube/types.ts";

/** Slices by the service that they belong to. */
export class SlicesByService {
  readonly #serviceOf: (slice: EndpointSlice) => ObjectKey | undefined;
  readonly #slices = new Map<ObjectKey, Map<ObjectKey, EndpointSlice>>();

  constructor(serviceOf: (slice: EndpointSlice) => ObjectKey | undefined) {
    this.#serviceOf = serviceOf;
  }

  of(service: ObjectKey): Iterable<EndpointSlice> {
    return this.#slices.get(service)?.values() ?? [];
  }

  clear(): void {
    this.#slices.clear();
  }

  /** Takes a change in and names the services that it concerns. */
  note({ key, before, after }: Change<EndpointSlice>): readonly ObjectKey[] {
    const from = before === undefined ? undefined : this.#serviceOf(before);
    const to = after === undefined ? undefined : this.#serviceOf(after);
    if (from !== undefined && from !== to) this.#remove(from, key);
    if (to !== undefined && after !== undefined) {
      let slices = this.#slices.get(to);
      if (slices === undefined) this.#slices.set(to, (slices = new Map<ObjectKey, EndpointSlice>()));
      slices.set(key, after);
    }
    return [...new Set([from, to])].filter((it) => it !== undefined);
  }

  #remove(service: ObjectKey, slice: ObjectKey): void {
    const slices = this.#slices.get(service);
    slices?.delete(slice);
    if (slices?.size === 0) this.#slices.delete(service);
  }
}
