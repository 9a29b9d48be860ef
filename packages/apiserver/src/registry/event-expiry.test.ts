import { expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { noJournal } from "#storage/journal.ts";
import { Store } from "#storage/store.ts";
import { EventExpiry } from "./event-expiry.ts";

it("an Event is deleted an hour after its last write", async () => {
  const clock = new FakeClock();
  const store = new Store({ journal: noJournal, clock });
  const table = store.table("events");
  using expiry = new EventExpiry(store, clock, () => void store.write((tx) => expiry.collect(tx, 100)));
  store.onChange((change) => expiry.observe(change));
  const write = (name: string): Promise<unknown> =>
    store.write((tx) => tx.put(table, `n/${name}`, { apiVersion: "v1", kind: "Event", metadata: { name } }));
  const minutes = (count: number): Promise<void> => clock.advance(count * 60_000);
  await write("once");
  await write("again");
  await minutes(30);
  await write("again");
  await minutes(29);
  expect(table.size).toBe(2);
  await minutes(2);
  expect(Array.from(table.entries(), (it) => it.key)).toEqual(["n/again"]);
  await minutes(30);
  expect(table.size).toBe(0);
  expect(clock.pending).toBe(0);
});
