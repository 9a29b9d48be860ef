import type { JsonSchema } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import {
  atomicList,
  bool,
  CONDITIONS,
  int32,
  list,
  mapList,
  NAME_FITS_LABEL,
  object,
  oneOf,
  text,
  time,
} from "../crd-schema.ts";
import { VERSION_PATTERN } from "./node-agents.ts";
import { memberSelector } from "./selector-schema.ts";
import {
  APPLY_MODES,
  ATTACH_MODES,
  CIDR_MATCHES,
  DATAPLANES,
  MAX_KEY_EPOCH,
  MAX_MESH_MEMBERS,
  MESH_MEMBER_STATES,
  MESH_STATES,
} from "./v1alpha1/mesh.ts";

/** The schema of ClusterMeshProfiles, and what other kinds share with it. */

export const PREFIX = { minLength: 4, maxLength: 49 };
/** Of a release, which is a tag of images, too. */
const VERSION = { minLength: 5, maxLength: 63, pattern: VERSION_PATTERN };
export const CLUSTER = { minLength: 1, maxLength: 63 };

const SELECTOR = memberSelector(
  'Pairs "key=value" with commas between them, all of which have to match. "" selects no members. Not with the other fields.',
  "The members, by the labels of their MemberClusters. Empty selects all. A member that several profiles select belongs to the oldest.",
);

export const MODE = oneOf(
  ["flat", "parallel"],
  '"flat": pod addresses are routable between the clusters. "parallel": pods have fleet addresses, and gateways connect the clusters.',
);

export const ATTACH = oneOf(
  ATTACH_MODES,
  'Pods with fleet addresses. "selected" (the default): those with the label fairlead.dev/attach, behind an export, or in a namespace that imports. "all": every workload pod.',
);

/** Of a profile, and of the network that its members get. */
export const TERMS = {
  version: text(
    "The version of fairlead node that members install, upgrade and, when they leave, remove. Absent: they neither install nor change it.",
    VERSION,
  ),
  dataplane: oneOf(
    DATAPLANES,
    'What carries packets and enforces policies. Default: "fairlead". "cilium" is not supported yet: such a profile has no members.',
  ),
  defaultGlobalNamespace: bool(
    "Whether namespaces without the annotation clustermesh.cilium.io/global are shared. Default: true.",
  ),
  policyDefaultLocalCluster: bool(
    "Whether peers of a network policy that name no cluster are those of the policy's own cluster. Default: true.",
  ),
  policyCIDRMatchMode: atomicList(
    oneOf(CIDR_MATCHES),
    "Whether CIDRs in Cilium's kinds of network policies match the known nodes and pods of the network, too. Default: neither, as with Cilium.",
    { maxItems: CIDR_MATCHES.length },
  ),
};

/** Of a profile, and of what was applied of it. */
const SETTINGS = {
  ...TERMS,
  keyRotationHours: int32(
    "How often gateways make new keys. Absent: when the annotation fairlead.dev/rotate-keys changes. Unit: hours.",
    { minimum: 1, maximum: 8760 },
  ),
  "network!": object({
    "mode!": MODE,
    addresses: object(
      {
        ipv4: text("IPv4 prefix of 8 to 20 bits. Default: 10.112.0.0/12.", PREFIX),
        ipv6: text(
          "Unique local IPv6 prefix of 48 bits (RFC 4193). Default: made from the profile's UID.",
          PREFIX,
        ),
      },
      'The prefixes that fleet addresses come from, of the mode "parallel". Not changed while a member has a block of them.',
    ),
    attach: ATTACH,
  }),
};

const APPLIED = {
  ...SETTINGS,
  "members!": {
    ...list(text(undefined, CLUSTER), "Their names.", { "x-kubernetes-list-type": "set" }),
    maxItems: MAX_MESH_MEMBERS,
  },
  "memberSelector!": text("The selector that they were found by.", { maxLength: 4096 }),
  "operation!": text("The name of the plan that this belongs to.", { maxLength: 63 }),
};

export const PROFILE: JsonSchema = object(
  {
    "spec!": object(
      {
        "memberSelector!": SELECTOR,
        apply: oneOf(
          APPLY_MODES,
          '"Manual": members and settings change when the profile is applied (fairlead mesh apply). "Continuous" (the default): at once.',
        ),
        ...SETTINGS,
        applied: object(
          APPLIED,
          "Of Manual: the members and settings in force. Written by fairlead mesh apply.",
        ),
        appliedBefore: object(
          APPLIED,
          "The members and settings before the last plan. Written by fairlead mesh apply.",
        ),
      },
      undefined,
      {
        "x-kubernetes-validations": [
          {
            rule: "!has(self.dataplane) || self.dataplane != 'cilium' || (has(oldSelf.dataplane) && oldSelf.dataplane == 'cilium')",
            message: "dataplane of a profile cannot be changed to cilium, which is not supported yet",
          },
          {
            rule: "!has(self.apply) || self.apply != 'Manual' || has(self.applied) || (has(oldSelf.apply) && oldSelf.apply == 'Manual')",
            message:
              "a profile that becomes Manual needs applied, or its members would be disconnected; fairlead mesh create NAME --apply Manual writes both",
          },
        ],
      },
    ),
    status: object({
      conditions: CONDITIONS,
      members: int32("How many members belong to the profile."),
      state: oneOf(MESH_STATES, "The state of the network."),
      lastAppliedMemberSelector: text("The selector that the members were found by."),
      lastOperationId: text("The plan that was applied last."),
      lastOperationError: text("What of it went wrong."),
      memberStates: mapList(
        "name",
        object({
          "name!": text(undefined, CLUSTER),
          "state!": oneOf(MESH_MEMBER_STATES),
          error: text("Why it is not connected."),
          "lastUpdatedAt!": time("When the state changed last."),
        }),
        "The members that belong to the profile, or still do.",
      ),
      podAddresses: oneOf(
        ["Distinct", "Overlapping"],
        '"Overlapping": pods of several members have the same addresses, or a member does not report them.',
      ),
      addresses: object(
        { "ipv4!": text(undefined, PREFIX), "ipv6!": text(undefined, PREFIX) },
        "The prefixes in use.",
      ),
      keyEpoch: int32("The epoch of the gateways' keys.", { minimum: 1, maximum: MAX_KEY_EPOCH }),
      keyEpochSince: time("When the epoch began."),
      keyRotationRequest: text("The annotation fairlead.dev/rotate-keys when keys were made for it last."),
    }),
  },
  "A network that some members share.",
  NAME_FITS_LABEL,
);
