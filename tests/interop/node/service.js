// The test service's definition, and what both programs need of it.
"use strict";

const fs = require("fs");
const path = require("path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const definition = loader.loadSync(path.join(__dirname, "..", "testing.proto"), {
  keepCase: true,
  defaults: true,
});

exports.grpc = grpc;
exports.testing = grpc.loadPackageDefinition(definition).grpc.testing;
exports.payload = (size) => ({ body: Buffer.alloc(size) });
exports.files = (asked) => ["root", "key", "chain"].map((name) => fs.readFileSync(asked[name]));
