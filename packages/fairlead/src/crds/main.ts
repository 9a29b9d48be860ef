import { printText } from "@fairlead/base/print.ts";
import { HUB_MANAGER, MEMBER_MANAGER } from "@fairlead/fleet/api/fairlead.dev/field-managers.ts";
import { Command } from "@commander-js/extra-typings";
import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { HUB_CRDS, MEMBER_CRDS, POLICY_CRDS } from "@fairlead/fleet/api/crds.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { checkReachable } from "@fairlead/fleet/cli/fleet/clusters.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { installCrds, installMissingCrds, missingCrds } from "@fairlead/kube/definitions/crds.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { FLAGS } from "#shared/flags.ts";
import { clusterConfig } from "#shared/cluster-config.ts";
import { KUBECONFIG_FLAG, loadContext } from "#shared/contexts.ts";
import { renderData } from "@fairlead/fleet/cli/output.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { objectsOption } from "#shared/output.ts";
import { runForPeople, sayStep } from "@fairlead/base/program/people.ts";

interface Role {
  readonly crds: readonly CustomResourceDefinition[];
  /** As the role's own program applies them: what one of the two wrote, the other leaves alone. */
  readonly fieldManager: string;
}

const ROLES: ReadonlyMap<string, Role> = new Map([
  ["hub", { crds: HUB_CRDS, fieldManager: HUB_MANAGER }],
  ["member", { crds: MEMBER_CRDS, fieldManager: MEMBER_MANAGER }],
  // Another engine may have its own definitions.
  ["policies", { crds: POLICY_CRDS, fieldManager: MEMBER_MANAGER }],
]);

const ROLE_FLAG = ["--role <role>", "hub, member or policies"] as const;
const CONTEXT_FLAG = [
  FLAGS.context,
  "kubeconfig context of the cluster; default: in a pod its own cluster, else the current context",
] as const;

/** Manages the CRDs of hubs and members, for installations that separate them from the programs. */
export function command(): Command {
  const crds = new Command("crds").description("install, check or print the CRDs that a cluster needs");
  crds
    .command("install")
    .description("apply the CRDs, and wait until they are served; existing objects are kept")
    .requiredOption(...ROLE_FLAG)
    .option(...KUBECONFIG_FLAG)
    .option(...CONTEXT_FLAG)
    .option(FLAGS.timeout, "time limit for the API server to serve them, 1 to 600", "60")
    .action((flags) =>
      runForPeople("crds install", async ({ deps, signal }) => {
        const { crds: wanted, fieldManager } = parseRole(flags.role);
        const timeoutMs = parseWhole("--timeout", flags.timeout, { min: 1, max: 600 }) * 1000;
        await using client = await connectTo(flags, deps, signal);
        const install = flags.role === "policies" ? installMissingCrds : installCrds;
        const others = await install(client, { crds: wanted, fieldManager, timeoutMs }, deps, signal);
        for (const name of others ?? []) sayStep(`${name} is left as it is: another program installed it`);
        sayStep(`${wanted.length} CRDs are served`);
      }),
    );
  crds
    .command("check")
    .description("fail unless the cluster has the CRDs of this version")
    .requiredOption(...ROLE_FLAG)
    .option(...KUBECONFIG_FLAG)
    .option(...CONTEXT_FLAG)
    .action((flags) =>
      runForPeople("crds check", async ({ deps, signal }) => {
        await using client = await connectTo(flags, deps, signal);
        const missing = await missingCrds(client, parseRole(flags.role), deps, signal);
        if (missing.length > 0)
          throw new FleetError(
            "API_NOT_FOUND",
            `missing or outdated CRDs: ${missing.join(", ")}; run "fairlead crds install --role ${flags.role}" to update them`,
          );
        sayStep("all CRDs are up to date");
      }),
    );
  crds
    .command("print")
    .description("print the CRDs, for kubectl apply")
    .requiredOption(...ROLE_FLAG)
    .addOption(objectsOption())
    .action((flags) =>
      runForPeople("crds print", async () => {
        const items = parseRole(flags.role).crds;
        const text =
          flags.output === "json"
            ? renderData({ apiVersion: "v1", kind: "List", items }, "json")
            : items.map((it) => renderData(it, "yaml")).join("\n---\n");
        printText(text);
        await Promise.resolve();
      }),
    );
  return crds;
}

/** As `kubectl` does it: in a pod that names no other cluster, its own. */
async function connectTo(
  flags: { readonly kubeconfig?: string | undefined; readonly context?: string | undefined },
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<KubeClient> {
  const { KUBECONFIG = "", KUBERNETES_SERVICE_HOST = "" } = process.env;
  const isNamed = flags.kubeconfig !== undefined || flags.context !== undefined || KUBECONFIG !== "";
  if (!isNamed && KUBERNETES_SERVICE_HOST !== "") return connect(await clusterConfig(undefined, deps), deps);
  const config = await loadContext(
    { file: undefined, context: flags.context },
    flags.kubeconfig,
    process.env,
  );
  await using stack = new AsyncDisposableStack();
  const client = stack.use(connect(config, deps));
  await checkReachable(client, { who: "the cluster", config }, deps, signal);
  stack.move();
  return client;
}

function parseRole(text: string): Role {
  const role = ROLES.get(text);
  if (role !== undefined) return role;
  throw new FleetError("OPTION_INVALID", `--role must be ${[...ROLES.keys()].join(" or ")}, got ${text}`);
}
