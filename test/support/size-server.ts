/** In a pod: returns datagrams, and the bytes of connections, to where they came from. Argument: the port. */
import { createSocket } from "node:dgram";
import { createServer } from "node:net";

const port = Number(process.argv[2]);
const socket = createSocket({ type: "udp6", recvBufferSize: 1 << 20 });
socket.on("message", (bytes, from) => socket.send(bytes, from.port, from.address, () => {}));
socket.bind(port);
createServer({ noDelay: true }, (it) => {
  it.on("error", () => {});
  it.pipe(it);
}).listen(port);
