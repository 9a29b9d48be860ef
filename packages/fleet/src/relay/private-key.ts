import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { FleetError } from "@fairlead/base/errors.ts";
import { readIfPresent, writeSecretFile } from "@fairlead/base/pki/files.ts";
import { generateKeyPair, keyBytes } from "@fairlead/os/wireguard/keys.ts";

/**
 * The relay's private key (X25519, Base64) in `path`; made if the file does not exist. It may be a mounted Secret.
 *
 * @throws {FleetError} `OPTION_INVALID`
 */
export async function relayKey(path: string): Promise<string> {
  try {
    const text = (await readIfPresent(path))?.trim();
    if (text !== undefined) {
      keyBytes(text, "its content");
      return text;
    }
    const { privateKey } = generateKeyPair();
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeSecretFile(path, `${privateKey}\n`);
    return privateKey;
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", `cannot use ${path} (--key)`, { cause });
  }
}
