import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import {
  AGE,
  atomicList,
  conditionColumn,
  CONDITIONS,
  crd,
  int32,
  int64,
  list,
  mapList,
  NAME_FITS_LABEL,
  object,
  oneOf,
  text,
  time,
} from "../crd-schema.ts";
import { IDENTITY_DEMAND_CRD, IDENTITY_SLICE_CRD } from "./identity-crds.ts";
import { ATTACH, CLUSTER, MODE, PREFIX, PROFILE, TERMS } from "./profile-schema.ts";
import {
  MAX_BASE_PORT,
  MAX_KEY_EPOCH,
  MAX_MEMBER_PREFIXES,
  MAX_MESH_MEMBERS,
  MAX_RELAY_BASE_PORT,
  MIN_BASE_PORT,
  PATH_KINDS,
} from "./v1alpha1/mesh.ts";

/** Kinds of the network between clusters (`v1alpha1/mesh.ts`). */

const group = "fairlead.dev";
const categories = ["fleet-networking"];

const ADDRESS = { minLength: 2, maxLength: 45 };
/** X25519 key: 32 bytes in base64. */
const KEY = { minLength: 44, maxLength: 44, pattern: "^[A-Za-z0-9+/]{43}=$" };
const EPOCH = { minimum: 1, maximum: MAX_KEY_EPOCH };
const KEYS = {
  ...mapList(
    "epoch",
    object({
      "epoch!": int32(undefined, EPOCH),
      "publicKey!": text("WireGuard public key. Base64.", KEY),
    }),
    "Its WireGuard public keys, by epoch.",
  ),
  maxItems: 2,
};
const PORT = { minimum: 1, maximum: 65_535 };
const INDEX = { minimum: 0, maximum: 1023 };
const BASE_PORT = { minimum: MIN_BASE_PORT, maximum: MAX_BASE_PORT };
const RELAY_BASE_PORT = { minimum: 1, maximum: MAX_RELAY_BASE_PORT };

const RELAY = {
  "addresses!": { ...atomicList(text(undefined, ADDRESS), "Public addresses."), minItems: 1, maxItems: 8 },
  "basePort!": int32("UDP port for the gateway with index 0; index N has basePort + N.", RELAY_BASE_PORT),
  "publicKey!": text("X25519 public key. Base64.", KEY),
  tlsPort: int32("TCP port for gateways whose UDP is dropped. Default: none.", PORT),
};

const COUNT = { minimum: 0 };
const PATH = object({
  "cluster!": text("The other member.", CLUSTER),
  "ordinal!": int32("Of the other gateway.", { minimum: 0, maximum: 3 }),
  "path!": oneOf(
    PATH_KINDS,
    '"direct": to the other gateway. "relay": through a relay. "tcp": through a relay over TLS. "none": nothing is answered.',
  ),
  "keyEpoch!": int32("The epoch of the keys in use.", EPOCH),
  mtu: int32("MTU of the tunnel. Unit: bytes.", COUNT),
  rttMs: int32("Round trip through the tunnel, smoothed. Unit: milliseconds.", COUNT),
  lossPercent: int32("Of the last 40 probes or so, those without an answer. Unit: percent.", {
    minimum: 0,
    maximum: 100,
  }),
  lastHandshake: time("When keys were agreed last. Absent: never."),
  sentBytes: int64("Encrypted bytes since the device was made.", COUNT),
  receivedBytes: int64("Encrypted bytes since the device was made.", COUNT),
});

