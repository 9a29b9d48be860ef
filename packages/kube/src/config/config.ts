/** The address of an API server and the credentials for it. Made by `loadKubeconfig`, `inClusterConfig` or by hand. */
export interface ClusterConfig {
  /** For messages and logs: the context's name, or "in-cluster". */
  readonly name: string;
  /** `https://host:port`, with a path where the server lives under one. */
  readonly server: string;
  /** Certificates that the server's is checked against, PEM. Default: those of the system. */
  readonly ca?: string;
  /** Name that the server's certificate must have, where it is not the host of `server`. */
  readonly tlsServerName?: string;
  /** Take any certificate. Only where a kubeconfig says so. */
  readonly insecureSkipTlsVerify?: boolean;
  readonly credentials: Credentials;
  /** Sent with every request in addition to the client's own headers: for a gateway in front of the server. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The context's namespace, for commands of people. */
  readonly namespace?: string;
}

/** Authenticates the client. Never logged. */
export interface Credential {
  readonly token?: string;
  readonly username?: string;
  readonly password?: string;
  /** Client certificate and its key, PEM. */
  readonly certificate?: string;
  readonly key?: string;
  /** In place of the `ca` of the cluster's configuration, where an authority is replaced while we run. PEM. */
  readonly ca?: string;
}

export interface Credentials {
  /** The credential of the moment; cheap to call for every request. */
  current(signal?: AbortSignal): Promise<Credential>;
  /** The server refused the credential: the next `current` must not come from a cache. */
  expire(): void;
}

/** A credential that does not change. */
export function fixedCredentials(credential: Credential): Credentials {
  return { current: () => Promise.resolve(credential), expire() {} };
}
