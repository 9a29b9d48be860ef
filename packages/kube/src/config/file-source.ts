import { readFile } from "node:fs/promises";
import type { Clock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";

/** client-go reads token files once a minute; kubelets renew projected tokens at 80 % of their life. */
const REREAD_AFTER_MS = 60_000;

/** A small file that someone else rewrites now and then: a token, a certificate. */
export interface FileSource {
  read(): Promise<string>;
  /** The next `read` goes to the disk. */
  expire(): void;
}

/** @param field - What names the file, for the error: "users[admin].user.tokenFile". */
export function fileSource(clock: Clock, path: string, field: string): FileSource {
  let text: string | undefined;
  let readAtMs = 0;
  return {
    async read() {
      if (text !== undefined && clock.monotonic() - readAtMs < REREAD_AFTER_MS) return text;
      try {
        text = await readFile(path, "utf8");
      } catch (cause) {
        const message = `${field}: cannot read ${path}`;
        throw new FleetError("KUBECONFIG_INVALID", message, { cause, detail: { field, path } });
      }
      readAtMs = clock.monotonic();
      return text;
    },
    expire() {
      text = undefined;
    },
  };
}
