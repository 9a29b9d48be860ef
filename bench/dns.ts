import { seededRng } from "@fairlead/base/rng.ts";
import type { ChildProcess } from "node:child_process";
import { createSocket, type Socket } from "node:dgram";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { systemClock } from "@fairlead/base/clock.ts";
import { start } from "@fairlead/base/exec.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { parseSocketAddress } from "@fairlead/dns/listen-address.ts";
import { createDnsMeters } from "@fairlead/dns/meters.ts";
import { createResolver } from "@fairlead/dns/resolver.ts";
import { createResponder } from "@fairlead/dns/responder.ts";
import { startDnsServer } from "@fairlead/dns/server.ts";
import { RecordTree } from "@fairlead/dns/tree.ts";
import { serviceContribution } from "@fairlead/fleet/dns/zone.ts";
import { encodeMessage } from "@fairlead/dns/wire/encode.ts";
import { TYPE } from "@fairlead/dns/wire/types.ts";

/**
 * Claims: the cluster-set DNS server, with 10,000 services, answers about half as many queries a second as a program of
 * the same runtime that only sends each datagram back; and 100 changes of endpoints a second cost little of that.
 *
 * The limit is taken in the same run, with the same client: 100 queries in flight, names in shuffled order, server and
 * client in separate processes. Runs of the kinds alternate; the median is printed.
 */
const SERVICES = 10_000;
const IN_FLIGHT = 100;
const RUN_MS = 1500;
const ROUNDS = 3;
const ZONE = { origin: "clusterset.local.", ttl: 5 };

type Kind = "echo" | "dns" | "dns with changes";

export async function run(): Promise<void> {
  const kinds: readonly Kind[] = ["echo", "dns", "dns with changes"];
  const rates = new Map<Kind, number[]>(kinds.map((kind) => [kind, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const kind of kinds) rates.get(kind)?.push(await measure(kind));
  }
  const limits = rates.get("echo") ?? [];
  for (const [kind, measured] of rates) {
    // Each round has its own limit: what else the machine does weighs on both.
    const ratio = median(measured.map((rate, round) => rate / (limits[round] ?? 1)));
    const rate = median(measured).toFixed(0).padStart(8);
    console.log(`${kind.padEnd(18)} ${rate} answers/s  ${ratio.toFixed(2)} of the echo`);
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
}

async function measure(kind: Kind): Promise<number> {
  const child = start(process.execPath, [fileURLToPath(import.meta.url), "--serve", kind], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const port = await portOf(child);
    return await load(port);
  } finally {
    child.kill("SIGKILL");
  }
}

function portOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve) => {
    (child.stdout as Readable).once("data", (chunk: Buffer) => resolve(Number(chunk.toString())));
  });
}

/** Keeps `IN_FLIGHT` queries open for `RUN_MS` and returns the answers per second. */
async function load(port: number): Promise<number> {
  const queries = Array.from({ length: 2048 }, (_, index) => query((index * 7919) % SERVICES));
  const socket = createSocket({ type: "udp4", recvBufferSize: 1 << 20 });
  await new Promise<void>((resolve) => {
    socket.connect(port, "127.0.0.1", resolve);
  });
  let answers = 0;
  let sent = 0;
  const send = (to: Socket): void => to.send(queries[sent++ % queries.length]!);
  socket.on("message", () => {
    answers++;
    send(socket);
  });
  for (let index = 0; index < IN_FLIGHT; index++) send(socket);
  await pause(RUN_MS / 3);
  const before = answers;
  const startedMs = systemClock.monotonic();
  await pause(RUN_MS);
  const rate = ((answers - before) * 1000) / (systemClock.monotonic() - startedMs);
  socket.close();
  return rate;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

function query(service: number): Buffer {
  return encodeMessage({
    id: service,
    response: false,
    opcode: 0,
    authoritative: false,
    truncated: false,
    recursionDesired: true,
    recursionAvailable: false,
    authenticData: false,
    checkingDisabled: false,
    rcode: 0,
    questions: [{ name: `service-${service}.work.svc.clusterset.local.`, type: TYPE.A, class: 1 }],
    answers: [],
    authorities: [],
    additionals: [],
    edns: { udpSize: 1232, version: 0, dnssecOk: false, options: [] },
  });
}

async function serve(kind: Kind): Promise<number> {
  if (kind === "echo") return serveEcho();
  const tree = new RecordTree();
  tree.addZone({ origin: ZONE.origin, negativeTtl: ZONE.ttl, serial: 1 });
  for (let service = 0; service < SERVICES; service++) putService(tree, service, 0);
  if (kind === "dns with changes") {
    let turn = 0;
    setInterval(() => putService(tree, turn % SERVICES, ++turn), 10);
  }
  const resolve = createResolver({ rng: seededRng(1), tree, isReady: () => true });
  const meters = createDnsMeters(noMetrics);
  const respond = createResponder({ resolve, isRecursive: false, meters, log: silentLogger });
  const listen = [parseSocketAddress("127.0.0.1:0")];
  const server = await startDnsServer({ listen, respond, clock: systemClock, log: silentLogger });
  return server.addresses[0]?.port ?? 0;
}

/** A headless service of four endpoints. */
function putService(tree: RecordTree, service: number, version: number): void {
  const name = `service-${service}`;
  const endpoints = [1, 2, 3, 4].map((host) => ({
    addresses: [`10.${service >> 8}.${service & 255}.${host + ((version * 4) % 200)}`],
  }));
  const labels = { "multicluster.kubernetes.io/source-cluster": "east" };
  const contribution = serviceContribution(
    ZONE,
    { metadata: { name, namespace: "work" }, spec: { type: "Headless", ports: [] } },
    [
      {
        metadata: { name, namespace: "work", labels },
        addressType: "IPv4",
        endpoints,
        ports: [{ name: "http", port: 80 }],
      },
    ],
  );
  tree.put(name, contribution);
}

async function serveEcho(): Promise<number> {
  const socket = createSocket({ type: "udp4", recvBufferSize: 1 << 20 });
  socket.on("message", (bytes, from) => socket.send(bytes, from.port, from.address));
  await new Promise<void>((resolve) => {
    socket.bind(0, "127.0.0.1", resolve);
  });
  return socket.address().port;
}

const [flag, kind] = process.argv.slice(2);
if (flag === "--serve") console.log(await serve(kind as Kind));
