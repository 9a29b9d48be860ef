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

interface Flags {
  readonly webhook?: string | undefined;
  readonly webhookService?: string | undefined;
  readonly webhookUrl?: string | undefined;
}

export function webhookOf({
  webhook: listen,
  webhookService,
  webhookUrl,
}: Flags): WebhookOptions | undefined {
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
