import { expect, it } from "vitest";
import { endFlows } from "./conntrack.ts";
import { attribute, NLM_F_REQUEST, parseAttributes, parseMessages, renderMessage } from "./message.ts";
import type { NetlinkSocket } from "./socket.ts";

const CT = 1 << 8;
const [NEW, DELETE] = [CT, CT | 2];
const [ORIGINAL, REPLY, PROTOCOL_INFO, ID] = [1, 2, 4, 12];
const TIME_WAIT = 7;
const ESTABLISHED = 3;
const CLIENT = "10.0.0.1:40000";
const SERVICE = "10.96.0.1:80";

interface KernelFlow {
  readonly endpoint: string;
  readonly state: number;
  readonly id: number;
}

function tuple(from: string, to: string): Buffer {
  const ends = [from, to].map((it) => it.split(":"));
  const addresses = ends.map(([host = ""], at) =>
    attribute(1 + at, Buffer.from(host.split(".").map(Number))),
  );
  const ports = ends.map(([, port], at) =>
    attribute(2 + at, Buffer.of(Number(port) >> 8, Number(port) & 255)),
  );
  const protocol = attribute(1, Buffer.of(6));
  return Buffer.concat([attribute(1, addresses), attribute(2, [protocol, ...ports])]);
}

/** The kernel as far as it matters: one client port, whose flow it finds by the addresses of either direction, and compares the id. */
class Kernel implements NetlinkSocket {
  flow: KernelFlow | undefined;

  constructor(flow: KernelFlow) {
    this.flow = flow;
  }

  transact(request: Uint8Array): readonly Uint8Array[] {
    const isDelete = parseMessages(request)[0]?.type === DELETE;
    if (!isDelete) return this.flow === undefined ? [] : [this.#render(this.flow)];
    for (const { payload } of parseMessages(request)) this.#delete(parseAttributes(payload, 4));
    return [];
  }

  #render({ endpoint, state, id }: KernelFlow): Uint8Array {
    const attributes = [
      attribute(ORIGINAL, [tuple(CLIENT, SERVICE)]),
      attribute(REPLY, [tuple(endpoint, CLIENT)]),
      attribute(PROTOCOL_INFO, [attribute(1, [attribute(1, Buffer.of(state))])]),
      attribute(ID, Buffer.of(0, 0, 0, id)),
    ];
    return renderMessage({ family: 2, sequence: 1, type: NEW, flags: NLM_F_REQUEST, attributes });
  }

  #delete(by: ReadonlyMap<number, Buffer>): void {
    if (this.flow === undefined) return;
    const found = parseAttributes(Buffer.from(this.#render(this.flow)), 20);
    const named = by.has(ORIGINAL) ? ORIGINAL : REPLY;
    const isIt = [named, ID].every((it) => by.get(it)?.equals(found.get(it) ?? Buffer.alloc(0)));
    if (isIt) this.flow = undefined;
  }

  [Symbol.dispose](): void {}
}

const end = (kernel: Kernel, onRead = (): void => {}): void => {
  endFlows(kernel, { family: "IPv4", protocol: "tcp" }, ({ answerer }) => {
    onRead();
    return answerer === "10.1.0.2";
  });
};

it("ends a closed connection to an endpoint that went", () => {
  const kernel = new Kernel({ endpoint: "10.1.0.2:8080", state: TIME_WAIT, id: 1 });
  end(kernel);
  expect(kernel.flow).toBeUndefined();
});

it("leaves the connection that its client opened from the same port since, although the kernel gave it the same id", () => {
  const kernel = new Kernel({ endpoint: "10.1.0.2:8080", state: TIME_WAIT, id: 1 });
  const later = { endpoint: "10.1.0.3:8080", state: ESTABLISHED, id: 1 };
  end(kernel, () => (kernel.flow = later));
  expect(kernel.flow).toBe(later);
});
