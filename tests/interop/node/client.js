// gRPC's interoperability cases as grpc-js calls them; stdin says where and which.
"use strict";

const assert = require("assert");
const fs = require("fs");
const { grpc, testing, payload, files } = require("./service.js");

const TEXT = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n";
const SENT = [27182, 8, 1828, 45904];
const ANSWERED = [31415, 9, 2653, 58979];
const LARGE = { response_size: 314159, payload: payload(271828) };
const soon = (seconds = 30) => ({ deadline: Date.now() + seconds * 1000 });

class Cases {
  constructor(stub, other, gzip) {
    this.stub = stub;
    this.other = other;
    this.gzip = gzip;
  }

  unary(method, request, { metadata = new grpc.Metadata(), seen = {}, stub = this.stub } = {}) {
    return new Promise((resolve, reject) => {
      const told = (error, answer) => (error ? reject(error) : resolve(answer));
      const call = stub[method](request, metadata, soon(), told);
      call.on("metadata", (initial) => (seen.initial = initial));
      call.on("status", (status) => (seen.trailing = status.metadata));
    });
  }

  async refused(promise) {
    try {
      await promise;
    } catch (error) {
      return error;
    }
    throw new assert.AssertionError({ message: "not refused" });
  }

  // All that a stream brings; fails with its status.
  all(call, seen = {}) {
    return new Promise((resolve, reject) => {
      const sizes = [];
      call.on("metadata", (initial) => (seen.initial = initial));
      call.on("status", (status) => (seen.trailing = status.metadata));
      call.on("data", (answer) => sizes.push(answer.payload.body.length));
      call.on("error", reject);
      call.on("end", () => setImmediate(() => resolve(sizes)));
    });
  }

  async large(more = {}, options = {}) {
    const answer = await this.unary("UnaryCall", { ...LARGE, ...more }, options);
    assert.strictEqual(answer.payload.body.length, 314159);
  }

  async empty_unary() {
    assert.deepStrictEqual(await this.unary("EmptyCall", {}), {});
  }

  async large_unary() {
    await this.large();
  }

  async client_streaming() {
    const total = await new Promise((resolve, reject) => {
      const call = this.stub.StreamingInputCall(new grpc.Metadata(), soon(), (error, answer) =>
        error ? reject(error) : resolve(answer.aggregated_payload_size),
      );
      SENT.forEach((size) => call.write({ payload: payload(size) }));
      call.end();
    });
    assert.strictEqual(total, 74922);
  }

  async server_streaming() {
    const parameters = ANSWERED.map((size) => ({ size }));
    const call = this.stub.StreamingOutputCall({ response_parameters: parameters }, soon());
    assert.deepStrictEqual(await this.all(call), ANSWERED);
  }

  async ping_pong() {
    const call = this.stub.FullDuplexCall(soon());
    const ask = (at) =>
      call.write({ response_parameters: [{ size: ANSWERED[at] }], payload: payload(SENT[at]) });
    let at = 0;
    call.on("data", () => (++at < SENT.length ? ask(at) : call.end()));
    const told = this.all(call);
    ask(0);
    assert.deepStrictEqual(await told, ANSWERED);
  }

  async empty_stream() {
    const call = this.stub.FullDuplexCall(soon());
    call.end();
    assert.deepStrictEqual(await this.all(call), []);
  }

  async custom_metadata() {
    const metadata = new grpc.Metadata();
    metadata.set("x-grpc-test-echo-initial", "test_initial_metadata_value");
    metadata.set("x-grpc-test-echo-trailing-bin", Buffer.from("ababab", "hex"));
    const one = {};
    await this.large({}, { metadata, seen: one });
    const many = {};
    const call = this.stub.FullDuplexCall(metadata, soon());
    call.write({ response_parameters: [{ size: 314159 }], payload: payload(271828) });
    call.end();
    assert.deepStrictEqual(await this.all(call, many), [314159]);
    for (const seen of [one, many]) {
      const [text] = seen.initial.get("x-grpc-test-echo-initial");
      const [octets] = seen.trailing.get("x-grpc-test-echo-trailing-bin");
      assert.strictEqual(text, "test_initial_metadata_value");
      assert.strictEqual(octets.toString("hex"), "ababab");
    }
  }

