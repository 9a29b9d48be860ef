import type { Credential, Credentials } from "#kube/config.ts";
import type { HubAccess } from "./hub-secret.ts";

/** What the member shows the hub at the moment, and by what it knows the hub; replaced while connections go on. */
export class AccessHolder implements Credentials {
  #access: HubAccess;
  #credential: Credential;
  constructor(access: HubAccess) {
    this.#access = access;
    this.#credential = credentialOf(access);
  }
  get access(): HubAccess {
    return this.#access;
  }
  set(access: HubAccess): void {
    this.#access = access;
    this.#credential = credentialOf(access);
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
