"""What runs in the browser: it asks for the passkey, and passes on what comes of it."""

SCRIPT = """\
"use strict";
(() => {
  const main = document.getElementById("passkey");
  const button = document.getElementById("go");
  const said = document.getElementById("said");
  const asked = JSON.parse(main.dataset.asked);

  const bytes = (text) =>
    Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (one) => one.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer)))
      .replace(/\\+/g, "-").replace(/\\//g, "_").replace(/=+$/, "");

  async function made() {
    const { owner } = asked;
    const credential = await navigator.credentials.create({ publicKey: {
      challenge: bytes(asked.challenge),
      rp: { id: asked.rp_id, name: asked.cluster },
      user: { id: bytes(owner.handle), name: owner.name, displayName: owner.name },
      pubKeyCredParams: asked.algorithms.map((alg) => ({ type: "public-key", alg })),
      excludeCredentials: owner.has.map((id) => ({ type: "public-key", id: bytes(id) })),
      authenticatorSelection: { residentKey: "required", requireResidentKey: true,
        userVerification: "required" },
      attestation: "none",
      timeout: asked.timeout,
    } });
    return { client_data: text(credential.response.clientDataJSON),
      attestation: text(credential.response.attestationObject) };
  }

  async function used() {
    const credential = await navigator.credentials.get({ publicKey: {
      challenge: bytes(asked.challenge),
      rpId: asked.rp_id,
      userVerification: "required",
      timeout: asked.timeout,
    } });
    const { response } = credential;
    return { id: text(credential.rawId),
      user_handle: text(response.userHandle || new ArrayBuffer(0)),
      client_data: text(response.clientDataJSON),
      authenticator_data: text(response.authenticatorData),
      signature: text(response.signature) };
  }

  async function answered() {
    const brought = await (asked.owner ? made() : used());
    const answer = await fetch(location.pathname, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(brought),
      credentials: "omit",
      redirect: "error",
    });
    return answer.json();
  }

  button.addEventListener("click", async () => {
    button.disabled = true;
    said.textContent = "";
    try {
      const told = await answered();
      if (told.location) {
        said.textContent = "Done: going back to the command.";
        location.replace(told.location);
        return;
      }
      said.textContent = told.refused;
    } catch (failed) {
      said.textContent = `The browser used no passkey: ${failed.message}`;
    }
    button.disabled = false;
  });
  if (!window.PublicKeyCredential) {
    said.textContent = "This browser knows no passkeys; open the address in another.";
  } else {
    button.disabled = false;
  }
})();
"""
