/** The checks of a program, for /healthz and /readyz. */

export interface HealthCheck {
  /** Lower case, with dashes and slashes. */
  readonly name: string;
  /** "live": a restart would repair it. "ready": the program does not do its work yet. "note": information only. */
  readonly kind: "live" | "ready" | "note";
  /** The problem in a few words; undefined while healthy. */
  readonly problem: () => string | undefined;
}

export interface Health {
  register(check: HealthCheck): Disposable;
  /** The same registry, with the prefix `name/` for the names of checks. */
  part(name: string): Health;
}

/** Keeps the checks of one program, in the order in which they came. */
export class HealthRegistry implements Health {
  readonly #checks = new Set<HealthCheck>();

  register(check: HealthCheck): Disposable {
    this.#checks.add(check);
    return { [Symbol.dispose]: () => void this.#checks.delete(check) };
  }

  part(name: string): Health {
    return partOf(this, name);
  }

  *[Symbol.iterator](): IterableIterator<HealthCheck> {
    yield* this.#checks;
  }
}

function partOf(health: Health, name: string): Health {
  const own: Health = {
    register: (check) => health.register({ ...check, name: `${name}/${check.name}` }),
    part: (inner) => partOf(own, inner),
  };
  return own;
}

/** For programs without health endpoints. */
export const noHealth: Health = {
  register: () => ({ [Symbol.dispose]() {} }),
  part: () => noHealth,
};
