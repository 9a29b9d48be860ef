import { Command } from "@commander-js/extra-typings";
import { FleetError } from "@fairlead/base/errors.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { createLabControllers } from "@fairlead/lab/controllers/compose.ts";
import { parsePrefix, type Prefix } from "@fairlead/base/netaddr/prefix.ts";
import { serveMetrics } from "@fairlead/base/program/metrics-server.ts";
import { untilAborted } from "@fairlead/base/abortable.ts";
import {
  LOG_LEVEL_FLAG,
  type ProgramContext,
  READY_FD_FLAG,
  runProgram,
} from "@fairlead/base/program/program.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

interface Flags {
  readonly kubeconfig: string;
  readonly loadBalancerCidr?: string | undefined;
  readonly nodeLeaseSeconds: string;
  readonly metrics?: string | undefined;
}

/** Replaces kube-controller-manager, kube-scheduler and a cloud's load balancers in a lab cluster. */
export function command(): Program {
  return new Command("lab-controllers")
    .description(
      "schedule pods, run workloads, keep EndpointSlices, disruption budgets and load balancer addresses",
    )
    .requiredOption("--kubeconfig <file>", "the cluster's API server")
    .option("--load-balancer-cidr <v4,v6>", "address ranges for Services of type LoadBalancer")
    .option("--node-lease-seconds <seconds>", "silence after which a node counts as dead, 1 to 600", "5")
    .option("--metrics <address:port>", "address of /metrics, /healthz and /readyz")
    .option(...LOG_LEVEL_FLAG)
    .option(...READY_FD_FLAG)
    .action((flags) => runProgram("lab-controllers", flags, (context) => run(context, flags)));
}

async function run(context: ProgramContext, flags: Flags): Promise<void> {
  const { signal, log } = context;
  const options = {
    loadBalancerPrefixes: parsePrefixes(flags.loadBalancerCidr ?? ""),
    nodeLeaseSeconds: parseLease(flags.nodeLeaseSeconds),
  };
  const metrics = createMetrics();
  const deps = systemDeps(log, metrics);
  await using stack = new AsyncDisposableStack();
  const config = await loadKubeconfig(flags.kubeconfig, { log });
  const client = stack.use(connect(config, { ...deps, userAgent: "fairlead-lab-controllers" }));
  const controllers = stack.use(createLabControllers(client, { ...options, rootCa: config.ca ?? "" }, deps));
  let isReady = false;
  if (flags.metrics !== undefined) {
    const problem = (): string | undefined => (isReady ? undefined : "not started yet");
    const checks = [{ name: "controllers", kind: "ready", problem } as const];
    stack.use(await serveMetrics({ metrics, address: flags.metrics, checks }));
  }
  await controllers.start(signal);
  isReady = true;
  context.ready();
  await untilAborted(signal);
}

function parsePrefixes(text: string): Prefix[] {
  const prefixes = text
    .split(",")
    .filter((part) => part !== "")
    .map((part) => parsePrefix(part.trim()));
  if (new Set(prefixes.map((prefix) => prefix.family)).size === prefixes.length) return prefixes;
  throw new FleetError("OPTION_INVALID", `--load-balancer-cidr takes one prefix per family, got ${text}`);
}

function parseLease(text: string): number {
  const seconds = Number(text);
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= 600) return seconds;
  throw new FleetError(
    "OPTION_INVALID",
    `--node-lease-seconds must be a whole number from 1 to 600, got ${text}`,
  );
}
