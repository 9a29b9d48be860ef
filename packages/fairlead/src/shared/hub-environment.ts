import { defined } from "@fairlead/base/defined.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { isClusterName } from "@fairlead/fleet/api/fairlead.dev/cluster-names.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import { fileSource } from "@fairlead/kube/config/file-source.ts";

/** The configuration of fleet-networking's managers for their hub: environment variables, and a token in a file. */
export interface HubEnvironment {
  /** The member's name. */
  readonly cluster: string;
  readonly config: ClusterConfig;
  /** Resolves with true once the token is there: a sidecar writes it. */
  readonly hasToken: () => Promise<boolean>;
  readonly tokenFile: string;
}

/** @throws {FleetError} `OPTION_INVALID` naming the variable. */
export function readHubEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  options: { readonly isInsecure: boolean; readonly clock: Clock },
): HubEnvironment {
  const server = need(env, "HUB_SERVER_URL");
  if (!URL.canParse(server) || !/^https?:$/.test(new URL(server).protocol))
    throw invalid("HUB_SERVER_URL", "is not the URL of an API server");
  const tokenFile = need(env, "CONFIG_PATH");
  const cluster = need(env, "MEMBER_CLUSTER_NAME");
  if (!isClusterName(cluster)) throw invalid("MEMBER_CLUSTER_NAME", "is not the name of a member");
  // Same as the original: without verification the CA is ignored, and its charts have a placeholder there.
  const ca = options.isInsecure ? undefined : readCa(env["HUB_CERTIFICATE_AUTHORITY"]);
  const headers = readHeaders(env["HUB_KUBE_HEADER"]);
  const token = fileSource(options.clock, tokenFile, "CONFIG_PATH");
  const config: ClusterConfig = {
    name: `hub of ${cluster}`,
    server,
    ...defined({ ca }),
    ...(options.isInsecure ? { insecureSkipTlsVerify: true } : {}),
    headers,
    credentials: {
      current: async () => ({ token: (await token.read()).trim() }),
      expire: () => token.expire(),
    },
  };
  const hasToken = async (): Promise<boolean> => {
    token.expire();
    const text = await token.read().catch(() => "");
    return text.trim() !== "";
  };
  return { cluster, config, hasToken, tokenFile };
}

function need(env: Readonly<Record<string, string | undefined>>, name: string): string {
  const value = env[name]?.trim() ?? "";
  if (value === "") throw invalid(name, "is not set");
  return value;
}

function invalid(name: string, what: string): FleetError {
  return new FleetError("OPTION_INVALID", `the environment variable ${name} ${what}`, {
    detail: { variable: name },
  });
}

/** Base64 of PEM; absent or empty: the authorities of the system. */
function readCa(text: string | undefined): string | undefined {
  if (text === undefined || text.trim() === "") return undefined;
  const pem = Buffer.from(text, "base64").toString("utf8");
  if (!pem.includes("-----BEGIN CERTIFICATE-----"))
    throw invalid("HUB_CERTIFICATE_AUTHORITY", "is not a base64-encoded PEM certificate");
  return pem;
}

/** Headers that the client sets itself; headers of the environment must not replace them. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  "accept",
  "authorization",
  "connection",
  "content-length",
  "content-type",
  "host",
  "transfer-encoding",
  "user-agent",
]);

/** Lines "Name: value", as MIME has them. */
function readHeaders(text: string | undefined): Readonly<Record<string, string>> {
  const lines = (text ?? "").split(/\r?\n/).filter((it) => it.trim() !== "");
  return Object.fromEntries(
    lines.map((line) => {
      const { name, value } = /^(?<name>[!#$%&'*+.^_`|~\w-]+):(?<value>.*)$/.exec(line)?.groups ?? {};
      // The value may be a secret: the message does not show it.
      if (name === undefined || value === undefined)
        throw invalid("HUB_KUBE_HEADER", 'has a line that is not "Name: value"');
      if (OWN_HEADERS.has(name.toLowerCase()))
        throw invalid("HUB_KUBE_HEADER", `must not set the header ${name}, which the client itself sets`);
      return [name.toLowerCase(), value.trim()] as const;
    }),
  );
}
