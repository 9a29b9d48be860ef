import type { CustomResourceDefinition, JsonSchema } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import {
  AGE,
  conditionColumn,
  CONDITIONS,
  crd,
  int64,
  list,
  mapList,
  NAME_FITS_LABEL,
  object,
  oneOf,
  text,
} from "../crd-schema.ts";

/** Kinds of the traffic manager in `networking.fleet.azure.com`. */

const group = "networking.fleet.azure.com";
const categories = ["fleet-networking"];

function immutable(field: string): JsonSchema {
  return { "x-kubernetes-validations": [{ message: `${field} is immutable`, rule: "self == oldSelf" }] };
}

const TIMEOUT_RULES: JsonSchema = {
  "x-kubernetes-validations": [
    [30, 10],
    [10, 9],
  ].map(([interval, longest]) => ({
    message: `timeoutInSeconds must be between 5 and ${longest} when intervalInSeconds is ${interval}`,
    rule:
      `has(self.intervalInSeconds) && self.intervalInSeconds == ${interval} ? ` +
      `(!has(self.timeoutInSeconds) || (self.timeoutInSeconds >= 5 && self.timeoutInSeconds <= ${longest})) : true`,
  })),
};

function monitorConfig(rules: JsonSchema): JsonSchema {
  return object(
    {
      intervalInSeconds: {
        ...int64("Time between two checks of an endpoint."),
        enum: [10, 30],
        default: 30,
      },
      path: { ...text("What HTTP and HTTPS checks ask for."), default: "/" },
      port: { ...int64("The TCP port that is checked."), default: 80 },
      protocol: { ...oneOf(["HTTP", "HTTPS", "TCP"]), default: "HTTP" },
      customHeaders: {
        ...mapList(
          "name",
          object({ "name!": text(undefined, { minLength: 1 }), "value!": text(undefined, { minLength: 1 }) }),
          "Headers of HTTP and HTTPS checks, such as Host.",
        ),
        maxItems: 8,
      },
      timeoutInSeconds: int64(
        "How long one check may take: 5 to 10, 5 to 9 with an interval of 10. Absent: the longest.",
        { minimum: 5, maximum: 10 },
      ),
      toleratedNumberOfFailures: {
        ...int64("Failures in a row that change nothing; the next one degrades the endpoint.", {
          minimum: 0,
          maximum: 9,
        }),
        default: 3,
      },
    },
    "How endpoints are checked.",
    rules,
  );
}

function profileSchema(rules: JsonSchema): JsonSchema {
  return object(
    {
      "spec!": object({
        resourceGroup: text("Accepted for compatibility with fleet-networking; it has no effect.", {
          minLength: 1,
          maxLength: 90,
          ...immutable("resourceGroup"),
        }),
        monitorConfig: monitorConfig(rules),
      }),
      status: object({
        dnsName: text("The name that clients use."),
        resourceID: text("Set by fleet-networking's controllers only."),
        conditions: CONDITIONS,
      }),
    },
    "One DNS name in front of services of the fleet, the same for all clients.",
    NAME_FITS_LABEL,
  );
}

const ENDPOINT_STATUS = object({
  "name!": text("The name of the endpoint."),
  resourceID: text("Set by fleet-networking's controllers only."),
  weight: int64("The endpoint's share of the requests for the profile."),
  target: text("Where requests go: an address or a domain."),
  from: object({
    "cluster!": text("The exporting cluster."),
    weight: int64("The weight of the cluster's ServiceExport."),
  }),
  health: oneOf(["Online", "Degraded", "CheckingEndpoint"], "Addition. What the checks found."),
});

const BACKEND_SCHEMA = object(
  {
    "spec!": object({
      "profile!": object(
        { "name!": text() },
        "The TrafficManagerProfile, in the same namespace.",
        immutable("spec.profile"),
      ),
      "backend!": object(
        { "name!": text() },
        "The ServiceImport, in the same namespace.",
        immutable("spec.backend"),
      ),
      weight: {
        ...int64("Share of the requests for all its endpoints together; 0 takes them out.", {
          minimum: 0,
          maximum: 1000,
        }),
        default: 1,
      },
    }),
    status: object({
      endpoints: list(ENDPOINT_STATUS, "The endpoints that were accepted."),
      conditions: CONDITIONS,
    }),
  },
  "Puts an exported service behind a TrafficManagerProfile.",
  NAME_FITS_LABEL,
);

const PROFILE_COLUMNS = [
  { name: "DNS-Name", type: "string", jsonPath: ".status.dnsName" },
  conditionColumn("Is-Programmed", "Programmed"),
  AGE,
];
const BACKEND_COLUMNS = [
  { name: "Profile", type: "string", jsonPath: ".spec.profile.name" },
  { name: "Backend", type: "string", jsonPath: ".spec.backend.name" },
  conditionColumn("Is-Accepted", "Accepted"),
  AGE,
];

/** On the hub. */
export const TRAFFIC_MANAGER_CRDS: readonly CustomResourceDefinition[] = [
  crd({
    group,
    categories,
    kind: "TrafficManagerProfile",
    shortNames: ["tmp"],
    versions: [
      { name: "v1alpha1", storage: false, schema: profileSchema({}), columns: PROFILE_COLUMNS },
      { name: "v1beta1", schema: profileSchema(TIMEOUT_RULES), columns: PROFILE_COLUMNS },
    ],
  }),
  crd({
    group,
    categories,
    kind: "TrafficManagerBackend",
    shortNames: ["tmb"],
    versions: [
      { name: "v1alpha1", storage: false, schema: BACKEND_SCHEMA, columns: BACKEND_COLUMNS },
      { name: "v1beta1", schema: BACKEND_SCHEMA, columns: BACKEND_COLUMNS },
    ],
  }),
];
