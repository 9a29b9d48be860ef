import { pathNotFound } from "../status.ts";
import type { Exchange } from "./exchange.ts";

/** `/healthz`, `/livez` and `/readyz`, in full and by check. */

export interface HealthChecks {
  /** Name → whether it holds. */
  readonly checks: () => ReadonlyMap<string, boolean>;
}

const ROOTS = new Set(["healthz", "livez", "readyz"]);

export function isHealthPath(pathname: string): boolean {
  return ROOTS.has(pathname.split("/")[1] ?? "");
}

export async function serveHealth({ checks }: HealthChecks, exchange: Exchange): Promise<void> {
  const [, root = "", name, ...rest] = exchange.pathname.split("/");
  const all = checks();
  if (rest.length > 0) throw pathNotFound();
  if (name !== undefined && name !== "") {
    const isOk = all.get(name);
    if (isOk === undefined) throw pathNotFound();
    await exchange.sendText(isOk ? 200 : 500, isOk ? "ok" : `${name} failed`);
    return;
  }
  const excluded = new Set(exchange.query.getAll("exclude"));
  const lines = [...all].map(([check, isOk]) => {
    if (excluded.has(check)) return `[+]${check} excluded: ok`;
    return isOk ? `[+]${check} ok` : `[-]${check} failed: reason withheld`;
  });
  const isOk = [...all].every(([check, holds]) => holds || excluded.has(check));
  const wantsLines = exchange.query.has("verbose") || !isOk;
  const verdict = `${root} check ${isOk ? "passed" : "failed"}`;
  await exchange.sendText(isOk ? 200 : 500, wantsLines ? `${[...lines, verdict].join("\n")}\n` : "ok");
}
