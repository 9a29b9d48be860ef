import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { foldName } from "@fairlead/dns/wire/name.ts";
import { CLASS, type Message, type Question, RCODE, TYPE } from "@fairlead/dns/wire/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { Outcome, TrafficName, TrafficProvider } from "../../provider.ts";
import type { Primary, ZoneUpdate } from "./exchange.ts";
import {
  type ActualName,
  type NameIdentity,
  identityOf,
  planUpdate,
  planWithdrawal,
  recordsOf,
  strangerOf,
} from "./plan.ts";

/** How often a name is compared with its desired state: changes in a zone cannot be watched. Unit: milliseconds. */
const COMPARE_MS = 60_000;
/** Names are not compared in step. Unit: share of the time. */
const JITTER = 0.2;

export interface Rfc2136Options {
  /** The server that takes updates of the zone. */
  readonly primary: Primary;
  /** The domain of all names: a zone, or a domain in one. Without a final dot. */
  readonly zone: string;
  /** The owner of the names, so that two hubs can share a zone. Default: the UID of the hub's kube-system namespace. */
  readonly owner?: string;
}

/** Keeps names in a zone of an external DNS server by dynamic updates (RFC 2136) signed with TSIG (RFC 8945). */
export function createRfc2136Provider(
  client: KubeClient,
  options: Rfc2136Options,
  deps: RuntimeDeps,
): TrafficProvider {
  return new Rfc2136Provider(client, options, deps);
}

class Rfc2136Provider implements TrafficProvider {
  readonly zone: string;
  readonly #client: KubeClient;
  readonly #deps: RuntimeDeps;
  readonly #primary: Primary;
  #owner: string | undefined;
  /** The zone that the names are in, which the server is asked for once. */
  #apex: string | undefined;

  constructor(client: KubeClient, options: Rfc2136Options, deps: RuntimeDeps) {
    this.zone = options.zone;
    this.#client = client;
    this.#deps = deps;
    this.#owner = options.owner;
    this.#primary = options.primary;
  }

  async start(signal: AbortSignal): Promise<void> {
    if (this.#owner !== undefined) return;
    const fieldSelector = "metadata.name=kube-system";
    const { items } = await this.#client.list(NAMESPACES, { fieldSelector, signal });
    const uid = items[0]?.metadata.uid;
    if (uid === undefined)
      throw new FleetError(
        "OPTION_INVALID",
        "this cluster has no kube-system namespace; pass --traffic-owner",
      );
    this.#owner = uid;
  }

  async program(name: TrafficName, signal: AbortSignal): Promise<Outcome> {
    try {
      const outcome = await this.#program(name, signal);
      return outcome.kind === "programmed" ? outcome : { ...outcome, againInMs: this.#compareInMs() };
    } catch (error) {
      if (!hasCode(error, "DNS_REFUSED")) throw error;
      // Its operator may fix the cause at any time, which cannot be watched.
      return { kind: "refused", message: error.message, againInMs: this.#compareInMs() };
    }
  }

  async #program(name: TrafficName, signal: AbortSignal): Promise<Outcome> {
    const identity = this.#identityOf(name.label);
    const actual = await this.#read(identity, signal);
    const stranger = strangerOf(actual, identity);
    if (stranger !== undefined)
      return { kind: "taken", message: `${identity.fqdn} belongs to the fleet ${stranger}` };
    const { records, changeInMs } = recordsOf(identity.fqdn, name, this.#deps.clock.now());
    const update = planUpdate(actual, { records, profile: name.profile }, identity);
    const againInMs = Math.min(changeInMs ?? Number.POSITIVE_INFINITY, this.#compareInMs());
    if (update === undefined) return { kind: "programmed", changed: false, againInMs };
    const rcode = await this.#write(update, signal);
    if (rcode === RCODE.NOERROR) return { kind: "programmed", changed: true, againInMs };
    const message = `${identity.fqdn} has records that are not this fleet's`;
    return { kind: "taken", message };
  }

  async withdraw(label: string, signal: AbortSignal): Promise<void> {
    const identity = this.#identityOf(label);
    const update = planWithdrawal(await this.#read(identity, signal), identity);
    if (update !== undefined) await this.#write(update, signal);
  }

  subscribe(): Disposable {
    return { [Symbol.dispose]() {} };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return Promise.resolve();
  }

  #compareInMs(): number {
    return COMPARE_MS * (1 - JITTER / 2 + JITTER * this.#deps.rng.random());
  }

  #identityOf(label: string): NameIdentity {
    return identityOf(label, this.zone, this.#owner ?? "");
  }

  async #read({ fqdn, ownerName }: NameIdentity, signal: AbortSignal): Promise<ActualName> {
    const [owners, four, six] = [
      await this.#ask(ownerName, TYPE.TXT, signal),
      await this.#ask(fqdn, TYPE.A, signal),
      await this.#ask(fqdn, TYPE.AAAA, signal),
    ];
    const own = [...four.answers, ...six.answers].filter((it) => foldName(it.name) === fqdn);
    // Both questions show an alias.
    const alias = own.find((it) => it.data.type === "CNAME");
    return {
      owners: owners.answers.flatMap(({ data }) => (data.type === "TXT" ? [data.strings.join("")] : [])),
      records: alias === undefined ? own : [alias],
    };
  }

  async #ask(name: string, type: number, signal: AbortSignal): Promise<Message> {
    const answer = await this.#primary.ask({ name, type, class: CLASS.IN }, signal);
    if (answer.rcode === RCODE.NOERROR || answer.rcode === RCODE.NXDOMAIN) return answer;
    throw this.#problem(answer.rcode, `asked for ${name}`);
  }

  /** @returns NOERROR, or the code of a failed prerequisite, which means that the name has another owner. */
  async #write(update: ZoneUpdate, signal: AbortSignal): Promise<number> {
    const zone = await this.#zoneQuestion(signal);
    const { rcode } = await this.#primary.update(zone, update, signal);
    if (rcode === RCODE.NOERROR || rcode === RCODE.YXDOMAIN) return rcode;
    // The domain may have become a separate zone: the next attempt asks.
    this.#apex = undefined;
    throw this.#problem(rcode, `updating ${zone.name}`);
  }

  /** Finds the zone of a name by the SOA record of the server's answer, positive or negative. */
  async #zoneQuestion(signal: AbortSignal): Promise<Question> {
    if (this.#apex === undefined) {
      const name = foldName(`${this.zone}.`);
      const { answers, authorities } = await this.#ask(name, TYPE.SOA, signal);
      this.#apex = [...answers, ...authorities].find((it) => it.data.type === "SOA")?.name;
    }
    if (this.#apex === undefined) throw this.#problem(RCODE.NOTZONE, `asked for the zone of ${this.zone}`);
    return { name: this.#apex, type: TYPE.SOA, class: CLASS.IN };
  }

  /** Returns the error for a response code: one that the server's operator has to fix, or one that may be transient. */
  #problem(rcode: number, what: string): FleetError {
    const name = Object.entries(RCODE).find(([, code]) => code === rcode)?.[0] ?? String(rcode);
    const message = `DNS server ${this.#primary.name}, ${what}: it says ${name}`;
    const passes = rcode === RCODE.SERVFAIL || rcode === RCODE.NXRRSET;
    return passes
      ? new FleetError("API_UNAVAILABLE", message, { retriable: true })
      : new FleetError("DNS_REFUSED", message);
  }
}
