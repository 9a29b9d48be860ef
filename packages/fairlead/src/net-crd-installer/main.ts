import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { HUB_NET_CRDS } from "@fairlead/fleet/api/crds.ts";
import { FLEET_MAILBOX_CRDS, FLEET_USER_CRDS } from "@fairlead/fleet/api/networking.fleet.azure.com/crds.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { clusterConfig } from "#shared/cluster-config.ts";
import {
  type GoValues,
  goBool,
  goCommand,
  goText,
  goVerbosity,
  levelOf,
} from "@fairlead/base/program/go-command.ts";
import { runProgram } from "@fairlead/base/program/program.ts";

const FLAGS = {
  mode: goText("", "hub or member"),
  "e2e-test": goBool(false, "omit the label that names the manager of the cluster"),
  kubeconfig: goText(
    undefined,
    "kubeconfig of the cluster; default: KUBECONFIG, else the cluster of this pod",
  ),
  v: goVerbosity(),
} as const;

const MANAGED = { "crd-installer.networking.azure.fleet.com/managed": "true" };
const MANAGED_BY_FLEET = { "kubernetes.azure.com/managedby": "fleet" };
const MEMBER_KINDS = new Set(["ServiceExport", "ServiceImport", "MultiClusterService"]);

/** The init container that fleet-networking's charts put before their managers: installs, and ends. */
export function command(): ReturnType<typeof goCommand> {
  const description = "install the CRDs of a hub or a member, and exit";
  return goCommand({ name: "net-crd-installer", description, flags: FLAGS }, run);
}

function run(flags: GoValues<typeof FLAGS>): Promise<void> {
  return runProgram("net-crd-installer", { logLevel: levelOf(flags.v) }, async ({ signal, log }) => {
    const labels = { ...MANAGED, ...(flags["e2e-test"] ? {} : MANAGED_BY_FLEET) };
    const crds = kindsOf(flags.mode).map((crd) => labelled(crd, labels));
    const deps = systemDeps(log);
    const config = await clusterConfig(flags.kubeconfig ?? process.env["KUBECONFIG"], deps);
    await using client = connect(config, { ...deps, userAgent: "net-crd-installer" });
    await installCrds(client, { crds, fieldManager: "net-crd-installer" }, deps, signal);
    log.info("installed", { kinds: crds.map((it) => it.metadata.name) });
  });
}

function kindsOf(mode: string): readonly CustomResourceDefinition[] {
  // More than the original installs: the hub's manager needs additional CRDs. The membership CRDs are KubeFleet's.
  if (mode === "hub") return [...HUB_NET_CRDS];
  if (mode === "member")
    return [...FLEET_USER_CRDS, ...FLEET_MAILBOX_CRDS].filter((it) => MEMBER_KINDS.has(it.spec.names.kind));
  throw new FleetError("OPTION_INVALID", `--mode must be hub or member, got ${JSON.stringify(mode)}`);
}

function labelled(
  crd: CustomResourceDefinition,
  labels: Readonly<Record<string, string>>,
): CustomResourceDefinition {
  return { ...crd, metadata: { ...crd.metadata, labels: { ...crd.metadata.labels, ...labels } } };
}
