import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { FleetError } from "@fairlead/base/errors.ts";
import { isKey } from "#dataplane/control/keys.ts";

/**
 * The relay's private key (X25519, Base64) in `path`; made if the file does not exist. It may be a mounted Secret.
 *
 * @throws {FleetError} `OPTION_INVALID`
 */
export function relayKey(path: string): string {
  const text = readKey(path) ?? makeKey(path);
  if (isKey(text)) return text;
  throw new FleetError("OPTION_INVALID", `${path} (--key) does not hold an X25519 key, 32 bytes in Base64`);
}

function readKey(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8").trim();
  } catch (cause) {
    if (Error.isError(cause) && "code" in cause && cause.code === "ENOENT") return undefined;
    throw new FleetError("OPTION_INVALID", `cannot read ${path} (--key)`, { cause });
  }
}

/** Written aside and renamed: a crash leaves no half a key. */
function makeKey(path: string): string {
  const { d = "" } = generateKeyPairSync("x25519").privateKey.export({ format: "jwk" });
  const text = Buffer.from(d, "base64url").toString("base64");
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(`${path}.new`, `${text}\n`, { mode: 0o600 });
    renameSync(`${path}.new`, path);
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", `cannot write ${path} (--key)`, { cause });
  }
  return text;
}
