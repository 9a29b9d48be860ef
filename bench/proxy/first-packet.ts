import { once } from "node:events";
import { start } from "@fairlead/base/exec.ts";
import { runIpLines } from "@fairlead/os/iproute/driver.ts";
import { addVethPair, replaceAddress, replaceRoute, setLink } from "@fairlead/os/iproute/lines.ts";
import { createNetns, deleteNetns, inNetns } from "@fairlead/os/netns/netns.ts";
import { ROUTER_SYSCTLS, writeSysctls } from "@fairlead/os/netns/sysctl.ts";

/** A client and a server on both sides of a namespace that balances: how long does the first packet of a flow take? */

export const SERVER_PORT = 8080;
const CLIENT = "10.112.0.2";
/** Addresses of the server, of which each service has some. */
export const SERVERS = ["10.112.1.2", "10.112.1.3", "10.112.1.4", "10.112.1.5", "10.112.1.6"] as const;
const GATEWAYS = { client: "10.112.0.1", server: "10.112.1.1" } as const;

export interface FirstPackets extends AsyncDisposable {
  /** The namespace between them. */
  readonly netns: string;
  /** Round trips of the first datagrams of `count` flows to each target, in turns. Unit: milliseconds. */
  measure(targets: readonly (readonly [address: string, port: number])[], count: number): Promise<number[][]>;
}

/** A socket for each address, because an answer has to come from where the request went. */
const SERVER_SCRIPT = `const dgram=require("node:dgram");let left=${SERVERS.length};
for(const address of ${JSON.stringify(SERVERS)}){const s=dgram.createSocket("udp4");s.on("message",(m,r)=>s.send(m,r.port,r.address));s.bind(${SERVER_PORT},address,()=>{if(--left===0)console.log("ready")})}`;

/** Each target has its turn before the next one: what the machine does otherwise concerns all of them. */
const CLIENT_SCRIPT = `const dgram=require("node:dgram");
const [targets,count]=JSON.parse(process.argv[1]);
const one=([address,port])=>new Promise((done)=>{
  const s=dgram.createSocket("udp4");
  s.bind(0,()=>{s.connect(port,address,()=>{
    let at;const ask=()=>{at=process.hrtime.bigint();s.send("?")};
    const again=setInterval(ask,1000);
    s.once("message",()=>{const ms=Number(process.hrtime.bigint()-at)/1e6;clearInterval(again);s.close(()=>done(ms))});
    ask();
  })});
});
(async()=>{const all=targets.map(()=>[]);for(let n=0;n<count;n++)for(const [at,it] of targets.entries())all[at].push(await one(it));console.log(JSON.stringify(all))})()`;

export async function startFirstPackets(folder: string, signal: AbortSignal): Promise<FirstPackets> {
  await using stack = new AsyncDisposableStack();
  const at = (name: string): string => `${folder}/${name}`;
  for (const name of ["client", "fleet", "server"]) {
    await createNetns(at(name), signal);
    stack.defer(() => deleteNetns(at(name), AbortSignal.timeout(10_000)));
  }
  await writeSysctls(at("fleet"), ROUTER_SYSCTLS, signal);
  const addresses = { client: [CLIENT], server: SERVERS };
  for (const side of ["client", "server"] as const) {
    await runIpLines(
      [addVethPair({ device: side, netns: at("fleet") }, { device: "eth0", netns: at(side) })],
      {
        signal,
      },
    );
    await runIpLines([setLink(side, { up: true }), replaceAddress(side, `${GATEWAYS[side]}/24`)], {
      netns: at("fleet"),
      signal,
    });
    const own = addresses[side].map((it) => replaceAddress("eth0", `${it}/24`));
    const route = replaceRoute({ to: "0.0.0.0/0", hops: [{ device: "eth0", via: GATEWAYS[side] }] });
    await runIpLines([setLink("eth0", { up: true }), ...own, route], { netns: at(side), signal });
  }
  const line = inNetns(at("server"), process.execPath, ["-e", SERVER_SCRIPT]);
  const server = start(line.command, line.args, { stdio: ["ignore", "pipe", "inherit"] });
  stack.defer(() => void server.kill("SIGKILL"));
  if (server.stdout !== null) await once(server.stdout, "data", { signal });
  const held = stack.move();
  return {
    netns: at("fleet"),
    async measure(targets, count) {
      const args = ["-e", CLIENT_SCRIPT, JSON.stringify([targets, count])];
      const client = inNetns(at("client"), process.execPath, args);
      const child = start(client.command, client.args, { stdio: ["ignore", "pipe", "inherit"] });
      let text = "";
      child.stdout?.setEncoding("utf8").on("data", (part: string) => (text += part));
      await once(child, "close", { signal });
      return JSON.parse(text) as number[][];
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}
