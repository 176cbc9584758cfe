// `import ... from "ojs-worker/compat"`: the OJS SDK's names.
import compat from "./lib/compat.cjs";

export const { OJSWorker, handler, middleware, register, start } = compat;
