/** Starts the servers that `bench dns` compares, each in a process of its own with one thread that answers. */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { Resolver } from "node:dns/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { start } from "@fairlead/base/exec.ts";
import { freePort } from "@fairlead/base/testing/free-port.ts";
import { addressOf, ENDPOINTS, nameOf, SERVICES } from "./data.ts";
import type { Served, ServedBy } from "./serve.ts";

export interface RunningServer extends AsyncDisposable, ServedBy {
  readonly pid: number;
}

const SERVE = fileURLToPath(new URL("serve.ts", import.meta.url));

export async function startOurs(kind: Served): Promise<RunningServer> {
  const child = start(process.execPath, [SERVE, kind], { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  for await (const chunk of child.stdout ?? []) {
    text += String(chunk);
    if (text.endsWith("\n")) break;
  }
  return running(child, JSON.parse(text) as ServedBy);
}

/** Debian's unbound with the records as local data. */
export async function startUnbound(dir: string): Promise<RunningServer> {
  const port = await freePort();
  const data = records().map(([name, address]) => `local-data: "${name} 5 IN A ${address}"`);
  const config = [
    "server:",
    "do-daemonize: no",
    'chroot: ""',
    'username: ""',
    `directory: "${dir}"`,
    'pidfile: ""',
    "use-syslog: no",
    "num-threads: 1",
    "interface: 127.0.0.1",
    `port: ${port}`,
    'module-config: "iterator"',
    "so-rcvbuf: 1m",
    'local-zone: "clusterset.local." static',
    ...data,
    "remote-control:",
    "control-enable: no",
  ];
  const file = join(dir, "unbound.conf");
  await writeFile(file, `${config.join("\n")}\n`);
  return await answering("unbound", ["-d", "-c", file], port);
}

/** Debian's Knot with the records in a zone file. */
export async function startKnot(dir: string): Promise<RunningServer> {
  const port = await freePort();
  await mkdir(join(dir, "knot"), { recursive: true });
  const lines = records().map(([name, address]) => `${name} 5 IN A ${address}`);
  const soa = "@ 5 IN SOA ns hostmaster 1 7200 1800 86400 5";
  await writeFile(
    join(dir, "clusterset.zone"),
    ["$ORIGIN clusterset.local.", soa, "@ 5 IN NS ns", ...lines, ""].join("\n"),
  );
  const config = [
    "server:",
    `  rundir: "${join(dir, "knot")}"`,
    `  listen: 127.0.0.1@${port}`,
    "  udp-workers: 1",
    "  tcp-workers: 1",
    "  background-workers: 1",
    "database:",
    `  storage: "${join(dir, "knot")}"`,
    "zone:",
    "  - domain: clusterset.local.",
    `    file: "${join(dir, "clusterset.zone")}"`,
    "    zonefile-sync: -1",
    "    journal-content: none",
  ];
  const file = join(dir, "knot.conf");
  await writeFile(file, `${config.join("\n")}\n`);
  return await answering("knotd", ["-c", file], port);
}

function records(): readonly (readonly [string, string])[] {
  return Array.from({ length: SERVICES * ENDPOINTS }, (_, index) => {
    const service = Math.floor(index / ENDPOINTS);
    return [nameOf(service), addressOf(service, index % ENDPOINTS)] as const;
  });
}

async function answering(program: string, args: readonly string[], port: number): Promise<RunningServer> {
  const child = start(program, args, { stdio: "ignore" });
  const server = running(child, { port, zoneBytes: 0 });
  const resolver = new Resolver({ timeout: 500, tries: 1 });
  resolver.setServers([`127.0.0.1:${port}`]);
  const signal = AbortSignal.timeout(30_000);
  for (;;) {
    const found = await resolver.resolve4(nameOf(SERVICES - 1)).catch(() => []);
    if (found.length === ENDPOINTS) return server;
    await delay(systemClock, 100, signal);
  }
}

function running(child: ChildProcess, by: ServedBy): RunningServer {
  return {
    ...by,
    pid: child.pid ?? 0,
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}
