import { defined } from "@fairlead/base/defined.ts";
import { randomInt } from "node:crypto";
import { connect } from "node:net";
import type { Clock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { type Message, OPCODE, type Question, RCODE, type ResourceRecord } from "@fairlead/dns/wire/types.ts";
import { signMessage, type TsigKey, verifyAnswer } from "@fairlead/dns/wire/tsig.ts";

/** How long the server may take. Unit: milliseconds. */
const TIMEOUT_MS = 5000;

export interface PrimaryOptions {
  /** An address, or a domain that this machine resolves. */
  readonly host: string;
  readonly port: number;
  readonly key: TsigKey;
}

/** Sends signed queries and updates to the primary server of a zone. Over TCP: answers are whole, and not spoofed. */
export class Primary {
  readonly #options: PrimaryOptions;
  readonly #clock: Clock;

  constructor(options: PrimaryOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  /** For messages. */
  get name(): string {
    const { host, port, key } = this.#options;
    return `${host} port ${port} (key ${key.name})`;
  }

  ask(question: Question, signal: AbortSignal): Promise<Message> {
    return this.#send({ opcode: OPCODE.QUERY, questions: [question], answers: [], authorities: [] }, signal);
  }

  /** An update of `zone`: all prerequisites hold and all changes are made, or nothing happens (RFC 2136). */
  update(zone: Question, { prerequisites, changes }: ZoneUpdate, signal: AbortSignal): Promise<Message> {
    return this.#send(
      { opcode: OPCODE.UPDATE, questions: [zone], answers: prerequisites, authorities: changes },
      signal,
    );
  }

  async #send(
    sections: Pick<Message, "opcode" | "questions" | "answers" | "authorities">,
    signal: AbortSignal,
  ): Promise<Message> {
    const { key } = this.#options;
    const request = { ...HEADER, ...sections, id: randomInt(0x1_0000) };
    const { bytes, mac } = signMessage(request, key, this.#clock.now());
    const answer = await this.#exchange(bytes, signal);
    const message = verifyAnswer(answer, key, mac, this.#clock.now());
    if (message.response && message.id === request.id && message.opcode === request.opcode) return message;
    throw this.#failure("it answered another question");
  }

  async #exchange(wire: Buffer, signal: AbortSignal): Promise<Buffer> {
    const { host, port } = this.#options;
    const socket = connect({ host, port, noDelay: true, signal });
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
    using _timer = this.#clock.after(TIMEOUT_MS, () => reject(this.#failure("it does not answer")));
    let received = Buffer.alloc(0);
    socket.on("error", (cause) => reject(this.#failure("it cannot be reached", cause)));
    socket.on("close", () => reject(this.#failure("it closed the connection")));
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return;
      resolve(received.subarray(2, 2 + received.readUInt16BE(0)));
    });
    const length = Buffer.alloc(2);
    length.writeUInt16BE(wire.length);
    socket.write(Buffer.concat([length, wire]));
    try {
      return await promise;
    } finally {
      socket.destroy();
    }
  }

  #failure(what: string, cause?: Error): FleetError {
    const options = { retriable: true, ...defined({ cause }) };
    return new FleetError("API_UNAVAILABLE", `DNS server ${this.name}: ${what}`, options);
  }
}

export interface ZoneUpdate {
  readonly prerequisites: readonly ResourceRecord[];
  readonly changes: readonly ResourceRecord[];
}

const HEADER = {
  response: false,
  authoritative: false,
  truncated: false,
  recursionDesired: false,
  recursionAvailable: false,
  authenticData: false,
  checkingDisabled: false,
  rcode: RCODE.NOERROR,
  additionals: [],
} as const;
