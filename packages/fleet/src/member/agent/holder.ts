import { defined } from "@fairlead/base/defined.ts";
import type { ClusterConfig, Credential, Credentials } from "@fairlead/kube/config/config.ts";
import { isSameBundle } from "@fairlead/base/pki/bundle.ts";
import type { HubAccess } from "#api/fairlead.dev/hub-secret.ts";

/** Receives the authorities by which the hub was known before. */
export type AuthorityListener = (before: string) => void;

/** The member's current credentials and the CA of the hub; replaceable while connections stay open. */
export class AccessHolder implements Credentials {
  #access: HubAccess;
  #credential: Credential;
  readonly #listeners = new Set<AuthorityListener>();
  constructor(access: HubAccess) {
    this.#access = access;
    this.#credential = credentialOf(access);
  }
  get access(): HubAccess {
    return this.#access;
  }
  set(access: HubAccess): void {
    const { ca } = this.#access;
    this.#access = access;
    this.#credential = credentialOf(access);
    if (ca === undefined || access.ca === undefined || isSameBundle(ca, access.ca)) return;
    for (const listener of this.#listeners) listener(ca);
  }
  /** Calls back each time the hub is known by other authorities. */
  onAuthority(listener: AuthorityListener): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }
  current(): Promise<Credential> {
    return Promise.resolve(this.#credential);
  }
  /** The Secret's watch brings a newer one, or a renewal does: nothing is cached here. */
  expire(): void {}
}

function credentialOf({ proof, ca }: HubAccess): Credential {
  const by = ca === undefined ? {} : { ca };
  return proof.kind === "certificate"
    ? { certificate: proof.pair.cert, key: proof.pair.key, ...by }
    : { token: proof.token, ...by };
}

/** The hub as a client connects to it. */
export function hubConfig({ cluster, server, ca }: HubAccess, holder: AccessHolder): ClusterConfig {
  return { name: `hub of ${cluster}`, server, ...defined({ ca }), credentials: holder };
}
