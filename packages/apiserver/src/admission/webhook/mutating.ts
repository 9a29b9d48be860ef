import { parseExact } from "@fairlead/base/exact-json.ts";
import { cloneJson, isObject, sameJson } from "@fairlead/base/json.ts";
import { applyJsonPatch } from "#patch/json-patch.ts";
import type { Attributes } from "#registry/admission.ts";
import { Pending } from "#registry/pending.ts";
import { applySchemaDefaults, checkFields } from "#registry/shape.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { internalError } from "#status.ts";
import type { AdmissionPlugin, Round } from "../chain.ts";
import { convertObject, isExempt, type Match } from "../match.ts";
import { type CallerServices, checkSideEffects, type Invocation, WebhookCaller } from "./caller.ts";
import type { Hook, Hooks } from "./hooks.ts";
import { denied, type Verdict } from "./review.ts";

/** The state of the first round that the second one needs. */
interface Memory {
  /** Hooks that may be called again, and were called before. */
  readonly called: Set<string>;
  /** Those that are to be called again, because something behind them changed the object. */
  readonly due: Set<string>;
  output: ApiObject | undefined;
}

/** MutatingAdmissionWebhook: one hook after the other, each on what those before it made (KEP-1872 for the second round). */
export class MutatingWebhooks implements AdmissionPlugin {
  readonly #hooks: Hooks;
  readonly #caller: WebhookCaller;

  constructor(hooks: Hooks, services: CallerServices) {
    this.#hooks = hooks;
    this.#caller = new WebhookCaller(services, true);
  }

  isActive(definition: ResourceDefinition): boolean {
    return this.#hooks.all.length > 0 && !isExempt(definition);
  }

  mutate(attributes: Attributes, round: Round): ApiObject | undefined {
    if (this.#hooks.all.length === 0) return attributes.object;
    const memory = this.#memory(round);
    if (round.isAgain && !sameJson(memory.output, attributes.object)) requireAgain(memory);
    let { object } = attributes;
    for (const hook of this.#hooks.all) {
      if (round.isAgain && !memory.due.has(hook.id)) continue;
      const made = this.#call(hook, { ...attributes, object }, round);
      if (made === undefined) continue;
      if (made.isChanged) {
        requireAgain(memory);
        round.reinvoke();
      }
      if (hook.reinvocationPolicy === "IfNeeded") memory.called.add(hook.id);
      ({ object } = made);
    }
    memory.output = object;
    return object;
  }

  #memory({ memory }: Round): Memory {
    const known = memory.get(this) as Memory | undefined;
    if (known !== undefined) return known;
    const made: Memory = { called: new Set(), due: new Set(), output: undefined };
    memory.set(this, made);
    return made;
  }

  /** Undefined: the hook is not for this request. */
  #call(
    hook: Hook,
    attributes: Attributes,
    { isAgain }: Round,
  ): { readonly object: ApiObject | undefined; readonly isChanged: boolean } | undefined {
    const caller = this.#caller;
    const invocation = caller.match(hook, attributes);
    if (invocation === undefined) return undefined;
    checkSideEffects(hook, attributes);
    const [outcome] = attributes.replay.answersTo([caller.question(invocation, attributes, isAgain ? 1 : 0)]);
    if (outcome === undefined || "failure" in outcome) {
      caller.fail(hook, outcome?.failure ?? "");
      return { object: attributes.object, isChanged: false };
    }
    caller.report(hook, outcome.verdict, attributes);
    if (!outcome.verdict.allowed) throw denied(hook.name, outcome.verdict.status);
    return this.#patch(invocation, attributes, outcome.verdict);
  }

  #patch(
    { hook, match }: Invocation,
    attributes: Attributes,
    { patch }: Verdict,
  ): { readonly object: ApiObject | undefined; readonly isChanged: boolean } {
    const { object } = attributes;
    const operations = patch === undefined ? [] : this.#parse(hook, patch);
    if (operations.length === 0) return { object, isChanged: false };
    if (object === undefined) {
      const which = `admission webhook ${JSON.stringify(hook.name)}`;
      throw internalError(
        `${which} attempted to modify the object, which is not supported for this operation`,
      );
    }
    const made = patched(attributes, match, operations);
    return sameJson(made, object) ? { object, isChanged: false } : { object: made, isChanged: true };
  }

  #parse(hook: Hook, patch: string): readonly unknown[] {
    try {
      const parsed = parseExact(patch);
      if (parsed === null) return [];
      if (Array.isArray(parsed)) return parsed;
      throw new Error("json: cannot unmarshal object into Go value of type jsonpatch.Patch");
    } catch (error) {
      this.#caller.fail(hook, `received undecodable patch in webhook response: ${(error as Error).message}`);
      return [];
    }
  }
}

function requireAgain(memory: Memory): void {
  for (const id of memory.called) memory.due.add(id);
  memory.called.clear();
}

/** The object with a patch applied in the version that the webhook saw, as the kind's types take it, with its defaults. */
function patched(attributes: Attributes, { resource }: Match, operations: readonly unknown[]): ApiObject {
  const { definition } = attributes;
  const object = attributes.object as ApiObject;
  try {
    const seen = convertObject(object, definition, resource);
    const made = applyJsonPatch(seen, operations);
    if (!isObject(made) || !isObject(made["metadata"])) throw new Error("the patched object has no metadata");
    const isOwnKind = seen.kind === resource.kind;
    const decoded = isOwnKind ? decodeAs(resource, made as ApiObject) : (made as ApiObject);
    return convertObject(decoded, resource, definition);
  } catch (error) {
    if (error instanceof Pending) throw error;
    throw internalError((error as Error).message);
  }
}

function decodeAs(definition: ResourceDefinition, made: ApiObject): ApiObject {
  const warn = (): void => {};
  const object = cloneJson(
    checkFields({ definition, object: made, duplicates: [], validation: "Ignore", warn }),
  );
  applySchemaDefaults(definition, object);
  definition.strategy.applyDefaults?.(object);
  return object;
}
