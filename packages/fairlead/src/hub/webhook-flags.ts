import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { FleetError } from "@fairlead/base/errors.ts";
import type { WebhookOptions } from "@fairlead/fleet/hub/webhook/webhook.ts";

export const WEBHOOK_FLAG = [
  "--webhook <address:port>",
  "address on which to serve the admission webhook of the hub; default: none, or with --embedded 127.0.0.1 at any free port",
] as const;
export const WEBHOOK_SERVICE_FLAG = [
  "--webhook-service <namespace/name>",
  "Service by which the hub's API server reaches the webhook",
] as const;
export const WEBHOOK_URL_FLAG = [
  "--webhook-url <url>",
  "URL by which it reaches the webhook, if there is no Service",
] as const;

export const WEBHOOK_CLIENT_CA_FLAG = [
  "--webhook-client-ca <file>",
  "PEM certificates of the authority of its API server's client certificate, which the webhook then asks for; default: any client may ask",
] as const;

interface Flags {
  readonly webhook?: string | undefined;
  readonly webhookService?: string | undefined;
  readonly webhookUrl?: string | undefined;
  readonly webhookClientCa?: string | undefined;
}

/** @throws {FleetError} `OPTION_INVALID` */
export async function webhookOf(flags: Flags): Promise<WebhookOptions | undefined> {
  const options = addressed(flags);
  const { webhookClientCa: file } = flags;
  if (file === undefined) return options;
  if (options === undefined) throw new FleetError("OPTION_INVALID", "--webhook-client-ca needs --webhook");
  return { ...options, clientCa: await readAuthority(file) };
}

async function readAuthority(file: string): Promise<string> {
  try {
    const text = await readFile(file, "utf8");
    // Refuses what is not a certificate; a server would start and refuse every client.
    void new X509Certificate(text);
    return text;
  } catch (cause) {
    throw new FleetError(
      "OPTION_INVALID",
      `--webhook-client-ca: ${JSON.stringify(file)} has no PEM certificate`,
      { cause },
    );
  }
}

function addressed({ webhook: listen, webhookService, webhookUrl }: Flags): WebhookOptions | undefined {
  if (listen === undefined) return undefined;
  if ((webhookService === undefined) === (webhookUrl === undefined))
    throw new FleetError("OPTION_INVALID", "--webhook needs either --webhook-service or --webhook-url");
  if (webhookUrl !== undefined) {
    if (/^https:\/\/[^/?#]+$/.test(webhookUrl)) return { listen, address: { url: webhookUrl } };
    throw new FleetError("OPTION_INVALID", `--webhook-url must be https://host:port, got ${webhookUrl}`);
  }
  const [namespace = "", name = "", ...rest] = (webhookService ?? "").split("/");
  if (namespace !== "" && name !== "" && rest.length === 0)
    return { listen, address: { service: { namespace, name } } };
  throw new FleetError(
    "OPTION_INVALID",
    `--webhook-service must be namespace/name, got ${webhookService ?? ""}`,
  );
}
