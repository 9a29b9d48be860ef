// A client of the fleet. What it is asked for is its first argument; it prints JSON.
//
//   load NAME=URL…      asks each URL without an end, and prints a line a second: what was answered and what failed
//   ask URL COUNT       asks COUNT times, one after another
//   interfaces          addresses by interface
//   resolve NAME        the addresses of a name, by the resolver of the pod
import { lookup } from "node:dns/promises";
import { get } from "node:http";
import { networkInterfaces } from "node:os";

const EVERY_MS = 50;
/** Two parts of one limit: where this program itself stood still, the first one ends late, and answers that are there are read before the second one ends. */
const TIMEOUT_MS = [2000, 1000];
/** No more are under way at a time: a service that is gone must not fill the pod's memory. */
const MAX_UNDER_WAY = 100;

const FIRST_PORT = 2048;
const LAST_PORT = 65_535;

const isGlobal = ({ address }) => !address.startsWith("fe80:");

const nothing = () => ({ asked: 0, failed: 0, by: {}, clients: {}, errors: {} });

/**
 * Each request is a connection of its own, from a port that none of the last minutes had: an unanswered connection
 * is remembered by conntrack for two minutes, and sends one with the same addresses and ports to the previous endpoint,
 * whatever became of it. That is the cluster's service proxy's affair, and not what is tried here.
 */
let localPort = FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT));

async function ask(url) {
  localPort = localPort < LAST_PORT ? localPort + 1 : FIRST_PORT;
  const stop = new AbortController();
  const [first, second] = TIMEOUT_MS;
  let timer = setTimeout(() => (timer = setTimeout(() => stop.abort(), second)), first);
  try {
    return await answerOf(url, { agent: false, localPort, signal: stop.signal });
  } catch (error) {
    throw stop.signal.aborted ? new DOMException("no answer", "TimeoutError") : error;
  } finally {
    clearTimeout(timer);
  }
}

function answerOf(url, options) {
  return new Promise((resolve, reject) => {
    const request = get(url, options, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => (text += chunk));
      response.on("error", reject);
      response.on("end", () => {
        try {
          resolve(JSON.parse(text));
        } catch (error) {
          reject(error);
        }
      });
    });
    request.on("error", reject);
  });
}

async function askInto(tally, url) {
  tally.asked++;
  try {
    const { cluster, client } = await ask(url);
    tally.by[cluster] = (tally.by[cluster] ?? 0) + 1;
    tally.clients[client] = (tally.clients[client] ?? 0) + 1;
  } catch (error) {
    tally.failed++;
    const code = error.name === "TimeoutError" ? "timeout" : (error.code ?? error.name);
    tally.errors[code] = (tally.errors[code] ?? 0) + 1;
  }
}

function load(targets) {
  const fresh = () => Object.fromEntries(targets.map(([name]) => [name, nothing()]));
  let tallies = fresh();
  let underWay = 0;
  setInterval(() => {
    for (const [name, url] of targets) {
      if (underWay >= MAX_UNDER_WAY) return;
      underWay++;
      // What ends in a later second counts there.
      const tally = nothing();
      void askInto(tally, url).finally(() => {
        underWay--;
        add(tallies[name], tally);
      });
    }
  }, EVERY_MS);
  setInterval(() => {
    process.stdout.write(`${JSON.stringify(tallies)}\n`);
    tallies = fresh();
  }, 1000);
}

function add(sum, { asked, failed, by, clients, errors }) {
  sum.asked += asked;
  sum.failed += failed;
  for (const [key, count] of Object.entries(by)) sum.by[key] = (sum.by[key] ?? 0) + count;
  for (const [key, count] of Object.entries(clients)) sum.clients[key] = (sum.clients[key] ?? 0) + count;
  for (const [key, count] of Object.entries(errors)) sum.errors[key] = (sum.errors[key] ?? 0) + count;
}

const [verb, ...rest] = process.argv.slice(2);
if (verb === "load") {
  process.on("SIGTERM", () => process.exit(0));
  load(rest.map((it) => [it.slice(0, it.indexOf("=")), it.slice(it.indexOf("=") + 1)]));
} else if (verb === "ask") {
  const tally = nothing();
  for (let left = Number(rest[1]); left > 0; left--) await askInto(tally, rest[0]);
  process.stdout.write(JSON.stringify(tally));
} else if (verb === "interfaces") {
  const all = Object.entries(networkInterfaces());
  const addresses = all.map(([name, found]) => [
    name,
    found
      .filter(isGlobal)
      .map((it) => it.address)
      .toSorted(),
  ]);
  process.stdout.write(JSON.stringify(Object.fromEntries(addresses)));
} else {
  const found = await lookup(rest[0], { all: true }).catch(() => []);
  process.stdout.write(JSON.stringify(found.map((it) => it.address).toSorted()));
}
