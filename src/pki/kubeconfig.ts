/** Whose credentials a kubeconfig carries. */
type KubeconfigCredentials = { readonly cert: string; readonly key: string } | { readonly token: string };

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

/** The text of a kubeconfig file with one cluster, one user and one context, which is the current one. */
export function renderKubeconfig(options: KubeconfigOptions): string {
  const cluster = options.cluster ?? "fairlead";
  const user = options.user ?? "admin";
  const context = options.context ?? `${user}@${cluster}`;
  const namespace = options.namespace === undefined ? [] : [`    namespace: ${quote(options.namespace)}`];
  return [
    "apiVersion: v1",
    "kind: Config",
    "clusters:",
    `- name: ${quote(cluster)}`,
    "  cluster:",
    `    server: ${quote(options.server)}`,
    `    certificate-authority-data: ${base64(options.ca)}`,
    "users:",
    `- name: ${quote(user)}`,
    "  user:",
    ...credentialLines(options),
    "contexts:",
    `- name: ${quote(context)}`,
    "  context:",
    `    cluster: ${quote(cluster)}`,
    `    user: ${quote(user)}`,
    ...namespace,
    `current-context: ${quote(context)}`,
    "",
  ].join("\n");
}

function credentialLines(credentials: KubeconfigCredentials): readonly string[] {
  if ("token" in credentials) return [`    token: ${quote(credentials.token)}`];
  return [
    `    client-certificate-data: ${base64(credentials.cert)}`,
    `    client-key-data: ${base64(credentials.key)}`,
  ];
}

/** JSON strings are YAML strings in double quotes: nothing in a name can end one. */
function quote(text: string): string {
  return JSON.stringify(text);
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}
