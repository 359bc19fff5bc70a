// Cases of RFC 6455 and 7692 as `ws` plays them; argv: the URL.  stdout: what came of each.
"use strict";

const { createHash } = require("crypto");
const WebSocket = require("ws");

const base = process.argv[2];
const digest = (data) => createHash("sha256").update(data).digest("hex").slice(0, 16);
const shown = (data, isBinary) => `${isBinary ? "binary" : "text"} ${data.length} ${digest(data)}`;

// A case begins on an open socket; it ends with the close, or once `want` messages have come.
const plain = { perMessageDeflate: false };
const CASES = {
  empty: { begin: (s) => s.send("") },
  text: { begin: (s) => s.send("ä☺😈") },
  binary: { begin: (s) => s.send(Buffer.alloc(70000, 7)) },
  "binary, not compressed": { options: plain, begin: (s) => s.send(Buffer.alloc(70000, 7)) },
  "the longest short length": { options: plain, begin: (s) => s.send(Buffer.alloc(125)) },
  "the shortest long length": { options: plain, begin: (s) => s.send(Buffer.alloc(126)) },
  "the longest 16-bit length": { options: plain, begin: (s) => s.send(Buffer.alloc(65535)) },
  compressed: { begin: (s) => s.send("svc ".repeat(50000)) },
  "compressed alone": {
    options: { perMessageDeflate: { clientNoContextTakeover: true, serverNoContextTakeover: true } },
    want: 2,
    begin: (s) => ["a".repeat(500), "a".repeat(500)].forEach((one) => s.send(one)),
  },
  "in context": { want: 3, begin: (s) => ["x", "x", "x"].forEach((one) => s.send(one.repeat(999))) },
  fragments: {
    options: plain,
    begin: (s) => {
      s.send("one ", { fin: false });
      s.send("two ", { fin: false });
      s.send("three", { fin: true });
    },
  },
  "a ping amid fragments": {
    options: plain,
    begin: (s) => {
      s.send("one ", { fin: false });
      s.ping("amid");
      s.send("two", { fin: true });
    },
  },
  "fragments back": { begin: (s) => s.send("pieces") },
  ping: { begin: (s) => s.ping("hello") && 0, pong: true },
  "ping from there": { begin: (s) => s.send("ping") },
  many: { want: 200, begin: (s) => [...Array(200).keys()].forEach((n) => s.send(`${n}`)) },
  "a close": { begin: (s) => s.close(1000, "done") },
  "a close of one's own": { begin: (s) => s.close(4123, "ä") },
  "a close from there": { begin: (s) => s.send("close 4001") },
  "a close that says nothing": { begin: (s) => s.close() },
  "cut off there": { begin: (s) => s.send("terminate") },
  "too long": { begin: (s) => s.send(Buffer.alloc((1 << 20) + 1)) },
  "no UTF-8": { options: plain, begin: (s) => s.send(Buffer.from([0xff, 0xfe]), { binary: false }) },
  subprotocols: { protocols: ["first", "second"], begin: (s) => s.send(s.protocol) },
  "no subprotocol": { protocols: ["other"], begin: (s) => s.send("never") },
  refused: { path: "/closed", begin: (s) => s.send("never") },
};

function play({ path = "/", protocols = [], options = {}, want = 1, pong = false, begin }) {
  return new Promise((resolve) => {
    const said = [];
    const socket = new WebSocket(base + path, protocols, { ...options, handshakeTimeout: 20000 });
    const timer = setTimeout(() => socket.terminate(), 25000);
    const over = (last) => {
      clearTimeout(timer);
      resolve([...said, last]);
      socket.terminate();
    };
    socket.on("open", () => {
      said.push(`open ${socket.protocol} ${socket.extensions}`);
      begin(socket);
    });
    let came = 0;
    socket.on("message", (data, isBinary) => {
      said.push(shown(data, isBinary));
      came += 1;
      if (came === want) socket.close(1000);
    });
    socket.on("pong", (data) => {
      said.push(`pong ${data}`);
      if (pong) socket.close(1000);
    });
    socket.on("ping", (data) => said.push(`ping ${data}`));
    socket.on("unexpected-response", (_, answer) => {
      over(`answered ${answer.statusCode} ${answer.headers["x-why"]}`);
    });
    socket.on("error", (error) => said.push(`error ${error.code || error.message}`));
    socket.on("close", (code, reason) => over(`closed ${code} ${reason}`));
  });
}

async function main() {
  const found = {};
  for (const [name, one] of Object.entries(CASES)) found[name] = await play(one);
  console.log(JSON.stringify(found));
}

main();
