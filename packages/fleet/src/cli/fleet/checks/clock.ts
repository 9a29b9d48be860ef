import { defined } from "@fairlead/base/defined.ts";
import { request } from "node:https";
import type { Clock } from "@fairlead/base/clock.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import type { Finding } from "./finding.ts";

/** A difference above the first is a warning, above the second a failure: certificates are valid from 5 minutes ago. Unit: ms. */
const LIMITS_MS = { warn: 30_000, fail: 300_000 };
const ANSWER_TIMEOUT_MS = 10_000;

/** The differences between the clocks of clusters and the local clock. */
export interface Skew {
  readonly who: string;
  /** Positive: ahead of here. Undefined: it does not say. Unit: milliseconds. */
  readonly aheadMs: number | undefined;
}

/**
 * Reads a cluster's clock from the header Date of any answer (RFC 9110, section 6.6.1): whole seconds, so that less than
 * one means nothing. No credentials are sent: a refusal has a date too.
 */
export async function readSkew(
  who: string,
  config: ClusterConfig,
  clock: Clock,
  signal: AbortSignal,
): Promise<Skew> {
  const date = await readDate(config, signal).catch(() => undefined);
  const atMs = date === undefined ? Number.NaN : Date.parse(date);
  return { who, aheadMs: Number.isNaN(atMs) ? undefined : atMs + 500 - clock.now() };
}

function readDate(config: ClusterConfig, signal: AbortSignal): Promise<string | undefined> {
  const { server, ca, tlsServerName, insecureSkipTlsVerify } = config;
  if (!server.startsWith("https:")) return Promise.resolve(undefined);
  return new Promise((resolve, reject) => {
    const asked = request(
      `${server}/version`,
      {
        signal,
        timeout: ANSWER_TIMEOUT_MS,
        agent: false,
        ...defined({ ca, servername: tlsServerName }),
        ...(insecureSkipTlsVerify === true ? { rejectUnauthorized: false } : {}),
      },
      (answer) => {
        answer.resume();
        resolve(answer.headers.date);
      },
    );
    asked.on("timeout", () => asked.destroy(new Error("no answer")));
    asked.on("error", reject);
    asked.end();
  });
}

/** Compares each pair: hub, member and the machine here. */
export function judgeClocks(hub: Skew, member: Skew): Finding {
  const check = "clock" as const;
  const known = [{ who: "this machine", aheadMs: 0 }, hub, member].filter(
    (it): it is { who: string; aheadMs: number } => it.aheadMs !== undefined,
  );
  const unknown = [hub, member].filter((it) => it.aheadMs === undefined).map((it) => it.who);
  const sorted = known.toSorted((a, b) => a.aheadMs - b.aheadMs);
  const [slow, fast] = [sorted.at(0), sorted.at(-1)];
  const apartMs = (fast?.aheadMs ?? 0) - (slow?.aheadMs ?? 0);
  if (unknown.length > 0 && apartMs <= LIMITS_MS.warn)
    return {
      check,
      status: "unknown",
      message: `cannot read the clock of ${unknown.join(" and ")}: no Date header in the response`,
    };
  const seconds = Math.round(apartMs / 1000);
  const message = `the clock of ${fast?.who} is ${seconds} s ahead of that of ${slow?.who}`;
  if (apartMs <= LIMITS_MS.warn) return { check, status: "ok", message: "clocks agree" };
  if (apartMs <= LIMITS_MS.fail) return { check, status: "warning", message: `${message}: check their NTP` };
  return {
    check,
    status: "failed",
    message: `${message}, more than ${LIMITS_MS.fail / 1000} s, so certificates may be refused; synchronize the clocks, or pass --skip-check clock`,
  };
}
