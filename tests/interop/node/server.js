// gRPC's test service on a grpc-js server with mutual TLS; its port is the only line it writes.
"use strict";

const fs = require("fs");
const { grpc, testing, payload, files } = require("./service.js");

const INITIAL = "x-grpc-test-echo-initial";
const TRAILING = "x-grpc-test-echo-trailing-bin";

function echo(call) {
  const [initial] = call.metadata.get(INITIAL);
  if (initial !== undefined) {
    const metadata = new grpc.Metadata();
    metadata.set(INITIAL, initial);
    call.sendMetadata(metadata);
  }
  const trailing = new grpc.Metadata();
  for (const value of call.metadata.get(TRAILING)) trailing.set(TRAILING, value);
  return trailing;
}

function refusal(request) {
  const status = request.response_status;
  return status ? { code: status.code, details: status.message } : null;
}

function answers(call, request) {
  const refused = refusal(request);
  if (refused) call.emit("error", refused);
  else for (const { size } of request.response_parameters) call.write({ payload: payload(size) });
}

const service = {
  EmptyCall: (call, done) => done(null, {}),
  UnaryCall(call, done) {
    const trailing = echo(call);
    done(refusal(call.request), { payload: payload(call.request.response_size) }, trailing);
  },
  StreamingInputCall(call, done) {
    let total = 0;
    call.on("data", (request) => (total += request.payload.body.length));
    call.on("end", () => done(null, { aggregated_payload_size: total }));
  },
  StreamingOutputCall(call) {
    answers(call, call.request);
    call.end();
  },
  FullDuplexCall(call) {
    const trailing = echo(call);
    call.on("data", (request) => answers(call, request));
    call.on("end", () => call.end(trailing));
  },
};

const { UnimplementedCall, ...served } = testing.TestService.service;
const [root, key, chain] = files(JSON.parse(fs.readFileSync(process.argv[2], "utf8")));
const pair = { private_key: key, cert_chain: chain };
const server = new grpc.Server();
server.addService(served, service);
server.bindAsync(
  "127.0.0.1:0",
  grpc.ServerCredentials.createSsl(root, [pair], true),
  (error, port) => {
    if (error) throw error;
    process.stdout.write(`${port}\n`);
  },
);
