/** How many exceptions all CIDRs of one policy have at most: 66 kB of text would be half a million prefixes otherwise. */
export const MAX_EXCEPTIONS_OF_POLICY = 500;

export const TOO_MANY_EXCEPTIONS = `The policy has more than ${MAX_EXCEPTIONS_OF_POLICY} exceptions of CIDRs in all. Write several policies.`;
