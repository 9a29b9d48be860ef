import { previewDns, setUpDns, undoDns } from "#cli/dns-setup/setup.ts";
import type { DnsPlan } from "#cli/dns-setup/plan.ts";
import { FleetError } from "#base/errors.ts";
import { tryParseAddress } from "#netaddr/address.ts";
import { connect } from "#kube/client.ts";
import { loadKubeconfig } from "#kube/kubeconfig.ts";
import { parseWhole } from "../numbers.ts";
import { runForPeople, sayStep } from "../people.ts";

interface SetupFlags {
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
  readonly zone: string;
  readonly dnsAddress?: readonly string[] | undefined;
  readonly image?: string | undefined;
  readonly verify: boolean;
  readonly timeout: string;
  readonly dryRun?: true | undefined;
  readonly undo?: true | undefined;
}

export async function setup(flags: SetupFlags): Promise<void> {
  await runForPeople("dns setup", async ({ deps, signal }) => {
    const options = {
      zone: flags.zone,
      ...(flags.dnsAddress === undefined ? {} : { addresses: flags.dnsAddress.map(parseAddress) }),
      ...(flags.image === undefined ? {} : { image: flags.image }),
      verify: flags.verify,
      seconds: parseWhole("--timeout", flags.timeout, { min: 1, max: 600 }),
    };
    const path = flags.kubeconfig ?? process.env["KUBECONFIG"];
    if (path === undefined || path === "")
      throw new FleetError("OPTION_INVALID", "give --kubeconfig FILE, or set KUBECONFIG");
    const config = await loadKubeconfig(path, flags.context === undefined ? {} : { context: flags.context });
    await using client = connect(config, deps);
    const telling = { ...deps, progress: sayStep };
    if (flags.undo === true) await undoDns(client, telling, signal);
    else if (flags.dryRun === true) printPlan(await previewDns(client, options, signal));
    else await setUpDns(client, options, telling, signal);
  });
}

function parseAddress(text: string): string {
  if (tryParseAddress(text) !== undefined) return text;
  throw new FleetError("OPTION_INVALID", `--dns-address must be an IP address, got ${JSON.stringify(text)}`);
}

function printPlan({ edits, reloads, hints }: DnsPlan): void {
  if (edits.length === 0) console.log("nothing to change");
  for (const { configMap, key, after = "" } of edits)
    console.log(`# ConfigMap kube-system/${configMap}, ${key}:\n${after}`);
  if (!reloads && edits.length > 0)
    console.log("# CoreDNS does not reload by itself: its pods would be started anew");
  for (const hint of hints) console.log(`# ${hint}`);
}
