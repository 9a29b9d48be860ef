import { expect } from "vitest";
import type { Answer, Json, TestClient } from "./support.ts";

/** Made by the server itself, and by the check. */
const ROOT_CA = "kube-root-ca.crt";
const SENTINEL = "sentinel";
const CONFIG_MAPS = "/api/v1/namespaces/default/configmaps";

export interface Operation {
  readonly name: number;
  readonly verb: "put" | "patch" | "delete";
  /** How much the object carries. */
  readonly bytes: number;
}

/** An object's state: its revision and what it carries. `undefined`: it is not there. */
type State = { readonly revision: number; readonly data: string } | undefined;

/** What a writer has asked for and had no answer to: `data`, or that the object goes away. */
interface Pending {
  readonly name: string;
  readonly data: string | undefined;
}

interface Event {
  readonly type: string;
  readonly name: string;
  readonly revision: number;
  readonly data: string;
}

/** Everything that clients of a server received, to check the server that runs after it. */
export class History {
  /** Writes that were acknowledged. */
  acknowledged = 0;
  readonly #states = new Map<string, State>();
  readonly #pending = new Map<number, Pending>();
  /** What the watcher and the reader were shown: an object's data under a revision. */
  readonly #shown = new Map<number, string>();
  #events: Event[] = [];
  /** Where this server's life began. */
  #start = 1;
  /** Newest revision that any client has received. */
  #newest = 1;
  #counter = 0;

  /** Works through `todo`, again and again, until the connection breaks. */
  async write(
    client: TestClient,
    { writer, todo, onAnswer }: { writer: number; todo: readonly Operation[]; onAnswer: () => void },
  ): Promise<void> {
    for (let at = 0; ; at = (at + 1) % todo.length) {
      const operation = todo[at];
      if (operation === undefined) return;
      const name = `w${writer}-${operation.name}`;
      const data = operation.verb === "delete" ? undefined : this.#data(operation.bytes);
      const isThere = this.#states.get(name) !== undefined;
      if (data === undefined && !isThere) continue;
      this.#pending.set(writer, { name, data });
      const answer = await send(client, { name, data, verb: isThere ? operation.verb : "create" });
      if (answer === undefined) return;
      if (answer.code >= 300) throw new Error(answer.text);
      this.#pending.delete(writer);
      this.#states.set(name, data === undefined ? undefined : stateOf(answer.json));
      this.#see(answer.json);
      this.acknowledged += 1;
      onAnswer();
    }
  }

