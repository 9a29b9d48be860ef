import { MCS_SERVICE_IMPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { mcsExport, nodePod, service } from "../support/lab-manifests.ts";
import type { TestLab } from "../support/lab-fixture.ts";
import { eventuallyOne } from "../support/waiting.ts";

/** For tests of virtual IPs: services of the namespace "work" in members of a parallel network. */

/** The virtual addresses of a service in a member, as hosts of a URL: IPv4, then IPv6. */
export async function vipsOf(lab: TestLab, member: string, name: string): Promise<readonly string[]> {
  const found = await eventuallyOne(
    await lab.client(member),
    MCS_SERVICE_IMPORTS,
    objectKey("work", name),
    (it) => it.spec?.ips?.length === 2,
  );
  return (found.spec?.ips ?? []).map((it) => (it.includes(":") ? `[${it}]` : it));
}

const UDP_PORT = 5353;

/** A server that tells clients their address, over UDP. */
export function udpServer(): readonly Readonly<Record<string, unknown>>[] {
  const name = { namespace: "work", name: "udp" };
  const script = `const s=require("node:dgram").createSocket("udp6");s.on("message",(_,r)=>s.send(r.address.replace("::ffff:",""),r.port,r.address));s.bind(${UDP_PORT})`;
  const ports = [{ name: "tell", protocol: "UDP", port: 53, targetPort: UDP_PORT }];
  return [nodePod(name, `exec node -e '${script}'`), service(name, {}, { ports }), mcsExport(name)];
}

/** A pod that waits to be asked to run `udpClientScript`, or anything else. */
export function clientPod(): Readonly<Record<string, unknown>> {
  return nodePod({ namespace: "work", name: "client" });
}

/** For a `clientPod`: asks that server, again for each datagram that was lost, and prints what it tells. */
export function udpClientScript(host: string): string {
  const address = host.replace(/[[\]]/g, "");
  const script = `const s=require("node:dgram").createSocket(process.argv[1].includes(":")?"udp6":"udp4");const ask=()=>s.send("?",53,process.argv[1]);s.on("message",(m)=>{console.log(String(m));process.exit()});setInterval(ask,300);setTimeout(()=>process.exit(1),9000);ask()`;
  return `node -e '${script}' ${address}`;
}
