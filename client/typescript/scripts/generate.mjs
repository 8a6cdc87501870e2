// Generates the contract's stubs and the version into src/generated: `npm run generate`.
//
// Needs protoc. The protos are those of the project's tree; FAIRGATE_PROTO_PATH names other folders, ":" between them.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const tree = path.resolve(here, "../..");
const folders = (process.env.FAIRGATE_PROTO_PATH ?? `${tree}/proto:${tree}/build/deps/googleapis`).split(":");
const into = path.join(here, "src", "generated");
const options = [
  "env=node",
  "esModuleInterop=true",
  "importSuffix=.js",
  "outputServices=grpc-js",
  "outputJsonMethods=false",
  "oneof=unions-value",
  "exportCommonSymbols=false",
  "useExactTypes=false",
];

rmSync(into, { recursive: true, force: true });
mkdirSync(into, { recursive: true });
execFileSync(
  process.env.PROTOC ?? "protoc",
  [
    `--plugin=protoc-gen-ts_proto=${path.join(here, "node_modules", ".bin", "protoc-gen-ts_proto")}`,
    `--ts_proto_out=${into}`,
    `--ts_proto_opt=${options.join(",")}`,
    ...folders.map((folder) => `-I${folder}`),
    "fairgate/v1/admission.proto",
    "google/rpc/status.proto",
    "google/rpc/error_details.proto",
  ],
  { stdio: "inherit" },
);
const { version } = JSON.parse(readFileSync(path.join(here, "package.json"), "utf8"));
writeFileSync(path.join(into, "version.ts"), `export const VERSION = ${JSON.stringify(version)};\n`);
