/**
 * In a pod: a request every 10 ms, each on a connection of its own, whatever became of those before. Prints what failed, and how long each cluster answered. Arguments:
 * URL, seconds.
 */
import { get } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Requests } from "./result.ts";

const EVERY_MS = 10;
/** Of one request. Unit: milliseconds. */
const TIMEOUT_MS = 1000;

const [url = "", seconds = "10"] = process.argv.slice(2);
const total = (Number(seconds) * 1000) / EVERY_MS;
const failures: number[] = [];
/** When the last request began that a cluster answered. */
const answeredMs: Record<string, number> = {};
const began = Date.now();
let asked = 0;

function ask(): void {
  asked += 1;
  const startedMs = Date.now();
  const options = {
    agent: false,
    headers: { accept: "application/json" },
    signal: AbortSignal.timeout(TIMEOUT_MS),
  };
  const request = get(url, options, (response) => {
    let text = "";
    response.setEncoding("utf8").on("data", (part: string) => (text += part));
    response.on("error", fail).on("end", () => {
      const { cluster } = JSON.parse(text) as { readonly cluster: string };
      answeredMs[cluster] = Math.max(startedMs, answeredMs[cluster] ?? 0);
    });
    if (response.statusCode !== 200) fail();
  });
  let isFailed = false;
  function fail(): void {
    if (!isFailed) failures.push(startedMs);
    isFailed = true;
  }
  request.on("error", fail);
}

while (asked < total) {
  const due = Math.min(total, (Date.now() - began) / EVERY_MS);
  while (asked < due) ask();
  await sleep(EVERY_MS);
}
await sleep(2 * TIMEOUT_MS);
const result: Requests = { asked, failures: failures.toSorted((a, b) => a - b), answeredMs };
console.log(JSON.stringify(result));
process.exit();
