// Answers every HTTP request with its own name. Asked to end, it keeps serving for a while, unready, until all clients know.
import { createServer } from "node:http";

const SERVE_ON_MS = 8000;

let isEnding = false;
const answer = JSON.stringify({ cluster: process.env.CLUSTER, pod: process.env.POD });
const server = createServer((request, response) => {
  const isProbe = request.url === "/readyz";
  response.writeHead(isProbe && isEnding ? 503 : 200, {
    "content-type": "application/json",
    connection: "close",
  });
  response.end(isProbe ? "" : answer);
});
server.listen(8080);
process.on("SIGTERM", () => {
  isEnding = true;
  setTimeout(() => process.exit(0), SERVE_ON_MS);
});
