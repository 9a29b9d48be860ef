import { lookup } from "node:dns";
import { request as requestHttp, type RequestOptions } from "node:http";
import { request as requestHttps } from "node:https";
import { connect, isIP, type LookupFunction, type TcpNetConnectOpts } from "node:net";
import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import type { Monitor } from "../profile.ts";
import type { PermitsTarget } from "../targets.ts";

/** Whether an endpoint is well. Never throws; ends when `signal` aborts. */
export type Check = (host: string, monitor: Monitor, signal: AbortSignal) => Promise<boolean>;

/**
 * By the protocol of the monitor, as Azure Traffic Manager checks: 200 and nothing else, redirects are not followed. Each connection
 * goes to an address that was judged for it, so that a name that resolves to another one later gains nothing.
 */
export function createCheck(permits: PermitsTarget): Check {
  const resolve = lookupOf(permits);
  return async (host, monitor, signal) => {
    const literal = tryParseAddress(host);
    if (literal !== undefined && !permits(literal)) return false;
    try {
      if (monitor.protocol === "TCP")
        return await opens({ host, port: monitor.port, lookup: resolve }, signal);
      return (await statusOf({ ...requestOptions(host, monitor), lookup: resolve }, monitor, signal)) === 200;
    } catch {
      return false;
    }
  };
}

function opens(to: TcpNetConnectOpts, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect({ ...to, signal });
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", reject);
  });
}

/** The body is not read: the connection ends with the head of the answer. */
function statusOf(
  options: RequestOptions,
  monitor: Monitor,
  signal: AbortSignal,
): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const send = monitor.protocol === "HTTPS" ? requestHttps : requestHttp;
    const request = send({ ...options, signal }, (response) => {
      resolve(response.statusCode);
      response.on("error", () => {});
      response.destroy();
    });
    request.once("error", reject);
    request.end();
  });
}

function requestOptions(
  host: string,
  { port, path, customHeaders, protocol }: Monitor,
): RequestOptions & { readonly rejectUnauthorized?: boolean; readonly servername?: string } {
  const headers = Object.fromEntries(customHeaders.map(({ name, value }) => [name, value]));
  const options = { host, port, path, headers, agent: false };
  if (protocol !== "HTTPS") return options;
  const name =
    customHeaders.find((it) => it.name.toLowerCase() === "host")?.value.replace(/:\d+$/, "") ?? host;
  // Whether it answers is asked, not who it is: endpoints have the certificates of the names that clients use.
  return { ...options, rejectUnauthorized: false, ...(isIP(name) === 0 ? { servername: name } : {}) };
}

/** A mailbox is not trusted: a host name in it that resolves to this machine or its link is not an endpoint. */
function lookupOf(permits: PermitsTarget): LookupFunction {
  return (host, options, done) => {
    lookup(host, { ...options, all: true }, (error, found) => {
      const usable = (error === null ? found : []).filter(({ address }) => {
        const parsed = tryParseAddress(address);
        return parsed !== undefined && permits(parsed);
      });
      const [first] = usable;
      if (first === undefined) done(error ?? new Error(`${host} has no address of an endpoint`), "", 0);
      else if (options.all === true) done(null, usable);
      else done(null, first.address, first.family);
    });
  };
}
