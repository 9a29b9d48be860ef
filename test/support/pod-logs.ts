/** What pods of a lab print, from the files that their nodes write: tests that wait read them ten times a second. */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { ObjectMeta } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { LabLayout } from "@fairlead/lab/layout.ts";
import { containerFolder } from "@fairlead/lab/node/container/folder.ts";
import { readLog } from "@fairlead/lab/node/server/logs.ts";

interface Wanted {
  readonly pod: Pick<ObjectMeta, "namespace" | "name">;
  /** How many of the last lines; undefined: all. */
  readonly lines: number | undefined;
}

export class PodLogs {
  readonly #layout: LabLayout;
  /** Of the only container of a pod, by cluster and pod. */
  readonly #folders = new Map<string, string>();

  constructor(layout: LabLayout) {
    this.#layout = layout;
  }

  async read(client: KubeClient, cluster: string, { pod, lines }: Wanted): Promise<string> {
    const folder = await this.#folderOf(client, cluster, pod);
    const all = { follow: false, timestamps: false, limitBytes: undefined, sinceMs: undefined };
    const log = readLog(folder, { ...all, tailLines: lines }, AbortSignal.abort());
    return Buffer.concat(await Array.fromAsync(log)).toString("utf8");
  }

  async #folderOf(client: KubeClient, cluster: string, { namespace, name }: Wanted["pod"]): Promise<string> {
    const key = `${cluster} ${namespace}/${name}`;
    const known = this.#folders.get(key);
    if (known !== undefined && existsSync(known)) return known;
    const { metadata, spec } = await client.get(PODS, objectKey(namespace, name));
    const of = { podUid: metadata.uid ?? "", name: spec?.containers[0]?.name ?? "" };
    const pods = join(this.#layout.node(spec?.nodeName ?? ""), "pods");
    const runs = readdirSync(join(containerFolder(pods, { ...of, attempt: 0 }), "..")).map(Number);
    const folder = containerFolder(pods, { ...of, attempt: Math.max(...runs) });
    this.#folders.set(key, folder);
    return folder;
  }
}
