import { FleetError } from "@fairlead/base/errors.ts";
import { printText } from "@fairlead/base/print.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { runForPeople } from "@fairlead/base/program/people.ts";
import { RELEASE_CATALOGS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { createOrChange } from "@fairlead/fleet/cli/named.ts";
import { type ListOutput, renderData, type ResultOutput } from "@fairlead/fleet/cli/output.ts";
import {
  type DraftedCatalog,
  draftCatalog,
  readNames,
  renderCatalogs,
} from "@fairlead/fleet/cli/updates/catalog.ts";
import { listTags } from "@fairlead/fleet/cli/updates/registry.ts";
import { readNamedFile } from "#shared/files.ts";
import { type HubFlags, onHub } from "#shared/on-hub.ts";
import { printResult } from "#shared/output.ts";

interface ImportFlags extends HubFlags {
  readonly kubernetesVersions?: string | undefined;
  readonly repository?: string | undefined;
  readonly nodeImages?: string | undefined;
  readonly region?: string | undefined;
  readonly minorVersions: string;
  readonly previews: boolean;
  readonly dryRun: boolean;
  readonly output: ResultOutput;
}

export function importCatalog(name: string, flags: ImportFlags): Promise<void> {
  if (flags.dryRun)
    return runForPeople("releasecatalog import", async ({ signal }) => {
      const { spec } = await draftOf(flags, signal);
      const manifest = {
        apiVersion: `${RELEASE_CATALOGS.group}/${RELEASE_CATALOGS.version}`,
        kind: RELEASE_CATALOGS.kind,
        metadata: { name },
        spec,
      };
      printText(renderData(manifest, flags.output === "json" ? "json" : "yaml"));
    });
  return onHub("releasecatalog import", flags, async ({ hub, deps, signal }) => {
    const { spec, ignored } = await draftOf(flags, signal);
    // What is not in the lists any more goes; what an administrator wrote about our programs stays.
    const change = { region: null, kubernetesVersions: null, nodeImages: null, ...spec };
    const { object, isNew } = await createOrChange(hub, RELEASE_CATALOGS, { name, spec, change }, signal);
    const counts = [
      ...(spec.kubernetesVersions === undefined
        ? []
        : [`${spec.kubernetesVersions.length} versions of Kubernetes`]),
      ...(spec.nodeImages === undefined ? [] : [`${spec.nodeImages.length} node images`]),
      ...(ignored === 0 ? [] : [`${ignored} names that are not versions were left out`]),
    ];
    deps.progress(`${isNew ? "created" : "changed"} ReleaseCatalog ${name}: ${counts.join(", ")}`);
    printResult(object, flags.output);
  });
}

async function draftOf(flags: ImportFlags, signal: AbortSignal): Promise<DraftedCatalog> {
  const { kubernetesVersions: file, repository, nodeImages: images, region, previews } = flags;
  if (file !== undefined && repository !== undefined)
    throw new FleetError("OPTION_INVALID", "--kubernetes-versions and --repository exclude each other");
  if (file === undefined && repository === undefined && images === undefined)
    throw new FleetError("OPTION_INVALID", "pass --kubernetes-versions, --repository or --node-images");
  const read = async (what: string, from: string | undefined) =>
    from === undefined ? undefined : readNames(await readNamedFile(what, from), from);
  return draftCatalog({
    kubernetes:
      repository === undefined
        ? await read("list of versions", file)
        : await listTags(repository, { fetch, signal }),
    nodeImages: await read("list of node images", images),
    region,
    previews,
    minors: parseWhole("--minor-versions", flags.minorVersions, { min: 1, max: 100 }),
  });
}

export function list(flags: HubFlags & { readonly output: ListOutput }): Promise<void> {
  return onHub("releasecatalog list", flags, async ({ hub, signal }) => {
    const { items } = await hub.list(RELEASE_CATALOGS, { signal });
    printText(renderCatalogs(items, flags.output));
  });
}
