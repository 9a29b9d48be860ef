import type { NftCounter } from "@fairlead/os/nft/driver.ts";
import type { Registration, RegistrationChange } from "./registration-table.ts";

/** What moves datagrams between registered gateways. Implementations: kernel-forwarder.ts, userspace-forwarder.ts. */
export interface Forwarder extends AsyncDisposable {
  /** Registrations that an earlier relay left, by which datagrams are forwarded still. Called once, first. */
  adopt(signal: AbortSignal): Promise<readonly Registration[]>;
  /** Forwards by changed registrations. After an error the next call makes good for this one. */
  change(changes: readonly RegistrationChange[], signal: AbortSignal): Promise<void>;
  /** A datagram of a gateway that came to the port of gateway `to`, if the relay's sockets got it. */
  receive(payload: Uint8Array, at: Arrival): void;
  /** What was forwarded, by number of the leg. A count starts from 0 again after an hour without traffic. */
  traffic(signal: AbortSignal): Promise<ReadonlyMap<number, NftCounter>>;
}

/** Where a datagram came from and to. */
export interface Arrival {
  readonly source: { readonly address: string; readonly port: number };
  /** Index of the gateway whose port it came to. */
  readonly to: number;
  /** Address that the socket listens on. */
  readonly via: string;
}
