// Shared by the scripts: the server's address, and cases that run in order. A script ends with status 1 at the first
// case that fails, and names it.
import assert from "node:assert/strict";

export { assert };

export const address = process.env.TESSERA_URL;
if (!address) throw new Error("TESSERA_URL is not set");

const cases = [];

export function test(name, body) {
  cases.push({ name, body });
}

export async function runCases() {
  for (const { name, body } of cases) {
    try {
      await body();
      console.log(`ok: ${name}`);
    } catch (error) {
      console.error(`failed: ${name}\n${error?.stack ?? error}`);
      process.exit(1);
    }
  }
}

// The error of a promise that must fail.
export async function errorOf(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new assert.AssertionError({ message: "no error" });
}
