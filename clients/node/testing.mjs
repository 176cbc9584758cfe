// `import ... from "ojs-worker/testing"`: the development server for tests.
import testing from "./lib/testing.cjs";

export const { Devserver, DevserverMissing, devserver } = testing;
