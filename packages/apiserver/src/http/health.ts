import type { Exchange } from "./exchange.ts";

/** `/healthz`, `/livez` and `/readyz`, in full and by check. */

export interface HealthCheck {
  readonly name: string;
  readonly holds: boolean;
  /** The one path that asks for it. Default: all do. */
  readonly only?: string;
}

export interface HealthChecks {
  readonly checks: () => readonly HealthCheck[];
}

const ROOTS = new Set(["healthz", "livez", "readyz"]);

export function isHealthPath(pathname: string): boolean {
  return ROOTS.has(pathname.split("/")[1] ?? "");
}

export async function serveHealth({ checks }: HealthChecks, exchange: Exchange): Promise<void> {
  const [, root = "", ...rest] = exchange.pathname.split("/");
  exchange.response.setHeader("X-Content-Type-Options", "nosniff");
  const all = checks().filter((it) => it.only === undefined || it.only === root);
  const name = rest.join("/");
  if (rest.length > 0) {
    const check = all.find((it) => it.name === name);
    if (check === undefined) return exchange.sendText(404, "404 page not found\n");
    if (check.holds) return exchange.sendText(200, "ok");
    return exchange.sendText(500, `internal server error: ${name} failed\n`);
  }
  const excluded = exchange.query.getAll("exclude");
  const isOk = all.every((it) => it.holds || excluded.includes(it.name));
  const wantsLines = exchange.query.has("verbose") || !isOk;
  const text = wantsLines ? report(root, all, excluded) : "ok";
  await exchange.sendText(isOk ? 200 : 500, text);
}

function report(root: string, all: readonly HealthCheck[], excluded: readonly string[]): string {
  const lines = all.map(({ name, holds }) => {
    if (excluded.includes(name)) return `[+]${name} excluded: ok`;
    return holds ? `[+]${name} ok` : `[-]${name} failed: reason withheld`;
  });
  const unknown = excluded.filter((it) => it !== "" && !all.some(({ name }) => name === it));
  if (unknown.length > 0) {
    const names = unknown.map((it) => JSON.stringify(it)).join(", ");
    lines.push(`warn: some health checks cannot be excluded: no matches for ${names}`);
  }
  const isOk = all.every((it) => it.holds || excluded.includes(it.name));
  return `${[...lines, `${root} check ${isOk ? "passed" : "failed"}`].join("\n")}\n`;
}
