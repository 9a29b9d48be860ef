import type { TrafficTarget } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";
import type { Outcome, TrafficName, TrafficProvider } from "../provider.ts";

/** A provider in memory, for tests of the controller. The contract that real providers keep holds for it too. */
export class FakeTrafficProvider implements TrafficProvider {
  readonly zone = "tm.example";
  readonly names = new Map<string, readonly TrafficTarget[]>();
  /** Names that belong to others. */
  readonly foreign = new Set<string>();
  writes = 0;
  /** What the next calls come to, while it is set. */
  fails: Error | undefined;
  refuses: string | undefined;
  readonly #listeners = new Set<(label: string) => void>();

  start(): Promise<void> {
    return Promise.resolve();
  }

  async program({ label, targets }: TrafficName): Promise<Outcome> {
    await this.#call();
    if (this.refuses !== undefined) return { kind: "refused", message: this.refuses };
    if (this.foreign.has(label)) return { kind: "taken", message: `${label} has another owner` };
    const changed = JSON.stringify(this.names.get(label)) !== JSON.stringify(targets);
    if (changed) this.writes += 1;
    this.names.set(label, targets);
    return { kind: "programmed", changed };
  }

  async withdraw(label: string): Promise<void> {
    await this.#call();
    if (this.names.delete(label)) this.writes += 1;
  }

  subscribe(onChange: (label: string) => void): Disposable {
    const own = (label: string): void => onChange(label);
    this.#listeners.add(own);
    return { [Symbol.dispose]: () => void this.#listeners.delete(own) };
  }

  /** Changes a name as another client would. */
  damage(label: string): void {
    this.names.set(label, []);
    for (const listener of this.#listeners) listener(label);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return Promise.resolve();
  }

  async #call(): Promise<void> {
    await Promise.resolve();
    if (this.fails !== undefined) throw this.fails;
  }
}
