import { parseExact } from "@fairlead/base/exact-json.ts";
import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { parse as parseYaml } from "yaml";
import { isObject } from "@fairlead/base/json.ts";
import { normalise } from "./normalise.ts";
import { Placeholders } from "./placeholders.ts";
import type { Scenario, Step } from "./scenario.ts";
import type { RawRequest, Target } from "./target.ts";
import { Tokens } from "./tokens.ts";

/** What a server answered to a step, in the form that is recorded and compared. */
export interface Answer {
  readonly request: string;
  readonly status: number;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: unknown;
  /** Of a watch. */
  readonly events?: readonly unknown[];
}

const KEPT_HEADERS = ["Content-Type", "Warning", "Retry-After", "Allow", "Location", "WWW-Authenticate"];
/** Longest silence of a watch that is to say more, and longest wait for what a server does in its own time. Unit: milliseconds. */
const PATIENCE = 5_000;
const BETWEEN_TRIES = 100;

/** Plays a scenario from beginning to end. */
export async function play(scenario: Scenario, target: Target): Promise<readonly Answer[]> {
  const player = new Player(target);
  if (scenario.namespaced) await player.createNamespace();
  return player.playAll(scenario.steps);
}

class Player {
  readonly #target: Target;
  readonly #id = `x${randomBytes(5).toString("hex")}`;
  readonly #ns = `ns-${this.#id}`;
  readonly #places = new Placeholders({ ns: this.#ns, id: this.#id });
  readonly #tokens = new Tokens([
    [this.#ns, "$ns"],
    [this.#id, "$id"],
    [this.#id.toUpperCase(), "$ID"],
  ]);

  constructor(target: Target) {
    this.#target = target;
  }

  async createNamespace(): Promise<void> {
    const body = { apiVersion: "v1", kind: "Namespace", metadata: { name: this.#ns } };
    await this.#step({ method: "POST", path: "/api/v1/namespaces", body, unrecorded: true });
    // As the controller does that neither server has: pods are refused without it.
    const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "default" } };
    const path = "/api/v1/namespaces/$ns/serviceaccounts";
    await this.#step({ method: "POST", path, body: account, unrecorded: true });
  }

  async playAll(steps: readonly Step[]): Promise<readonly Answer[]> {
    const answers: Answer[] = [];
    for (const step of steps) answers.push(...(await this.#step(step)));
    return answers;
  }

  async #step(step: Step): Promise<readonly Answer[]> {
    if (step.later === true) this.#tokens.beginSecond(await nextSecond());
    const request = this.#request(step);
    const incoming = await this.#open(step, request);
    if (incoming === undefined) return [{ request: describe(step), status: 0 }];
    if (step.watch !== undefined && incoming.statusCode === 200)
      return this.#watch(step, step.watch, incoming);
    let answer = { incoming, text: await readText(incoming) };
    const deadline = Date.now() + PATIENCE;
    while (step.until?.(parseBody(answer)) === false) {
      if (Date.now() > deadline) throw new Error(`${describe(step)}: timed out; last answer: ${answer.text}`);
      await delay(BETWEEN_TRIES);
      const again = await this.#target.open(request);
      answer = { incoming: again, text: await readText(again) };
    }
    const body = parseBody(answer);
    if (step.name !== undefined) this.#places.set(step.name, body);
    if (step.unrecorded !== true) return [this.#recorded(step, answer.incoming, body)];
    if ((answer.incoming.statusCode ?? 0) >= 300)
      throw new Error(`${describe(step)}, which prepares, failed: ${answer.text}`);
    return [];
  }

  async #open(step: Step, request: RawRequest): Promise<IncomingMessage | undefined> {
    try {
      return await this.#target.open(request);
    } catch (error) {
      if (step.mayBeCut === true) return undefined;
      throw error;
    }
  }

  #request(step: Step): RawRequest {
    const path = this.#places.text(step.path);
    const body = this.#body(step);
    // Of the scenario's own words, not of what it says back to the server.
    this.#tokens.noteSent(
      `${step.path} ${step.body instanceof Uint8Array ? "" : JSON.stringify(step.body ?? "")}`,
    );
    const headers: Record<string, string | readonly string[]> = {
      ...(body === undefined ? {} : { "Content-Type": step.type ?? "application/json" }),
      ...(step.accept === undefined ? {} : { Accept: step.accept }),
      ...(step.as === undefined ? {} : { "Impersonate-User": this.#places.text(step.as) }),
      ...(step.groups === undefined
        ? {}
        : { "Impersonate-Group": step.groups.map((it) => this.#places.text(it)) }),
    };
    for (const [name, value] of Object.entries(step.headers ?? {})) headers[name] = this.#places.text(value);
    const token = step.token === undefined ? {} : { token: this.#places.text(step.token) };
    return { method: step.method, path, headers, ...(body === undefined ? {} : { body }), ...token };
  }

  #body({ body }: Step): string | Uint8Array | undefined {
    if (body === undefined || body instanceof Uint8Array) return body;
    return typeof body === "string" ? this.#places.text(body) : JSON.stringify(this.#places.fill(body));
  }

  #recorded(step: Step, incoming: IncomingMessage, body: unknown): Answer {
    const viewed = step.view === undefined || (incoming.statusCode ?? 0) >= 300 ? body : step.view(body);
    const headers = this.#headers(step, incoming);
    return {
      request: describe(step),
      status: incoming.statusCode ?? 0,
      ...(Object.keys(headers).length === 0 ? {} : { headers }),
      ...(viewed === undefined || viewed === "" ? {} : { body: normalise(viewed, this.#tokens) }),
    };
  }

  #headers(step: Step, incoming: IncomingMessage): Record<string, string | readonly string[]> {
    const headers: Record<string, string | readonly string[]> = {};
    for (const name of [...KEPT_HEADERS, ...(step.keep ?? [])]) {
      const values = (incoming.headersDistinct[name.toLowerCase()] ?? []).map((it) => this.#tokens.text(it));
      const [first] = values;
      if (first === undefined || (name === "Content-Type" && first === "application/json")) continue;
      headers[name] = values.length === 1 ? first : values;
    }
    return headers;
  }

  async #watch(step: Step, { events, during }: NonNullable<Step["watch"]>, incoming: IncomingMessage) {
    const received: unknown[] = [];
    let others: readonly Answer[] = [];
    const silence = setTimeout(() => incoming.destroy(), PATIENCE);
    try {
      const reading = readEvents(incoming, events, (event) => {
        silence.refresh();
        received.push(event);
      });
      others = await this.playAll(during);
      await reading;
    } finally {
      clearTimeout(silence);
      incoming.destroy();
    }
    const { body: _, ...answer } = this.#recorded({ ...step, view: () => undefined }, incoming, undefined);
    // The objects of the steps that caused the events are named first, whichever arrived first.
    const seen = received.map((it) => normalise(step.view === undefined ? it : step.view(it), this.#tokens));
    return [...others, { ...answer, events: seen }];
  }
}

/** Resolves at the beginning of the next second, with its number: the times of objects are whole seconds. */
async function nextSecond(): Promise<number> {
  const second = Math.floor(Date.now() / 1000) + 1;
  while (Date.now() < second * 1000) await delay(second * 1000 - Date.now());
  return second;
}

/** How a request is called in recordings and messages: with its placeholders. */
function describe(step: Step): string {
  return `${step.watch === undefined ? step.method : "WATCH"} ${step.path}`;
}

async function readText(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}

function parseBody({ incoming, text }: { incoming: IncomingMessage; text: string }): unknown {
  const type = incoming.headers["content-type"] ?? "";
  if (text.startsWith("k8s\0")) return "<protobuf>";
  if (type.startsWith("application/yaml")) return parseYaml(text);
  if (!/^application\/(json|[\w.+-]*\+json)/.test(type)) return text;
  try {
    return shown(parseExact(text));
  } catch {
    return text;
  }
}

/** Resolves after `count` events, after an error, and where the stream ends or is closed before. */
async function readEvents(
  incoming: IncomingMessage,
  count: number,
  take: (event: unknown) => void,
): Promise<void> {
  let left = count;
  for await (const line of linesOf(incoming)) {
    const event = shown(parseExact(line));
    take(event);
    if (--left === 0 || (isObject(event) && event["type"] === "ERROR")) return;
  }
}

async function* linesOf(incoming: IncomingMessage): AsyncGenerator<string> {
  let rest = "";
  incoming.setEncoding("utf8");
  try {
    for await (const chunk of incoming) {
      const lines = (rest + String(chunk)).split("\n");
      rest = lines.pop() ?? "";
      yield* lines.filter((it) => it.trim() !== "");
    }
  } catch (error) {
    // Closed by us after too long a silence: what came is what there is.
    if (!incoming.destroyed) throw error;
  }
}

/** Integers that YAML and JSON of recordings would round are texts there. */
function shown(value: unknown): unknown {
  if (typeof value === "bigint") return `<${value}>`;
  if (Array.isArray(value)) return value.map(shown);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, it]) => [key, shown(it)]));
}
