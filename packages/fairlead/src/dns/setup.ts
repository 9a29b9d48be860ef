import { printText } from "@fairlead/base/print.ts";
import { previewDns, setUpDns, undoDns } from "@fairlead/fleet/cli/dns-setup/setup.ts";
import type { DnsPlan } from "@fairlead/fleet/cli/dns-setup/plan.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { type Prefix, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { ResultOutput } from "@fairlead/fleet/cli/output.ts";
import { loadContext } from "#shared/contexts.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { printResult } from "#shared/output.ts";
import { runForPeople, sayStep } from "@fairlead/base/program/people.ts";

interface SetupFlags {
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
  readonly zone: string;
  readonly fleetboardZone: string | boolean;
  readonly reverse?: readonly string[] | undefined;
  readonly dnsAddress?: readonly string[] | undefined;
  readonly image?: string | undefined;
  readonly verify: boolean;
  readonly timeout: string;
  readonly dryRun?: true | undefined;
  readonly undo?: true | undefined;
  readonly output: ResultOutput;
}

export async function setup(flags: SetupFlags): Promise<void> {
  await runForPeople("dns setup", async ({ deps, signal }) => {
    const options = {
      zones: zonesOf(flags),
      ...(flags.reverse === undefined ? {} : { reverse: flags.reverse.map(parseReverse) }),
      ...(flags.dnsAddress === undefined ? {} : { addresses: flags.dnsAddress.map(parseAddress) }),
      ...(flags.image === undefined ? {} : { image: flags.image }),
      verify: flags.verify,
      seconds: parseWhole("--timeout", flags.timeout, { min: 1, max: 600 }),
    };
    const named = { file: undefined, context: flags.context };
    const config = await loadContext(named, flags.kubeconfig, process.env);
    await using client = connect(config, deps);
    if (flags.dryRun === true && flags.undo !== true) {
      const plan = await previewDns(client, options, signal);
      if (flags.output === "text") printPlan(plan);
      else printResult(plan, flags.output);
      return;
    }
    const steps: string[] = [];
    const progress = (step: string): void => {
      steps.push(step);
      sayStep(step);
    };
    try {
      if (flags.undo === true) await undoDns(client, options, { ...deps, progress }, signal);
      else await setUpDns(client, options, { ...deps, progress }, signal);
    } finally {
      // Also after a failure: the exit code shows whether all steps were done.
      printResult({ steps: steps.map((step) => ({ step, status: "done" })) }, flags.output);
    }
  });
}

/** The first is the one that a pod verifies. */
function zonesOf({ zone, fleetboardZone }: SetupFlags): readonly [string, ...string[]] {
  const fleetboard = typeof fleetboardZone === "string" ? [fleetboardZone] : [];
  return [zone, ...fleetboard];
}

function parseReverse(text: string): Prefix {
  const prefix = tryParsePrefix(text);
  if (prefix !== undefined) return prefix;
  throw new FleetError("OPTION_INVALID", `--reverse must be an IP prefix, got ${JSON.stringify(text)}`);
}

function parseAddress(text: string): string {
  if (tryParseAddress(text) !== undefined) return text;
  throw new FleetError("OPTION_INVALID", `--dns-address must be an IP address, got ${JSON.stringify(text)}`);
}

function printPlan({ edits, reloads, hints }: DnsPlan): void {
  if (edits.length === 0) printText("nothing to change");
  for (const { configMap, key, after = "" } of edits)
    printText(`# ConfigMap kube-system/${configMap}, ${key}:\n${after}`);
  if (!reloads && edits.length > 0)
    printText("# CoreDNS does not reload by itself: its pods would be restarted");
  for (const hint of hints) printText(`# ${hint}`);
}
