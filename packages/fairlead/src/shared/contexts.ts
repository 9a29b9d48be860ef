import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { FleetError } from "@fairlead/base/errors.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import { loadKubeconfig, loadKubeconfigs } from "@fairlead/kube/config/kubeconfig.ts";
import { FLAGS } from "./flags.ts";

/** Which clusters people mean, by the files and contexts that kubectl knows. */

export const KUBECONFIG_FLAG = [
  FLAGS.kubeconfig,
  "kubeconfig file; default: the files of KUBECONFIG, else ~/.kube/config",
] as const;

export interface Named {
  /** The flag's own file. */
  readonly file: string | undefined;
  readonly context: string | undefined;
}

/** One context: of the file that its own flag names, of `--kubeconfig`, or of all files that kubectl would read. */
export function loadContext(
  named: Named,
  kubeconfig: string | undefined,
  env: NodeJS.ProcessEnv,
): Promise<ClusterConfig> {
  const options = named.context === undefined ? {} : { context: named.context };
  const file = named.file ?? kubeconfig;
  if (file !== undefined) return loadKubeconfig(file, options);
  const listed = (env["KUBECONFIG"] ?? "").split(delimiter).filter((it) => it !== "");
  return loadKubeconfigs(listed.length > 0 ? listed : [join(homedir(), ".kube", "config")], options);
}

/** Two flags left out would mean one cluster twice. */
export function refuseSameDefault(hub: Named, member: Named): void {
  if (hub.file !== member.file || hub.context !== undefined || member.context !== undefined) return;
  throw new FleetError(
    "OPTION_INVALID",
    "hub and member are not specified: pass --hub-context and --member-context (kubectl config get-contexts lists the contexts)",
  );
}
