import { mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { isObject } from "@fairlead/base/json.ts";
import { writeSecretFile } from "@fairlead/base/pki/files.ts";
import type { EndpointRecords } from "./driver.ts";

/** Records as files `NAME.endpoints` in a folder. A file that is absent or damaged is an empty record. */
export function fileRecords(folder: string): EndpointRecords {
  const fileOf = (name: string): string => join(folder, `${name}.endpoints`);
  return {
    async read(name) {
      const text = await readFile(fileOf(name), "utf8").catch(() => "{}");
      return new Map(entriesOf(text));
    },
    async write(name, endpoints) {
      const file = fileOf(name);
      if (endpoints.size === 0) return rm(file, { force: true });
      await mkdir(folder, { recursive: true, mode: 0o700 });
      return writeSecretFile(file, JSON.stringify(Object.fromEntries(endpoints)));
    },
  };
}

function entriesOf(text: string): readonly (readonly [string, string])[] {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? Object.entries(value).map(([key, it]) => [key, String(it)] as const) : [];
  } catch {
    return [];
  }
}