  async status(message) {
    const request = { response_status: { code: 2, message } };
    const first = await this.refused(this.unary("UnaryCall", request));
    const call = this.stub.FullDuplexCall(soon());
    call.write(request);
    call.end();
    const second = await this.refused(this.all(call));
    for (const error of [first, second]) {
      assert.deepStrictEqual([error.code, error.details], [grpc.status.UNKNOWN, message]);
    }
  }

  async status_code_and_message() {
    await this.status("test status message");
  }

  async special_status_message() {
    await this.status(TEXT);
  }

  async unimplemented_method() {
    const error = await this.refused(this.unary("UnimplementedCall", {}));
    assert.strictEqual(error.code, grpc.status.UNIMPLEMENTED);
  }

  async unimplemented_service() {
    const error = await this.refused(this.unary("UnimplementedCall", {}, { stub: this.other }));
    assert.strictEqual(error.code, grpc.status.UNIMPLEMENTED);
  }

  async cancel_after_begin() {
    const error = await this.refused(
      new Promise((resolve, reject) => {
        const call = this.stub.StreamingInputCall(new grpc.Metadata(), soon(), (error) =>
          error ? reject(error) : resolve(),
        );
        call.cancel();
      }),
    );
    assert.strictEqual(error.code, grpc.status.CANCELLED);
  }

  async cancel_after_first_response() {
    const call = this.stub.FullDuplexCall(soon());
    call.write({ response_parameters: [{ size: 31415 }], payload: payload(27182) });
    call.on("data", () => call.cancel());
    assert.strictEqual((await this.refused(this.all(call))).code, grpc.status.CANCELLED);
  }

  async timeout_on_sleeping_server() {
    const call = this.stub.FullDuplexCall({ deadline: Date.now() + 1 });
    call.write({ payload: payload(27182) });
    assert.strictEqual((await this.refused(this.all(call))).code, grpc.status.DEADLINE_EXCEEDED);
  }

  async concurrent_large_unary() {
    await Promise.all(Array.from({ length: 1000 }, () => this.large()));
  }

  // The same number of calls, each a tenth as long: this client lets 64 KiB at once come to it.
  async concurrent_unary() {
    const shorter = { response_size: 31416, payload: payload(27183) };
    const calls = Array.from({ length: 1000 }, () => this.unary("UnaryCall", shorter));
    for (const answer of await Promise.all(calls)) {
      assert.strictEqual(answer.payload.body.length, 31416);
    }
  }

  async client_compressed_unary() {
    const probe = await this.refused(this.large({ expect_compressed: { value: true } }));
    assert.strictEqual(probe.code, grpc.status.INVALID_ARGUMENT);
    const request = { ...LARGE, expect_compressed: { value: true } };
    const error = await this.refused(this.unary("UnaryCall", request, { stub: this.gzip }));
    assert.strictEqual(error.code, grpc.status.UNIMPLEMENTED);
    assert.match(error.details, /gzip.*identity/);
    await this.large({ expect_compressed: { value: false } });
  }
}

async function main() {
  const asked = JSON.parse(fs.readFileSync(0, "utf8"));
  const credentials = grpc.credentials.createSsl(...files(asked));
  const options = { "grpc.ssl_target_name_override": "localhost" };
  const stub = new testing.TestService(asked.address, credentials, options);
  const other = new testing.UnimplementedService(asked.address, credentials, {
    ...options,
    channelOverride: stub.getChannel(),
  });
  const gzip = new testing.TestService(asked.address, credentials, {
    ...options,
    "grpc.default_compression_algorithm": 2,
  });
  const cases = new Cases(stub, other, gzip);
  const told = {};
  for (const name of asked.cases) {
    try {
      await cases[name]();
      told[name] = "ok";
    } catch (error) {
      told[name] = String(error);
    }
  }
  stub.close();
  gzip.close();
  // A call's deadline would keep the process until it is over.
  process.stdout.write(JSON.stringify(told), () => process.exit(0));
}

main();
