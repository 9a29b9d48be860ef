// Answers every HTTP request with its own name and the address of the client. Asked to end, it keeps serving for a while, unready, until all clients know.
import { createServer } from "node:http";

const SERVE_ON_MS = 8000;

let isEnding = false;
const { CLUSTER: cluster, POD: pod } = process.env;
const answerTo = ({ remoteAddress = "" }) =>
  JSON.stringify({ cluster, pod, client: remoteAddress.replace("::ffff:", "") });
const server = createServer((request, response) => {
  const isProbe = request.url === "/readyz";
  response.writeHead(isProbe && isEnding ? 503 : 200, {
    "content-type": "application/json",
    connection: "close",
  });
  response.end(isProbe ? "" : answerTo(request.socket));
});
server.listen(8080);
process.on("SIGTERM", () => {
  isEnding = true;
  setTimeout(() => process.exit(0), SERVE_ON_MS);
});
