import { beforeEach, describe, expect, it } from "vitest";
import { CONFIG_MAPS, type ConfigMap } from "#api/core/v1/types.ts";
import { objectKey } from "#api/meta/key.ts";
import { FakeKubeClient } from "#client/client.fake.ts";
import { addFinalizer, isDeleting, removeFinalizer } from "./finalizers.ts";

const key = objectKey("work", "one");
const finalizer = "fairlead.dev/test";
let client: FakeKubeClient;
let object: ConfigMap;
beforeEach(async () => {
  client = new FakeKubeClient();
  object = await client.create(CONFIG_MAPS, {
    metadata: { name: "one", namespace: "work", finalizers: ["other/one"] },
  });
  client.writes.length = 0;
});

describe("a finalizer", () => {
  it("is added once, and other finalizers stay", async () => {
    const held = await addFinalizer(client, CONFIG_MAPS, object, { finalizer });
    expect(held.metadata.finalizers).toEqual(["other/one", finalizer]);
    expect(await addFinalizer(client, CONFIG_MAPS, held, { finalizer })).toBe(held);
    expect(client.writes).toHaveLength(1);
  });

  it("is not added to an object that is being deleted", async () => {
    await client.delete(CONFIG_MAPS, key);
    const dying = await client.get(CONFIG_MAPS, key);
    expect(isDeleting(dying)).toBe(true);
    expect(await addFinalizer(client, CONFIG_MAPS, dying, { finalizer })).toBe(dying);
  });

  it("is removed without removing others, and the object is deleted with the last one", async () => {
    const held = await addFinalizer(client, CONFIG_MAPS, object, { finalizer });
    await client.delete(CONFIG_MAPS, key);
    await removeFinalizer(client, CONFIG_MAPS, await client.get(CONFIG_MAPS, key), { finalizer });
    const last = await client.get(CONFIG_MAPS, key);
    expect(last.metadata.finalizers).toEqual(["other/one"]);
    await removeFinalizer(client, CONFIG_MAPS, last, { finalizer: "other/one" });
    expect(client.objects(CONFIG_MAPS)).toEqual([]);
    // A caller with an older object must not fail if the object is deleted.
    const older = removeFinalizer(client, CONFIG_MAPS, held, { finalizer });
    await expect(older).resolves.toBeUndefined();
  });

  it("does not undo a concurrent change of the list", async () => {
    await client.mergePatch(CONFIG_MAPS, key, { metadata: { finalizers: ["third/one"] } });
    const adding = addFinalizer(client, CONFIG_MAPS, object, { finalizer });
    await expect(adding).rejects.toMatchObject({ code: "API_CONFLICT" });
    const removing = removeFinalizer(client, CONFIG_MAPS, object, { finalizer: "other/one" });
    await expect(removing).rejects.toMatchObject({ code: "API_CONFLICT" });
  });
});
