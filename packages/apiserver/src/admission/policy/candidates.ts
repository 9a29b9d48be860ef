import type { Catalog } from "#registry/catalog.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { Attributes } from "#registry/admission.ts";
import { mayMatchRules } from "../match.ts";
import type { BoundPolicies } from "./policies.ts";
import type { BoundPolicy } from "./types.ts";

/** The policies whose rules may speak of a request: found once for each kind of request, until policies or kinds change. */
export class Candidates {
  readonly #policies: BoundPolicies;
  readonly #catalog: Catalog;
  readonly #known = new Map<ResourceDefinition, Map<string, readonly BoundPolicy[]>>();
  #bound: readonly BoundPolicy[] = [];
  #generation = -1;

  constructor(policies: BoundPolicies, catalog: Catalog) {
    this.#policies = policies;
    this.#catalog = catalog;
  }

  of(attributes: Attributes): readonly BoundPolicy[] {
    const bound = this.#policies.all;
    if (bound.length === 0) return bound;
    if (this.#bound !== bound || this.#generation !== this.#catalog.generation) {
      this.#known.clear();
      this.#bound = bound;
      this.#generation = this.#catalog.generation;
    }
    const { definition, operation, subresource } = attributes;
    const ofResource = this.#known.get(definition) ?? new Map<string, readonly BoundPolicy[]>();
    this.#known.set(definition, ofResource);
    const request = `${operation} ${subresource}`;
    const found = ofResource.get(request) ?? bound.filter((it) => this.#mayMatch(it, attributes));
    ofResource.set(request, found);
    return found;
  }

  #mayMatch({ policy }: BoundPolicy, attributes: Attributes): boolean {
    const { resourceRules = [], matchPolicy = "Equivalent" } = policy.spec.matchConstraints ?? {};
    if (resourceRules.length === 0) return true;
    return mayMatchRules(resourceRules, matchPolicy === "Equivalent", { attributes, catalog: this.#catalog });
  }
}
