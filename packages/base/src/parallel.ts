/** Works on all items, on at most `limit` at once. Rejects with the first error, without starting others. */
export async function inParallel<T>(
  items: Iterable<T>,
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const rest = items[Symbol.iterator]();
  let isFailed = false;
  const worker = async (): Promise<void> => {
    for (let next = rest.next(); next.done !== true && !isFailed; next = rest.next()) {
      try {
        await work(next.value);
      } catch (error) {
        isFailed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: limit }, worker));
}