  #data(bytes: number): string {
    this.#counter += 1;
    return `${this.#counter} ${"x".repeat(bytes)}`;
  }

  /** Watches until the connection breaks. */
  watch(client: TestClient, onEvent: () => void): Promise<void> {
    return watchFrom(client, this.#newest, (event) => {
      this.#events.push(event);
      if (event.type !== "DELETED") this.#show(event);
      this.#newest = Math.max(this.#newest, event.revision);
      onEvent();
    });
  }

  /** Lists until the connection breaks. */
  async read(client: TestClient, onList: () => void): Promise<void> {
    for (;;) {
      const answer = await client.call("GET", CONFIG_MAPS).catch(() => undefined);
      if (answer?.code !== 200) return;
      for (const item of answer.json.items) this.#see(item);
      this.#newest = Math.max(this.#newest, Number(answer.json.metadata.resourceVersion));
      onList();
    }
  }

  /** Records an object that a client received. The answer to a delete does not contain one. */
  #see(object: Json): void {
    if (object.kind === "Status") return;
    const state = stateOf(object);
    this.#newest = Math.max(this.#newest, state.revision);
    this.#show(state);
  }

  #show({ revision, data }: { readonly revision: number; readonly data: string }): void {
    if (revision > this.#start) this.#shown.set(revision, data);
  }

  /** Holds a server that has just started against all that its predecessor told. */
  async check(client: TestClient): Promise<void> {
    const { json } = await client.call("GET", CONFIG_MAPS);
    const found = new Map(json.items.map((it) => [it.metadata.name, stateOf(it)]));
    const pending = new Map([...this.#pending.values()].map((it) => [it.name, it]));
    const names = new Set([...found.keys(), ...this.#states.keys(), ...pending.keys()]);
    for (const name of names) {
      if (name === ROOT_CA || name.startsWith(SENTINEL)) continue;
      const expected = this.#states.get(name);
      const asked = pending.get(name);
      const isDone = asked !== undefined && asked.data === found.get(name)?.data;
      if (!isDone) expect({ name, state: found.get(name) }).toEqual({ name, state: expected });
      this.#states.set(name, found.get(name));
    }
    expect(Number(json.metadata.resourceVersion)).toBeGreaterThanOrEqual(this.#newest);
    await this.#checkEvents(client);
    this.#pending.clear();
  }

  /** The past that the new server tells holds all that was shown, in the order in which it was shown. */
  async #checkEvents(client: TestClient): Promise<void> {
    const sentinel = `${SENTINEL}-${this.#start}`;
    const made = await client.call("POST", CONFIG_MAPS, { body: configMap(sentinel, "") });
    expect(made.code).toBe(201);
    const past: Event[] = [];
    await watchFrom(client, this.#start, (event) => {
      if (event.name === sentinel) return "enough";
      past.push(event);
      return undefined;
    });
    expect(past.slice(0, this.#events.length)).toEqual(this.#events);
    const kept = new Map(past.map((it) => [it.revision, it.data]));
    for (const [revision, data] of this.#shown) {
      expect({ revision, data: kept.get(revision) }).toEqual({ revision, data });
    }
    this.#events = [];
    this.#shown.clear();
    this.#start = Number(made.json.metadata.resourceVersion);
    this.#newest = this.#start;
  }
}

/** Watches from a revision on, until the connection breaks or `onEvent` has had enough. */
function watchFrom(
  client: TestClient,
  revision: number,
  onEvent: (event: Event) => "enough" | undefined | void,
): Promise<void> {
  return new Promise((resolve) => {
    let rest = "";
    const path = `${CONFIG_MAPS}?watch=1&resourceVersion=${revision}`;
    const outgoing = client.open(path, (answer) => {
      answer.setEncoding("utf8");
      answer.on("data", (chunk: string) => {
        const lines = (rest + chunk).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) {
          const { type, object } = JSON.parse(line) as { type: string; object: Json };
          expect(type).toMatch(/^(ADDED|MODIFIED|DELETED)$/);
          if (onEvent({ type, name: object.metadata.name, ...stateOf(object) }) !== "enough") continue;
          outgoing.destroy();
          return;
        }
      });
      answer.once("close", resolve);
      // Killed in the middle of a line.
      answer.on("error", () => {});
    });
    outgoing.once("error", () => resolve());
  });
}

function stateOf(object: Json): { readonly revision: number; readonly data: string } {
  const data = object["data"] as { text?: string } | undefined;
  return { revision: Number(object.metadata.resourceVersion), data: data?.text ?? "" };
}

function configMap(name: string, text: string): object {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { text } };
}

type Verb = "create" | Operation["verb"];

/** Sends one write. Value: its answer, or undefined when the connection broke before there was one. */
function send(
  client: TestClient,
  { verb, name, data }: { verb: Verb; name: string; data: string | undefined },
): Promise<Answer | undefined> {
  const path = `${CONFIG_MAPS}/${name}`;
  const answer = {
    create: () => client.call("POST", CONFIG_MAPS, { body: configMap(name, data ?? "") }),
    put: () => client.call("PUT", path, { body: configMap(name, data ?? "") }),
    patch: () =>
      client.call("PATCH", path, {
        body: { data: { text: data } },
        headers: { "Content-Type": "application/merge-patch+json" },
      }),
    delete: () => client.call("DELETE", path),
  }[verb]();
  return answer.catch(() => undefined);
}
