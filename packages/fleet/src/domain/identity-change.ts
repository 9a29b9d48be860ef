import { crc32, deflateRawSync, inflateRawSync } from "node:zlib";
import { jsonKey } from "@fairlead/base/json.ts";
import type { IdentitySlice } from "#api/fairlead.dev/v1alpha1/identities.ts";

/**
 * What changed in an IdentitySlice, as short text: its contents, compressed with those before as the dictionary. Members watch these texts
 * in place of the slices (docs/adr/0057-changes-of-identities.md). Pure.
 */

type Spec = IdentitySlice["spec"];

/** In place of the contents before, for a slice that is new: what many have. Both ends need the same. */
const TYPICAL = Buffer.from(
  '"labels":{"app":"","app.kubernetes.io/component":"","app.kubernetes.io/instance":"","app.kubernetes.io/name":"","app.kubernetes.io/part-of":"",' +
    '"app.kubernetes.io/version":"v1.0.0","batch.kubernetes.io/job-name":"","controller-revision-hash":"","kubernetes.io/metadata.name":"","tier":"",' +
    '"version":"v1"},"ports":[{"name":"metrics","port":9090,"protocol":"TCP"},{"name":"https","port":8443,"protocol":"TCP"},{"name":"http","port":8080,' +
    '"protocol":"TCP"}],"publishedAt":"2026-","serviceAccount":"default","type":"Namespace"}{"cluster":"member-1","labels":{"app.kubernetes.io/name":"web",' +
    '"pod-template-hash":""},"namespace":"default","pods":[{"addresses":["10.0.0.1","fd00::1"],"name":""}],"publishedAt":"2026-01-01T00:00:00.000000Z",' +
    '"serviceAccount":"default","type":"Pods"}',
);

/** Longer ones say no less than the slice itself. Unit: characters. */
export const MAX_CHANGE = 2048;
/** Of contents with all bounds at their limits. Unit: bytes. */
const MAX_CONTENTS = 1 << 20;
/** Unit: bytes. */
const CHECKSUM = 4;

/** @param before - Undefined: the slice is new. Returns undefined if the change is best read as a whole. */
export function changeOf(before: Spec | undefined, after: Spec): string | undefined {
  const contents = contentsOf(after);
  const checksum = Buffer.alloc(CHECKSUM);
  checksum.writeUInt32BE(crc32(contents));
  const packed = deflateRawSync(contents, { dictionary: dictionaryOf(before), level: 9 });
  const change = Buffer.concat([checksum, packed]).toString("base64url");
  return change.length > MAX_CHANGE ? undefined : change;
}

/** The contents after a change; undefined if it is a change of other contents than these. */
export function changedSpec(before: Spec | undefined, change: string): Spec | undefined {
  const bytes = Buffer.from(change, "base64url");
  if (bytes.length <= CHECKSUM) return undefined;
  try {
    const contents = inflateRawSync(bytes.subarray(CHECKSUM), {
      dictionary: dictionaryOf(before),
      maxOutputLength: MAX_CONTENTS,
    });
    return crc32(contents) === bytes.readUInt32BE() ? (JSON.parse(contents.toString()) as Spec) : undefined;
  } catch {
    return undefined;
  }
}

/** In an order that does not depend on who wrote them. */
function contentsOf(spec: Spec): Buffer {
  return Buffer.from(jsonKey(spec));
}

function dictionaryOf(before: Spec | undefined): Buffer {
  return before === undefined ? TYPICAL : contentsOf(before);
}
