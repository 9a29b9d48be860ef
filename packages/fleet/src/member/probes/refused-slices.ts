export interface AskedSlice {
  readonly cluster: string;
  readonly slice: string;
}

/**
 * Slices whose endpoints refuse connections: no process listens on the port, or a policy rejects them. Only endpoints that refuse are kept.
 */
export class RefusedSlices {
  /** Addresses, by cluster and slice. */
  readonly #refused = new Map<string, Map<string, Set<string>>>();

  note({ cluster, slice }: AskedSlice, address: string, isRefused: boolean): void {
    if (!isRefused) {
      this.forget(cluster, slice);
      return;
    }
    const slices = this.#refused.get(cluster) ?? new Map<string, Set<string>>();
    this.#refused.set(cluster, slices);
    slices.set(slice, (slices.get(slice) ?? new Set()).add(address));
  }

  /** A slice changed or is gone, and its ports may be others; or an endpoint of it does not refuse. */
  forget(cluster: string, slice: string): void {
    const slices = this.#refused.get(cluster);
    slices?.delete(slice);
    if (slices?.size === 0) this.#refused.delete(cluster);
  }

  /**
   * Those of which all endpoints were asked, and refused.
   *
   * @param count - Of the endpoints of a slice.
   */
  list(count: (of: AskedSlice) => number): readonly AskedSlice[] {
    return [...this.#refused].flatMap(([cluster, slices]) =>
      [...slices].flatMap(([slice, refused]) => {
        const of = { cluster, slice };
        return refused.size >= count(of) ? [of] : [];
      }),
    );
  }
}
