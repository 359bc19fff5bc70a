// A WebSocket application on `ws`: it returns messages, and does what some of them ask for.
// stdout: its port.
"use strict";

const { WebSocketServer } = require("ws");

const server = new WebSocketServer({
  host: "127.0.0.1",
  port: 0,
  maxPayload: 1 << 20,
  perMessageDeflate: { threshold: 64 },
  handleProtocols: (offered) => (offered.has("second") ? "second" : false),
  verifyClient: ({ req }, answer) =>
    req.url === "/closed" ? answer(false, 401, "no", { "X-Why": "closed" }) : answer(true),
});

server.on("listening", () => console.log(server.address().port));
server.on("connection", (socket) => {
  socket.on("error", () => {});
  socket.on("message", (data, isBinary) => {
    const text = isBinary ? "" : data.toString();
    if (text.startsWith("close ")) {
      socket.close(Number(text.slice(6)), "as asked");
    } else if (text === "terminate") {
      socket.terminate();
    } else if (text === "pieces") {
      socket.send("one,", { fin: false, compress: false });
      socket.send("two", { fin: true, compress: false });
    } else if (text === "ping") {
      socket.ping("here");
      socket.once("pong", (answer) => socket.send(`pong ${answer}`));
    } else {
      socket.send(data, { binary: isBinary });
    }
  });
});