export const MESH_HUB_CRDS: readonly CustomResourceDefinition[] = [
  IDENTITY_DEMAND_CRD,
  crd({
    group,
    categories,
    kind: "ClusterMeshProfile",
    scope: "Cluster",
    shortNames: ["meshprofile"],
    versions: [
      {
        name: "v1alpha1",
        columns: [
          { name: "Mode", type: "string", jsonPath: ".spec.network.mode" },
          { name: "Members", type: "integer", jsonPath: ".status.members" },
          { name: "State", type: "string", jsonPath: ".status.state" },
          conditionColumn("Ready", "Ready"),
          AGE,
        ],
        schema: PROFILE,
      },
    ],
  }),
  crd({
    group,
    categories,
    kind: "Relay",
    versions: [
      {
        name: "v1alpha1",
        status: false,
        columns: [{ name: "Addresses", type: "string", jsonPath: ".spec.addresses" }, AGE],
        schema: object(
          { "spec!": object(RELAY) },
          "A relay of datagrams between gateways. Written by the relay.",
          NAME_FITS_LABEL,
        ),
      },
    ],
  }),
  crd({
    group,
    categories,
    kind: "VirtualIP",
    shortNames: ["vip"],
    versions: [
      {
        name: "v1alpha1",
        status: false,
        columns: [
          { name: "Namespace", type: "string", jsonPath: ".spec.service.namespace" },
          { name: "Service", type: "string", jsonPath: ".spec.service.name" },
          { name: "IPv4", type: "string", jsonPath: ".spec.ipv4" },
          { name: "IPv6", type: "string", jsonPath: ".spec.ipv6" },
          AGE,
        ],
        schema: object(
          {
            "spec!": object({
              "service!": object({ "namespace!": text(), "name!": text() }),
              "ipv4!": text("The virtual IPv4 address.", ADDRESS),
              "ipv6!": text("The virtual IPv6 address.", ADDRESS),
            }),
          },
          "The virtual addresses of an exported service, the same in every cluster of a parallel network. Written by the hub.",
        ),
      },
    ],
  }),
];

