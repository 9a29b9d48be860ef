import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";

/** Failures in a row of a Work until they are reported: conflicts and restarts of a server are over before. */
const REPORT_AT = 3;

/** Why the agent cannot apply what is placed on this cluster, or cannot leave the fleet: for its condition `Joined`. */
export class PlacingProblems {
  /** Called when one of the two may have changed. */
  onChange: () => void = () => {};
  readonly #unreadable = new Map<string, string>();
  readonly #leaving = new Map<ObjectKey, { readonly failures: number; readonly message: string }>();

  /** For an informer. A hub may serve no Works: then none is placed. */
  onUnreadable(kind: "Work" | "AppliedWork"): (why: unknown) => void {
    const where = kind === "Work" ? "on the hub" : "in the cluster";
    return (why) => {
      const isProblem = why !== undefined && (kind === "AppliedWork" || !hasCode(why, "API_NOT_FOUND"));
      if (isProblem) this.#unreadable.set(kind, `cannot read ${kind}s ${where}: ${messageOf(why)}`);
      else this.#unreadable.delete(kind);
      this.onChange();
    };
  }

  /** @param why - Undefined: the Work is left as it should be, or need not be any more. */
  leave(key: ObjectKey, why?: unknown): void {
    const failures = (this.#leaving.get(key)?.failures ?? 0) + 1;
    if (why === undefined) {
      if (this.#leaving.delete(key)) this.onChange();
      return;
    }
    this.#leaving.set(key, { failures, message: messageOf(why) });
    if (failures >= REPORT_AT) this.onChange();
  }

  /** Undefined: it can apply what is placed. */
  get joining(): string | undefined {
    const all = [...this.#unreadable.values()];
    return all.length === 0 ? undefined : all.join("; ");
  }

  /** Undefined: it has left, or is about to. */
  get leaving(): string | undefined {
    const failing = [...this.#leaving].filter(([, it]) => it.failures >= REPORT_AT);
    const [first] = failing;
    if (first === undefined) return this.joining;
    const [key, { message }] = first;
    const more = failing.length === 1 ? "" : `, and ${failing.length - 1} others`;
    return `cannot release Work ${key}${more}: ${message}`;
  }
}
