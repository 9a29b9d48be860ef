import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { AGE, bool, crd, int32, list, object, text } from "../crd-schema.ts";

/**
 * Kind of `fleetboard.io`, so that Peers of a Fleetboard hub can be applied to this hub and read by their programs. No
 * controller of Fairlead acts on them: gateways have a kind of their own, with an identity for each member.
 */
export const PEER_CRD: CustomResourceDefinition = crd({
  group: "fleetboard.io",
  kind: "Peer",
  categories: ["fleetboard"],
  versions: [
    {
      name: "v1alpha1",
      status: false,
      columns: [
        { name: "Cluster", type: "string", jsonPath: ".spec.cluster_id" },
        { name: "Endpoint", type: "string", jsonPath: ".spec.endpoint" },
        { name: "Hub", type: "boolean", jsonPath: ".spec.ishub" },
        AGE,
      ],
      schema: object(
        {
          "spec!": object({
            "cluster_id!": text('The name of the cluster; "hub" for the hub.', {
              minLength: 1,
              maxLength: 63,
            }),
            "cluster_cidr!": list(
              text(),
              "The addresses of the cluster; of the hub, those of the whole network.",
            ),
            "endpoint!": text("A public IP address; empty if the cluster has none."),
            "port!": int32("UDP port of the tunnel."),
            "public_key!": text("WireGuard key, base64."),
            "ishub!": bool("Whether it is the hub."),
            isPublic: bool("Whether others connect to its endpoint."),
          }),
        },
        "A cluster of a Fleetboard network. Served for compatibility; Fairlead does not act on it.",
      ),
    },
  ],
});
