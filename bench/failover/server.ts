/** In a pod: returns datagrams and bytes of connections to where they came from. */
import { createSocket } from "node:dgram";
import { createServer } from "node:net";
import { PORT } from "./result.ts";

const socket = createSocket({ type: "udp6", recvBufferSize: 1 << 20 });
socket.on("message", (bytes, from) => socket.send(bytes, from.port, from.address, () => {}));
socket.bind(PORT);
createServer({ noDelay: true }, (it) => {
  it.on("error", () => {});
  it.pipe(it);
}).listen(PORT);
