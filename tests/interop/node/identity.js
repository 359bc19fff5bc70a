// Verifies tokens as an application would: by `jose`, from the URL or the file of the key set.
// stdin: {"url" or "keys", "issuer", "audience", "tokens"}; stdout: what each one says, or why not.
"use strict";

const fs = require("fs");
const { createLocalJWKSet, createRemoteJWKSet, jwtVerify } = require("jose");

async function main() {
  const asked = JSON.parse(fs.readFileSync(0, "utf8"));
  const keys = asked.url ? createRemoteJWKSet(new URL(asked.url)) : createLocalJWKSet(asked.keys);
  const wanted = {
    issuer: asked.issuer,
    audience: asked.audience,
    algorithms: ["ES256"],
    typ: "svc-identity+jwt",
    maxTokenAge: 60,
    requiredClaims: ["sub", "sid", "jti", "nbf", "exp"],
  };
  const said = [];
  for (const token of asked.tokens) {
    try {
      said.push({ claims: (await jwtVerify(token, keys, wanted)).payload });
    } catch (error) {
      said.push({ refused: error.code });
    }
  }
  console.log(JSON.stringify(said));
}

main();
