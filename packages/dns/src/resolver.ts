import type { Rng } from "@fairlead/base/rng.ts";
import { foldName, isUnder } from "#wire/name.ts";
import { type Question, RCODE, TYPE } from "#wire/types.ts";
import { type Answer, answerFromTree } from "./answer.ts";
import type { RecordTree, Zone } from "./tree.ts";

/** Another source of answers for a domain: another server, or a zone that is not a tree of records. */
export interface Forward {
  /** Folded. */
  readonly domain: string;
  /** Never throws: what cannot be had is SERVFAIL. */
  ask(question: Question): Answer | Promise<Answer>;
}

/** A list that changes is given by a function, which returns the same one until it has changed. */
export type ForwardList = readonly Forward[] | (() => readonly Forward[]);

export interface ResolverOptions {
  readonly tree: RecordTree;
  readonly rng: Rng;
  /** Until it says yes the zones are not complete, and "no such name" would be a lie. */
  readonly isReady: () => boolean;
  readonly forwards?: ForwardList;
}

/** Answers a question from the own zones or those of others, and refuses what belongs to neither. */
export type Resolve = (question: Question) => Answer | Promise<Answer>;

export function createResolver({ tree, rng, isReady, forwards = [] }: ResolverOptions): Resolve {
  let known: readonly Forward[] = [];
  let routes: readonly Forward[] = [];
  const routeOf = (name: string): Forward | undefined => {
    const now = typeof forwards === "function" ? forwards() : forwards;
    // The innermost domain decides.
    if (now !== known) routes = now.toSorted((a, b) => b.domain.length - a.domain.length);
    known = now;
    return routes.find((it) => isUnder(name, it.domain));
  };
  const zoneOf = (name: string): Zone | undefined => {
    const zone = tree.zoneOf(name);
    const route = zone === undefined ? undefined : routeOf(name);
    return route !== undefined && zone !== undefined && route.domain.length > zone.origin.length
      ? undefined
      : zone;
  };

  return function resolve(question) {
    const name = foldName(question.name);
    if (zoneOf(name) === undefined) return routeOf(name)?.ask(question) ?? failure(RCODE.REFUSED);
    if (!isReady()) return failure(RCODE.SERVFAIL);
    const answer = answerFromTree({ tree, rng, zoneOf }, question);
    if (answer === undefined) return failure(RCODE.REFUSED);
    if (answer.continueAt === undefined) return answer;
    const onward = routeOf(answer.continueAt);
    return onward === undefined ? answer : follow(answer, onward, { ...question, name: answer.continueAt });
  };
}

/** Appends the other server's answer for the target of an alias. */
async function follow(answer: Answer, route: Forward, question: Question): Promise<Answer> {
  const rest = await route.ask(question);
  // The additional records of the other server are of no use after an alias.
  return { ...rest, authoritative: false, answers: [...answer.answers, ...rest.answers], additionals: [] };
}

/** An answer without records. */
export function failure(rcode: number): Answer {
  return { rcode, authoritative: false, answers: [], authorities: [], additionals: [] };
}

/** Query types that no name answers: transfers of zones, and pseudo-records. */
export function isRefusedType(type: number): boolean {
  return type === TYPE.AXFR || type === TYPE.IXFR || type === TYPE.OPT;
}
