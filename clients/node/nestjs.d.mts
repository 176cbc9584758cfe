export * from "./nestjs.cjs";