/** On the hub, and copied into members. */
export const MESH_CRDS: readonly CustomResourceDefinition[] = [
  IDENTITY_SLICE_CRD,
  crd({
    group,
    categories,
    kind: "MeshNetwork",
    versions: [
      {
        name: "v1alpha1",
        status: false,
        columns: [
          { name: "Mode", type: "string", jsonPath: ".spec.mode" },
          { name: "IPv4", type: "string", jsonPath: ".spec.ipv4" },
          { name: "IPv6", type: "string", jsonPath: ".spec.ipv6" },
          AGE,
        ],
        schema: object(
          {
            "spec!": object(
              {
                "mode!": MODE,
                ...TERMS,
                ipv4: text("The prefix of all IPv4 fleet addresses.", PREFIX),
                ipv6: text("The prefix of all IPv6 fleet addresses.", PREFIX),
                vipIPv4: text("The block of virtual IPv4 addresses of Services.", PREFIX),
                vipIPv6: text("The block of virtual IPv6 addresses of Services.", PREFIX),
                keyEpoch: int32("The epoch of the gateways' keys.", EPOCH),
                attach: ATTACH,
                podNetworks: {
                  ...mapList(
                    "cluster",
                    object({
                      "cluster!": text(undefined, { minLength: 1, maxLength: 63 }),
                      "podCIDRs!": { ...atomicList(text(undefined, PREFIX)), maxItems: MAX_MEMBER_PREFIXES },
                    }),
                    "Networks of pods that other clusters see by their own addresses. Rules that depend on what is at such an address are closed to it until that is known.",
                  ),
                  maxItems: MAX_MESH_MEMBERS,
                },
                relays: mapList("name", object({ "name!": text(), ...RELAY }), "Where gateways meet."),
              },
              undefined,
              {
                "x-kubernetes-validations": [
                  {
                    rule: "self.mode == 'flat' || (has(self.ipv4) && has(self.ipv6) && has(self.vipIPv4) && has(self.vipIPv6) && has(self.keyEpoch))",
                    message: "ipv4, ipv6, vipIPv4, vipIPv6 and keyEpoch are required in the mode parallel",
                  },
                ],
              },
            ),
          },
          "What the members of a ClusterMeshProfile have in common. Written by the hub.",
          NAME_FITS_LABEL,
        ),
      },
    ],
  }),
  crd({
    group,
    categories,
    kind: "AddressBlock",
    versions: [
      {
        name: "v1alpha1",
        columns: [
          { name: "Cluster", type: "string", jsonPath: ".spec.cluster" },
          { name: "Node", type: "string", jsonPath: ".spec.node" },
          { name: "IPv4", type: "string", jsonPath: ".spec.ipv4" },
          { name: "IPv6", type: "string", jsonPath: ".spec.ipv6" },
          AGE,
        ],
        schema: object(
          {
            "spec!": object({
              "profile!": text("The ClusterMeshProfile.", CLUSTER),
              "cluster!": text("The member.", CLUSTER),
              node: text("The node; absent for the block of the whole member.", { maxLength: 253 }),
              nodeAddress: text("The address by which other nodes of the cluster reach the node.", ADDRESS),
              "ipv4!": { ...atomicList(text(undefined, PREFIX), "IPv4 prefixes."), maxItems: 64 },
              "ipv6!": { ...atomicList(text(undefined, PREFIX), "IPv6 prefixes."), maxItems: 64 },
              transition: object(
                {
                  "phase!": oneOf(
                    ["prepare", "switch", "leave"],
                    '"prepare": endpoints still have the addresses of pods. "switch": they get fleet addresses. "leave": they get the addresses of pods again.',
                  ),
                  "since!": time(),
                  returns: int32(
                    'How often the change has gone back to "prepare", because members lost their paths.',
                    { minimum: 0 },
                  ),
                },
                "Of a member, while its network changes its mode: importers accept both addresses.",
              ),
            }),
            status: object({
              allocations: list(
                object({
                  "podUID!": text("The UID of the pod.", { maxLength: 128 }),
                  "ipv4!": text(undefined, ADDRESS),
                  "ipv6!": text(undefined, ADDRESS),
                  releasedAt: time("When the pod was gone."),
                }),
                "Addresses of the node's pods.",
                { "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["podUID"], maxItems: 4096 },
              ),
              keys: KEYS,
              conditions: CONDITIONS,
            }),
          },
          "Fleet addresses that a member, or one of its nodes, owns.",
        ),
      },
    ],
  }),
  crd({
    group,
    categories,
    kind: "Gateway",
    versions: [
      {
        name: "v1alpha1",
        columns: [
          { name: "Cluster", type: "string", jsonPath: ".spec.cluster" },
          { name: "Ordinal", type: "integer", jsonPath: ".spec.ordinal" },
          { name: "Node", type: "string", jsonPath: ".spec.node" },
          { name: "Index", type: "integer", jsonPath: ".spec.index" },
          conditionColumn("Accepted", "Accepted"),
          AGE,
        ],
        schema: object(
          {
            "spec!": object({
              "cluster!": text("The member.", CLUSTER),
              "ordinal!": int32("Unique among the gateways of the member.", { minimum: 0, maximum: 3 }),
              "node!": text("The node that it runs on.", { minLength: 1, maxLength: 253 }),
              keys: KEYS,
              basePort: int32(
                "UDP port of WireGuard for plane 0 and even epochs, the first of eight.",
                BASE_PORT,
              ),
              candidates: {
                ...atomicList(
                  object({
                    "type!": oneOf(["private", "public", "reflexive"]),
                    "address!": text(undefined, ADDRESS),
                    basePort: int32("Default: basePort of the gateway.", BASE_PORT),
                  }),
                  "Where it may be reached.",
                ),
                maxItems: 16,
              },
              fleetAddress: text("Its own IPv4 fleet address: it answers echo requests there.", ADDRESS),
              index: int32("A number that no other gateway of the hub has, given by the hub.", INDEX),
            }),
            status: object({
              conditions: CONDITIONS,
              paths: { ...atomicList(PATH, "Its tunnels to gateways of other members."), maxItems: 1023 },
              pathsReportedAt: time("When the node reported its tunnels last: at least every ten minutes."),
            }),
          },
          "A gateway of a member: it ends the tunnels to gateways of other members.",
          NAME_FITS_LABEL,
        ),
      },
    ],
  }),
];
