/**
 * A DNS server, or a client, in the network of a pod.
 *
 * Usage: dns-peer.ts serve JSON: answers from `{"name.": ["address", ...]}` and reports each name that it was asked for as a line.
 *          The names `h<number>.example.com.` have ten addresses each.
 *        dns-peer.ts ask SERVER NAME TYPE udp|tcp PORT [MS]: prints the response code and the addresses. Waits for 1500 ms, or for MS.
 *        dns-peer.ts flood SERVER COUNT: asks for that many of the numbered names, 64 at a time, and prints how many had an answer.
 */

import { systemClock } from "@fairlead/base/clock.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { familyOfText, formatAddress, parseAddress } from "@fairlead/base/netaddr/address.ts";
import { overTcp, overUdp } from "@fairlead/dns/exchange.ts";
import { serveTcp } from "@fairlead/dns/tcp.ts";
import { serveUdp } from "@fairlead/dns/udp.ts";
import { decodeMessage } from "@fairlead/dns/wire/decode.ts";
import { encodeMessage } from "@fairlead/dns/wire/encode.ts";
import { type Message, type ResourceRecord, TYPE } from "@fairlead/dns/wire/types.ts";

const [verb, ...words] = process.argv.slice(2);
if (verb === "serve") await serve(JSON.parse(words[0] ?? "{}") as Zone);
else if (verb === "flood") await flood(words);
else await ask(words);

type Zone = Readonly<Record<string, readonly string[]>>;

async function serve(zone: Zone): Promise<void> {
  const respond = (bytes: Uint8Array): Buffer => {
    const query = decodeMessage(bytes);
    const [question] = query.questions;
    const name = question?.name.toLowerCase() ?? "";
    const number = /^h(\d+)\.example\.com\.$/.exec(name)?.[1];
    if (number === undefined) process.stdout.write(`${name}\n`);
    const answers = (number === undefined ? (zone[name] ?? []) : numbered(Number(number)))
      .map((it) => recordOf(name, it))
      .filter((it) => TYPE[it.data.type as "A"] === question?.type);
    return encodeMessage({ ...query, response: true, answers });
  };
  for (const host of ["0.0.0.0", "::"]) {
    const address = { host, port: 53, family: familyOfText(host) ?? "IPv4" };
    await serveUdp({ address, respond, log: silentLogger, maxPending: 100 });
    await serveTcp({ address, respond, clock: systemClock, maxConnections: 10, idleMs: 10_000 });
  }
  process.stdout.write("ready\n");
}

function recordOf(name: string, text: string): ResourceRecord {
  const address = parseAddress(text);
  const data =
    typeof address === "number" ? ({ type: "A", address } as const) : ({ type: "AAAA", address } as const);
  return { name, class: 1, ttl: 60, data };
}

function numbered(number: number): readonly string[] {
  return Array.from({ length: 10 }, (_, at) => formatAddress(0x0b00_0000 + number * 10 + at));
}

async function flood([server = "", count]: readonly string[]): Promise<void> {
  let next = 0;
  let answered = 0;
  const one = async (): Promise<void> => {
    while (next < Number(count)) {
      const number = next++;
      const options = {
        server: { host: server, port: 53, family: familyOfText(server) ?? "IPv4" },
        timeoutMs: 1500,
        clock: systemClock,
      };
      try {
        const query = queryOf(`h${number}.example.com.`, TYPE.A);
        const { rcode } = await overUdp(encodeMessage(query), (it) => decodeMessage(it), options);
        if (rcode === 0) answered++;
      } catch {
        // Over a bound.
      }
    }
  };
  await Promise.all(Array.from({ length: 64 }, one));
  process.stdout.write(`${answered}`);
}

function queryOf(name: string, type: number): Message {
  return {
    id: 7,
    response: false,
    opcode: 0,
    authoritative: false,
    truncated: false,
    recursionDesired: true,
    recursionAvailable: false,
    authenticData: false,
    checkingDisabled: false,
    rcode: 0,
    questions: [{ name, type, class: 1 }],
    answers: [],
    authorities: [],
    additionals: [],
  };
}

async function ask([
  server = "",
  name = "",
  type,
  transport,
  port,
  timeout = "1500",
]: readonly string[]): Promise<void> {
  const query = queryOf(name, type === "AAAA" ? TYPE.AAAA : TYPE.A);
  const options = {
    server: { host: server, port: Number(port), family: familyOfText(server) ?? "IPv4" },
    timeoutMs: Number(timeout),
    clock: systemClock,
  };
  const exchange = transport === "tcp" ? overTcp : overUdp;
  try {
    const { rcode, answers } = await exchange(encodeMessage(query), (it) => decodeMessage(it), options);
    const found = answers.flatMap(({ data }) => ("address" in data ? formatAddress(data.address) : []));
    process.stdout.write([rcode, ...found].join(" "));
  } catch {
    process.stdout.write("no answer");
  }
}
