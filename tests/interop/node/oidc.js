// An identity provider for tests: oidc-provider, its built-in pages, and a hand on what it answers.
//
//   node oidc.js <key.pem> <certificate.pem>
//
// Prints its issuer as the first line.  POST /_test/accounts sets the claims of accounts, by login;
// POST /_test/cluster adds a client of that name, whose ID tokens are for machines of the cluster;
// POST /_test/answers has the next requests of a path answered with what is given, in order;
// POST /_test/life has device codes live so many seconds;
// POST /_test/keys has ID tokens signed by the key of that name, and only that one in the key set.
'use strict';
const crypto = require('node:crypto');
const fs = require('node:fs');
const https = require('node:https');

const [key, cert] = process.argv.slice(2, 4).map((path) => fs.readFileSync(path));
let cluster = 'gate.invalid';
const accounts = {};
const answers = {};
const seen = {};
const keys = {};
let signer;
let deviceLife = 600;
let Provider;
let provider;
let issuer;

const native = {
  application_type: 'native',
  token_endpoint_auth_method: 'none',
  redirect_uris: ['http://127.0.0.1/callback'],
  response_types: ['code'],
  grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
};

function keyNamed(kid) {
  keys[kid] ||= {
    ...crypto.generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' }),
    kid,
    use: 'sig',
  };
  return keys[kid];
}

function configuration() {
  return {
    ...(signer && { jwks: { keys: [keyNamed(signer)] } }),
    clients: [{ client_id: 'svc', ...native }, { client_id: cluster, ...native }],
    pkce: { required: () => true },
    conformIdTokenClaims: false,
    claims: {
      openid: ['sub'],
      email: ['email', 'email_verified'],
      profile: ['name', 'preferred_username', 'groups'],
    },
    features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true }, revocation: { enabled: true } },
    issueRefreshToken: async (ctx, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    ttl: { DeviceCode: () => deviceLife, IdToken: 3600, RefreshToken: 86400, Session: 86400, Grant: 86400, Interaction: 600, AccessToken: 600 },
    cookies: { keys: ['only for tests'] },
    findAccount: async (ctx, id) => (accounts[id] === null ? undefined : {
      accountId: id,
      claims: async () => ({ sub: id, ...(accounts[id] || {}) }),
    }),
  };
}

async function body(request) {
  let text = '';
  for await (const part of request) text += part;
  return text;
}

async function serve(request, response) {
  const path = request.url.split('?')[0];
  seen[path] = (seen[path] || 0) + 1;
  if (path === '/_test/accounts') {
    Object.assign(accounts, JSON.parse(await body(request)));
    response.end();
  } else if (path === '/_test/answers') {
    Object.assign(answers, JSON.parse(await body(request)));
    response.end();
  } else if (path === '/_test/cluster') {
    cluster = await body(request);
    provider = new Provider(issuer, configuration());
    response.end();
  } else if (path === '/_test/keys') {
    signer = await body(request);
    provider = new Provider(issuer, configuration());
    response.end();
  } else if (path === '/_test/life') {
    deviceLife = Number(await body(request));
    response.end();
  } else if (path === '/_test/seen') {
    response.end(JSON.stringify(seen));
  } else if ((answers[path] || []).length) {
    const given = answers[path].shift();
    response.writeHead(given.status, { 'content-type': 'application/json', ...(given.headers || {}) });
    response.end(typeof given.body === 'string' ? given.body : JSON.stringify(given.body));
  } else {
    provider.callback()(request, response);
  }
}

async function main() {
  Provider = (await import('oidc-provider')).default;
  const server = https.createServer({ key, cert }, (request, response) => {
    serve(request, response).catch((error) => response.destroy(error));
  });
  server.listen(0, '127.0.0.1', () => {
    issuer = `https://localhost:${server.address().port}`;
    provider = new Provider(issuer, configuration());
    process.stdout.write(`${issuer}\n`);
  });
}

main();
