// Reads certificates with Node's own crypto.X509Certificate: asked by JSON on stdin, a list of
// chains in PEM, each without the root; answers by JSON on stdout.
'use strict';

const { X509Certificate } = require('node:crypto');
const { readFileSync } = require('node:fs');

const { root, chains } = JSON.parse(readFileSync(0, 'utf8'));
const top = new X509Certificate(root);

function look(chain) {
  const [leaf, issuer] = [...chain.map((text) => new X509Certificate(text)), top];
  return {
    names: leaf.subjectAltName,
    subject: leaf.subject,
    usages: leaf.keyUsage || [], // Node calls the extended ones so.
    ca: leaf.ca,
    issued: leaf.checkIssued(issuer) && leaf.verify(issuer.publicKey),
    host: leaf.checkHost('proxy.gate.example.org') || '',
  };
}

process.stdout.write(JSON.stringify(chains.map(look)));
