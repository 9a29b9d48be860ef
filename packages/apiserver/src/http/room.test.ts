import { describe, expect, it } from "vitest";
import { Room } from "./room.ts";

describe("a room", () => {
  it("gives one user at most a quarter, and other users the rest", () => {
    const room = new Room({ total: 8 });
    const ada = room.hold("ada");
    expect([ada.tryTake(2), ada.tryTake(1)]).toEqual([true, false]);
    expect(["bob", "eve", "kim", "leo"].map((it) => room.hold(it).tryTake(2))).toEqual([
      true,
      true,
      true,
      false,
    ]);
    ada[Symbol.dispose]();
    ada[Symbol.dispose]();
    expect(room.taken).toBe(6);
    expect(room.hold("leo").tryTake(2)).toBe(true);
  });

  it("accepts one item that is larger than a share if it is elastic, and nothing in addition", () => {
    const room = new Room({ total: 8, isElastic: true });
    expect(room.hold("ada").tryTake(20)).toBe(true);
    expect(room.hold("ada").tryTake(1)).toBe(false);
    expect(room.hold("bob").tryTake(1)).toBe(true);
  });

  it("is never full for exempt users", () => {
    expect(new Room({ total: 0 }).hold("root", true).tryTake(1)).toBe(true);
  });

  it("retries waiters in order, up to the first that still does not fit", () => {
    const room = new Room({ total: 8 });
    const first = room.hold("ada");
    first.tryTake(2);
    const asked: string[] = [];
    const wait = (name: string): Disposable =>
      room.onceGivenBack("ada", () => {
        asked.push(name);
        return room.hold("ada").tryTake(1);
      });
    const [, gone] = [wait("a"), wait("gone"), wait("b"), wait("c"), wait("d")];
    gone[Symbol.dispose]();
    first[Symbol.dispose]();
    expect(asked).toEqual(["a", "b", "c"]);
  });
});
