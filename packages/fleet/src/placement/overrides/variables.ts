import { isObject, own } from "@fairlead/base/json.ts";

/** The member that resources are overridden for. */
export interface OverriddenCluster {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
}

const NAME = "${MEMBER-CLUSTER-NAME}";
const LABEL = "${MEMBER-CLUSTER-LABEL-KEY-";

/** Why a variable has no value. */
export class VariableError extends Error {}

/**
 * The value of a patch for one cluster: variables in texts, and in the keys of maps, are replaced.
 *
 * @throws {VariableError} The cluster lacks the label, or a variable does not end.
 */
export function substituted(value: unknown, cluster: OverriddenCluster): unknown {
  if (typeof value === "string") return substitutedText(value, cluster);
  if (Array.isArray(value)) return value.map((it) => substituted(it, cluster));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, it]) => [substitutedText(key, cluster), substituted(it, cluster)]),
  );
}

function substitutedText(text: string, cluster: OverriddenCluster): string {
  const [first = "", ...rest] = text.replaceAll(NAME, () => cluster.name).split(LABEL);
  return rest.reduce((done, part) => {
    const end = part.indexOf("}");
    if (end < 0) throw new VariableError(`"${LABEL}${part}" has no closing brace`);
    const key = part.slice(0, end);
    const value = own(cluster.labels, key);
    if (value === undefined)
      throw new VariableError(
        `the cluster "${cluster.name}" has no label "${key}", which "${LABEL}${key}}" names`,
      );
    return done + value + part.slice(end + 1);
  }, first);
}
