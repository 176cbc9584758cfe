// A worker that does nothing, as fast as it can.
import { work } from "../ojs-worker.mjs";

await work({ handlers: { "bench.noop": () => null } });
