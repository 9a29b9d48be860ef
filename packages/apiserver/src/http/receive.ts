import type { IncomingMessage } from "node:http";
import type { Clock } from "@fairlead/base/clock.ts";
import { badRequest, StatusError, tooLarge } from "#status.ts";
import type { Holding } from "./room.ts";
import { tooMany, transferMs } from "./transfer.ts";

/** As the real server: `--max-request-bytes`. Unit: bytes. */
const MAX_BODY_BYTES = 3 * 1024 * 1024;
/** The minimum cost of a piece of a body, however small. Unit: bytes. */
const PIECE_COST = 256;

/**
 * The whole body of a request.
 *
 * @param holding - Takes the bytes as they come.
 * @throws {StatusError} 413 beyond the limit, 429 where there is no room for it, 408 when it comes too slowly, 400 when
 *   the client goes away in the middle.
 */
export function receiveBody(request: IncomingMessage, holding: Holding, clock: Clock): Promise<Buffer> {
  const announced = Number(request.headers["content-length"] ?? MAX_BODY_BYTES);
  return new Promise((resolve, reject) => {
    if (request.headers["content-length"] !== undefined && announced > MAX_BODY_BYTES) {
      reject(bodyTooLarge());
      return;
    }
    if (request.destroyed) {
      reject(incomplete());
      return;
    }
    const chunks: Buffer[] = [];
    let size = 0;
    const settle = (): void => {
      timer[Symbol.dispose]();
      request.off("data", onData).off("end", onEnd).off("close", onGone).off("error", onGone);
    };
    const refuse = (error: StatusError): void => {
      settle();
      reject(error);
    };
    const onData = (chunk: Buffer): void => {
      size += chunk.length;
      chunks.push(chunk);
      if (size > MAX_BODY_BYTES) refuse(bodyTooLarge());
      else if (!holding.tryTake(Math.max(chunk.length, PIECE_COST))) refuse(tooMany());
    };
    const onEnd = (): void => {
      settle();
      const [first] = chunks;
      resolve(chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks));
    };
    const onGone = (): void => refuse(incomplete());
    const timer = clock.after(transferMs(announced), () => refuse(tooSlow()));
    request.on("data", onData).on("end", onEnd).on("close", onGone).on("error", onGone);
  });
}

function bodyTooLarge(): StatusError {
  return tooLarge(`Request entity too large: limit is ${MAX_BODY_BYTES}`);
}

function incomplete(): StatusError {
  return badRequest("the request ended before its body was complete");
}

function tooSlow(): StatusError {
  const message = "the body of the request did not come in time";
  return new StatusError({ code: 408, reason: "Timeout", message });
}
