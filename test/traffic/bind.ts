import type { ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { exec, start } from "@fairlead/base/exec.ts";
import { parseTsigKey, type TsigKey } from "@fairlead/dns/wire/tsig.ts";
import { freePort } from "@fairlead/base/testing/free-port.ts";

/** A real BIND on the loopback address, with zones that two keys may update. */
export interface Bind extends AsyncDisposable {
  readonly port: number;
  /** May update everything. */
  readonly key: TsigKey;
  /** Known, and may update nothing. */
  readonly powerless: TsigKey;
  /** What `dig` says: data of the records, sorted. */
  dig(name: string, type: string): Promise<{ readonly status: string; readonly data: readonly string[] }>;
  /** What `nsupdate` does with lines such as "update add ...". */
  nsupdate(...lines: readonly string[]): Promise<void>;
}

const folder = fileURLToPath(new URL("../../node_modules/.tools/bind9/", import.meta.url));
const unpacked = join(folder, "usr/sbin/named");

/** The libraries of its version are next to the program. */
const environment = {
  LD_LIBRARY_PATH: `${join(folder, "usr/lib/x86_64-linux-gnu")}:${join(folder, "usr/lib/aarch64-linux-gnu")}`,
};

const KEY = 'key "fleet" { algorithm hmac-sha256; secret "SGVsbG8sIHRoaXMgaXMgYSBzZWNyZXQgb2YgMzIgYi4="; };';
const POWERLESS =
  'key "powerless" { algorithm hmac-sha256; secret "QW5vdGhlciBzZWNyZXQgd2hpY2ggaXMgb2YgMzIgYnk="; };';

const ZONE = `$TTL 60
@ IN SOA ns hostmaster 1 7200 1800 86400 60
@ IN NS ns
ns IN A 127.0.0.1
www IN A 192.0.2.80
`;

function config(port: number, data: string, zones: readonly string[]): string {
  const zone = (name: string): string =>
    `zone "${name}" { type primary; file "${join(data, name)}"; allow-update { key fleet; }; };`;
  return `
options {
  directory "${data}"; pid-file none; session-keyfile none; lock-file none;
  listen-on port ${port} { 127.0.0.1; }; listen-on-v6 { none; };
  recursion no; dnssec-validation no; notify no; empty-zones-enable no;
};
controls { };
${KEY}
${POWERLESS}
${zones.map(zone).join("\n")}
`;
}

export async function startBind(...zones: readonly string[]): Promise<Bind> {
  const data = await mkdtemp(join(tmpdir(), "fairlead-bind-"));
  const port = await freePort();
  for (const zone of zones) await writeFile(join(data, zone), ZONE);
  await writeFile(join(data, "named.conf"), config(port, data, zones));
  const isUnpacked = existsSync(unpacked);
  const PATH = `${process.env["PATH"] ?? ""}:/usr/sbin`;
  const child = start(isUnpacked ? unpacked : "named", ["-g", "-c", join(data, "named.conf"), "-n", "1"], {
    cwd: data,
    env: { ...(isUnpacked ? environment : {}), PATH },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = new Promise<void>((resolve) => {
    child.once("close", () => resolve());
    child.once("error", () => resolve());
  });
  const server = "127.0.0.1";
  const bind: Bind = {
    port,
    key: parseTsigKey(KEY),
    powerless: parseTsigKey(POWERLESS),
    async dig(name, type) {
      const args = [`@${server}`, "-p", String(port), "+time=2", "+tries=2", name, type];
      const { stdout } = await exec("dig", args, { allowFailure: true });
      const found = stdout
        .split("\n")
        .filter((line) => /\sIN\s/.test(line) && !line.startsWith(";"))
        .filter((line) => line.split(/\s+/)[3] !== "SOA")
        .map((line) => line.split(/\s+/).slice(4).join(" "));
      return { status: /status: (\w+)/.exec(stdout)?.[1] ?? "none", data: found.toSorted() };
    },
    async nsupdate(...lines) {
      const keyFile = join(data, "fleet.key");
      await writeFile(keyFile, KEY);
      const input = [`server ${server} ${port}`, ...lines, "send", ""].join("\n");
      await exec("nsupdate", ["-k", keyFile], { input });
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
      await rm(data, { recursive: true, force: true });
    },
  };
  await Promise.race([untilSaid(child, / running$/m), failing(ended)]);
  return bind;
}

function untilSaid(child: ChildProcess, pattern: RegExp): Promise<void> {
  return new Promise((resolve) => {
    let said = "";
    child.stderr?.on("data", (chunk: Buffer) => {
      // Read to the end of its life, or it would wait for a reader.
      if (said !== "done") said += chunk.toString();
      if (!pattern.test(said)) return;
      said = "done";
      resolve();
    });
  });
}

async function failing(ended: Promise<void>): Promise<never> {
  await ended;
  throw new Error("named ended before it served: is bind9 there? Run node scripts/setup.mjs test");
}
