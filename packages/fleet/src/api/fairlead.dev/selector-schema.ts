import type { JsonSchema } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { atomicList, object, oneOf, text, textMap } from "../crd-schema.ts";

/**
 * A selector of members, by the labels of their MemberClusters.
 *
 * @param byLabel - The description of the selector as text.
 */
export function memberSelector(byLabel: string, description: string): JsonSchema {
  return object(
    {
      byLabel: text(byLabel, { maxLength: 512 }),
      matchLabels: textMap("Labels that a MemberCluster has to have."),
      matchExpressions: atomicList(
        object({
          "key!": text("The key of a label."),
          "operator!": oneOf(["In", "NotIn", "Exists", "DoesNotExist"]),
          values: atomicList(text(), "For In and NotIn."),
        }),
        "Requirements on labels, all of which have to hold.",
      ),
    },
    description,
    {
      "x-kubernetes-validations": [
        {
          rule: "!has(self.byLabel) || (!has(self.matchLabels) && !has(self.matchExpressions))",
          message: "byLabel cannot be used with matchLabels or matchExpressions",
        },
      ],
    },
  );
}
