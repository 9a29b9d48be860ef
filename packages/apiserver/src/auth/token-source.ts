import type { ObjectReader, UserInfo } from "#values/object.ts";
import { StatusError } from "#status.ts";

/** The present state that tokens are validated against. */
export interface TokenContext {
  readonly reader: ObjectReader;
  /** Unit: milliseconds since the epoch. */
  readonly nowMs: number;
}

export interface TokenIdentity {
  readonly user: UserInfo;
  /** Those of the audiences asked for that the token is meant for. */
  readonly audiences: readonly string[];
}

type Found = TokenIdentity | undefined;

/** One kind of bearer token. */
export interface TokenSource {
  /** The user of a token; undefined if the token is of another kind, or not valid for any of `audiences`. */
  authenticate(token: string, audiences: readonly string[], context: TokenContext): Found | Promise<Found>;
}

/** Asks one source after the other. Waits only for those that have to. */
export function firstIdentity(
  sources: readonly TokenSource[],
  ask: (source: TokenSource) => Found | Promise<Found>,
): Found | Promise<Found> {
  for (const [index, source] of sources.entries()) {
    const found = ask(source);
    if (found instanceof Promise) {
      return found.then((it) => it ?? firstIdentity(sources.slice(index + 1), ask));
    }
    if (found !== undefined) return found;
  }
  return undefined;
}

/** A source that refuses what is not its own: such a token may still be another one's. */
export function tolerant(source: {
  authenticate(
    token: string,
    audiences: readonly string[],
    context: TokenContext,
  ): TokenIdentity | Promise<TokenIdentity>;
}): TokenSource {
  const unlessOurs = (error: unknown): undefined => {
    if (error instanceof StatusError && error.code === 401) return undefined;
    throw error;
  };
  return {
    authenticate(token, audiences, context) {
      try {
        const found = source.authenticate(token, audiences, context);
        return found instanceof Promise ? found.catch(unlessOurs) : found;
      } catch (error) {
        return unlessOurs(error);
      }
    },
  };
}

/** For tokens without audiences, which are valid only for the API server. */
export function forApiServer(user: UserInfo, audiences: readonly string[], own: readonly string[]): Found {
  const shared = audiences.filter((it) => own.includes(it));
  return shared.length === 0 ? undefined : { user, audiences: shared };
}
