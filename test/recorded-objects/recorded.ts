import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";

export interface RecordedObject {
  /** `COMPONENT/KIND-WHAT` */
  readonly name: string;
  readonly text: string;
  readonly object: KubeObject & { readonly apiVersion: string; readonly kind: string };
}

/** All of them, in the order of their names. */
export function recordedObjects(): readonly RecordedObject[] {
  const folder = import.meta.dirname;
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((it) => it.endsWith(".json"))
    .toSorted()
    .map((file) => {
      const text = readFileSync(join(folder, file), "utf8");
      return {
        name: file.replace(/\.json$/, ""),
        text,
        object: JSON.parse(text) as RecordedObject["object"],
      };
    });
}
