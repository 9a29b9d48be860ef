import type { Attributes } from "#registry/admission.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { AdmissionPlugin } from "../chain.ts";
import { isExempt } from "../match.ts";
import { type CallerServices, checkSideEffects, WebhookCaller } from "./caller.ts";
import type { Hooks } from "./hooks.ts";
import { denied } from "./review.ts";

/** ValidatingAdmissionWebhook: all hooks are asked at once, and any of them may refuse. */
export class ValidatingWebhooks implements AdmissionPlugin {
  readonly #hooks: Hooks;
  readonly #caller: WebhookCaller;

  constructor(hooks: Hooks, services: CallerServices) {
    this.#hooks = hooks;
    this.#caller = new WebhookCaller(services, false);
  }

  isActive(definition: ResourceDefinition): boolean {
    return this.#hooks.all.length > 0 && !isExempt(definition);
  }

  validate(attributes: Attributes): void {
    if (this.#hooks.all.length === 0) return;
    const caller = this.#caller;
    const due = this.#hooks.all.flatMap((it) => caller.match(it, attributes) ?? []);
    for (const { hook } of due) checkSideEffects(hook, attributes);
    const outcomes = attributes.replay.answersTo(due.map((it) => caller.question(it, attributes, 0)));
    const verdicts = due.map(({ hook }, at) => ({ hook, outcome: outcomes[at] }));
    for (const { hook, outcome } of verdicts) {
      if (outcome !== undefined && "verdict" in outcome) caller.report(hook, outcome.verdict, attributes);
    }
    for (const { hook, outcome } of verdicts) {
      if (outcome === undefined) continue;
      if ("failure" in outcome) caller.fail(hook, outcome.failure);
      else if (!outcome.verdict.allowed) throw denied(hook.name, outcome.verdict.status);
    }
  }
}
