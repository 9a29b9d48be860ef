/** The credentials in a kubeconfig. */
export type KubeconfigCredentials =
  | { readonly cert: string; readonly key: string }
  | { readonly token: string };

export type KubeconfigOptions = KubeconfigCredentials & {
  /** For example https://127.0.0.1:6443. */
  readonly server: string;
  /** Certificate of the authority that signed the server's, in PEM. */
  readonly ca: string;
  /** Name of the cluster, and part of the names below. Default: fairlead. */
  readonly cluster?: string;
  /** Default: the user's name at the cluster. */
  readonly context?: string;
  /** Default: admin. */
  readonly user?: string;
  /** Namespace of the context. */
  readonly namespace?: string;
};

/**
 * The text of a kubeconfig file with one cluster, one user and one context, which is the current one. JSON, which every
 * reader of kubeconfigs takes: our own programs then need no YAML parser to start, and nothing in a name can end a
 * string.
 */
export function renderKubeconfig(options: KubeconfigOptions): string {
  const cluster = options.cluster ?? "fairlead";
  const user = options.user ?? "admin";
  const context = options.context ?? `${user}@${cluster}`;
  const namespace = options.namespace === undefined ? {} : { namespace: options.namespace };
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [
      {
        name: cluster,
        cluster: { server: options.server, "certificate-authority-data": base64(options.ca) },
      },
    ],
    users: [{ name: user, user: credentialFields(options) }],
    contexts: [{ name: context, context: { cluster, user, ...namespace } }],
    "current-context": context,
  };
  return `${JSON.stringify(config, null, 2)}\n`;
}

function credentialFields(credentials: KubeconfigCredentials): Readonly<Record<string, string>> {
  if ("token" in credentials) return { token: credentials.token };
  return {
    "client-certificate-data": base64(credentials.cert),
    "client-key-data": base64(credentials.key),
  };
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}
