import { AsyncLocalStorage } from "node:async_hooks";

/**
 * The origin of a request: the controller whose pass it belongs to. It travels with the pass, so that clients can
 * share their connections fairly between controllers without every call naming its own.
 */
const flows = new AsyncLocalStorage<string>();

export function withFlow<T>(name: string, body: () => T): T {
  return flows.run(name, body);
}

/** Undefined outside of any pass: elections, leases, credentials. */
export function currentFlow(): string | undefined {
  return flows.getStore();
}
