import { KINDS, manifest, pathOf } from "../manifests.ts";
import { area, del, get, patch, post, put, scenario } from "../scenario.ts";

/** The life of one object of each kind. Cluster-scoped ones are named after the scenario. */
export const scenarios = area(
  "crud",
  KINDS.filter((it) => it.kind !== "Namespace").map((kind) => {
    const name = kind.namespaced ? "a" : "$id";
    const path = pathOf(kind);
    const item = `${path}/${name}`;
    return scenario(
      `a ${kind.kind} is created, read, labelled, replaced, listed and deleted`,
      [
        post(path, manifest(kind, { name, labels: { scenario: "$id" } }), { name: "made" }),
        get(item),
        patch("merge", item, { metadata: { labels: { l: "1" } } }, { name: "labelled" }),
        put(item, "$labelled"),
        get(`${path}?labelSelector=scenario%3D$id,l%3D1`),
        del(item),
      ],
      { namespaced: kind.namespaced },
    );
  }),
);
