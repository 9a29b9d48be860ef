import { createHash } from "node:crypto";
import type { SelectedObject } from "../selection/select.ts";
import { orderKey } from "../selection/select.ts";

/** Most content of one snapshot, as in KubeFleet. Unit: bytes. */
const MAX_PART_BYTES = 800 * 1024;

/** SHA-256 in hexadecimal digits. The objects are in canonical order. */
export function resourceHash(objects: readonly SelectedObject[]): string {
  const lines = objects.map(({ id, content }) => `${orderKey(id)}\n${id.version}\n${content.digest}\n`);
  return createHash("sha256").update(lines.join("")).digest("hex");
}

/** The objects in order, as few parts as that allows. An object above the limit is alone in its part. Never empty. */
export function splitIntoParts(objects: readonly SelectedObject[]): SelectedObject[][] {
  let part: SelectedObject[] = [];
  const parts = [part];
  let bytes = 0;
  for (const it of objects) {
    if (part.length > 0 && bytes + it.content.bytes > MAX_PART_BYTES) {
      part = [];
      parts.push(part);
      bytes = 0;
    }
    part.push(it);
    bytes += it.content.bytes;
  }
  return parts;
}
