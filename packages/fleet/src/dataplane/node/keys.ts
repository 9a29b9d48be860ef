import { chmod, mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { generateKeyPair, publicKeyOf } from "@fairlead/os/wireguard/keys.ts";
import type { EpochKey } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { NodeKeys } from "./devices.ts";

/** Epochs whose keys a node keeps: the current one, and for some time the one before, which others may still use. */
const KEPT_EPOCHS = 2;
/**
 * How long the key of the epoch before is kept: others learn of the new key in seconds, and WireGuard uses a session for 180 s at
 * most (REJECT_AFTER_TIME). Unit: milliseconds.
 */
const RETIRED_AFTER_MS = 600_000;
const NAME = /^key-([0-9]{1,9})$/;

/**
 * The private keys of a node: a file for each epoch, readable by its owner alone. They never leave the node. A key of `epoch` is made if
 * there is none; keys of older epochs than the one before are removed.
 */
export async function loadKeys(folder: string, epoch: number, nowMs: number): Promise<NodeKeys> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const present = new Map<number, string>();
  for (const name of await readdir(folder)) {
    const of = Number(NAME.exec(name)?.[1]);
    if (Number.isNaN(of)) continue;
    if (of > epoch || of <= epoch - KEPT_EPOCHS) await rm(join(folder, name), { force: true });
    else present.set(of, (await readFile(join(folder, name), "utf8")).trim());
  }
  if (!present.has(epoch)) {
    const key = generateKeyPair().privateKey;
    const path = join(folder, `key-${epoch}`);
    await writeFile(`${path}.new`, `${key}\n`, { mode: 0o600 });
    await chmod(`${path}.new`, 0o600);
    await rename(`${path}.new`, path);
    present.set(epoch, key);
  }
  const file = join(folder, `key-${epoch}`);
  const ageMs = nowMs - (await stat(file)).mtimeMs;
  // The clock was ahead, and has been set back: the other key would be kept until it gets there again.
  if (ageMs < -RETIRED_AFTER_MS) await utimes(file, nowMs / 1000, nowMs / 1000);
  if (ageMs < RETIRED_AFTER_MS) return present;
  return new Map([...present].filter(([of]) => of === epoch));
}

/** What other nodes and gateways have to know of these. */
export function publicKeysOf(keys: NodeKeys): EpochKey[] {
  return [...keys]
    .toSorted(([a], [b]) => a - b)
    .map(([epoch, key]) => ({ epoch, publicKey: publicKeyOf(key) }));
}
