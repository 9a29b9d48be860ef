import { lookup } from "node:dns";
import { request as requestHttp, type RequestOptions } from "node:http";
import { request as requestHttps } from "node:https";
import { connect, isIP, type LookupFunction } from "node:net";
import { isEndpointAddress } from "@fairlead/base/netaddr/special.ts";
import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import type { Monitor } from "../profile.ts";

/** Whether an endpoint is well. Never throws; ends when `signal` aborts. */
export type Check = (host: string, monitor: Monitor, signal: AbortSignal) => Promise<boolean>;

/** By the protocol of the monitor, as Azure Traffic Manager checks: 200 and nothing else, redirects are not followed. */
export const checkEndpoint: Check = async (host, monitor, signal) => {
  try {
    if (monitor.protocol === "TCP") return await opens(host, monitor.port, signal);
    return (await statusOf(host, monitor, signal)) === 200;
  } catch {
    return false;
  }
};

function opens(host: string, port: number, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, signal, lookup: lookupEndpoint });
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", reject);
  });
}

/** The body is not read: the connection ends with the head of the answer. */
function statusOf(host: string, monitor: Monitor, signal: AbortSignal): Promise<number | undefined> {
  const options = requestOptions(host, monitor);
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
  const options = { host, port, path, headers, agent: false, lookup: lookupEndpoint };
  if (protocol !== "HTTPS") return options;
  const name =
    customHeaders.find((it) => it.name.toLowerCase() === "host")?.value.replace(/:\d+$/, "") ?? host;
  // Whether it answers is asked, not who it is: endpoints have the certificates of the names that clients use.
  return { ...options, rejectUnauthorized: false, ...(isIP(name) === 0 ? { servername: name } : {}) };
}

/** A mailbox is not trusted: a host name in it that resolves to this machine or its link is not an endpoint. */
const lookupEndpoint: LookupFunction = (host, options, done) => {
  lookup(host, { ...options, all: true }, (error, found) => {
    const usable = (error === null ? found : []).filter(({ address }) => {
      const parsed = tryParseAddress(address);
      return parsed !== undefined && isEndpointAddress(parsed);
    });
    const [first] = usable;
    if (first === undefined) done(error ?? new Error(`${host} has no address of an endpoint`), "", 0);
    else if (options.all === true) done(null, usable);
    else done(null, first.address, first.family);
  });
};
