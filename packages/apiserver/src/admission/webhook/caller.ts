import { randomUUID } from "node:crypto";
import type { Logger } from "@fairlead/base/log.ts";
import type { Attributes } from "#registry/admission.ts";
import type { Catalog } from "#registry/catalog.ts";
import type { Question } from "#registry/replay.ts";
import { forbidden, internalError, StatusError } from "#status.ts";
import type { Conditions } from "../conditions.ts";
import { isExempt, type Match, matchesNamespace, matchesObject, matchRules } from "../match.ts";
import type { WebhookClient } from "./client.ts";
import type { Hook } from "./hooks.ts";
import { dryRunUnsupported, readVerdict, reviewRequest, reviewVersion, type Verdict } from "./review.ts";

export interface CallerServices {
  readonly catalog: Catalog;
  readonly client: WebhookClient;
  readonly conditions: Conditions;
  readonly log: Logger;
}

/** One call that is to be made. */
export interface Invocation {
  readonly hook: Hook;
  readonly match: Match;
}

/** The result of a call. */
export type Outcome = { readonly verdict: Verdict } | { readonly failure: string };

/** The common part of mutating and validating webhooks: when they are called, and how. */
export class WebhookCaller {
  readonly #services: CallerServices;
  readonly #isMutating: boolean;

  constructor(services: CallerServices, isMutating: boolean) {
    this.#services = services;
    this.#isMutating = isMutating;
  }

  /**
   * The version in which to call the hook; undefined if the request does not match.
   *
   * @throws {StatusError} if the match cannot be evaluated.
   */
  match(hook: Hook, attributes: Attributes): Invocation | undefined {
    if (isExempt(attributes.kind)) return undefined;
    const { catalog, conditions } = this.#services;
    const namespaceRefusal = attempt(() => matchesNamespace(hook, attributes));
    if (namespaceRefusal === false || !matchesObject(hook, attributes)) return undefined;
    const match = matchRules(hook.rules, hook.matchPolicy === "Equivalent", { attributes, catalog });
    if (match === undefined) return undefined;
    if (namespaceRefusal instanceof StatusError) throw namespaceRefusal;
    if (hook.matchConditions.length === 0) return { hook, match };
    const result = conditions.evaluate(hook.matchConditions, { attributes, match });
    if (result.problem === undefined) return result.isMet ? { hook, match } : undefined;
    if (hook.failurePolicy === "Ignore") return undefined;
    throw forbidden(attributes.definition, attributes.name, result.problem);
  }

  /** The question of a call, which is the same as long as what the webhook is shown is. */
  question({ hook, match }: Invocation, attributes: Attributes, round: number): Question<Outcome> {
    const shown = reviewRequest(attributes, match);
    return {
      key: `${hook.id}/${round}/${JSON.stringify(shown)}`,
      ask: (signal) => this.#ask(hook, shown, signal),
    };
  }

  async #ask(hook: Hook, shown: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<Outcome> {
    const version = reviewVersion(hook.admissionReviewVersions);
    if (version === undefined) {
      const why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
      return { failure: `could not create admission objects: ${why}` };
    }
    const uid = randomUUID();
    const body = {
      kind: "AdmissionReview",
      apiVersion: `admission.k8s.io/${version}`,
      request: { uid, ...shown },
    };
    let answer: unknown;
    try {
      const timeoutMs = hook.timeoutSeconds * 1000;
      answer = await this.#services.client.call({ config: hook.clientConfig, body, timeoutMs, signal });
    } catch (error) {
      return { failure: `failed to call webhook: ${(error as Error).message}` };
    }
    try {
      return { verdict: readVerdict(answer, { uid, version, isMutating: this.#isMutating }) };
    } catch (error) {
      return { failure: `received invalid webhook response: ${(error as Error).message}` };
    }
  }

  /** Reports the warnings and audit annotations of a verdict. */
  report({ name }: Hook, { warnings, auditAnnotations }: Verdict, attributes: Attributes): void {
    for (const it of warnings) attributes.warn(it);
    for (const [key, value] of Object.entries(auditAnnotations)) attributes.annotate(`${name}/${key}`, value);
  }

  /** @throws {StatusError} unless failures of the hook are to be ignored. */
  fail({ name, failurePolicy }: Hook, failure: string): void {
    const why = `failed calling webhook ${JSON.stringify(name)}: ${failure}`;
    const isIgnored = failurePolicy === "Ignore";
    this.#services.log.warn("webhook call failed", {
      webhook: name,
      isIgnored,
      error: failure,
    });
    if (!isIgnored) throw internalError(why);
  }
}

/** A hook that may have effects elsewhere is not called for what is not done. */
export function checkSideEffects({ name, sideEffects }: Hook, { dryRun }: Attributes): void {
  if (dryRun && sideEffects !== "None" && sideEffects !== "NoneOnDryRun") throw dryRunUnsupported(name);
}

/** The refusal instead of the result: it only counts for hooks that match otherwise. */
function attempt<T>(work: () => T): T | StatusError {
  try {
    return work();
  } catch (error) {
    if (error instanceof StatusError) return error;
    throw error;
  }
}
