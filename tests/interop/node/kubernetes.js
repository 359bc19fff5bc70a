// What the Kubernetes project's JavaScript client sees; argv: the kubeconfig.  stdout: one JSON object.
"use strict";

const { PassThrough } = require("stream");

const SPACE = "shop";

async function outcome(call) {
  try {
    return await call();
  } catch (refused) {
    const body = typeof refused.body === "string" ? JSON.parse(refused.body) : refused.body;
    if (refused.code && body) return [refused.code, body.reason, body.message];
    return [0, String(refused.message || refused)];
  }
}

async function watched(k8s, config, api) {
  const seen = [];
  const since = (await api.listNamespacedConfigMap({ namespace: SPACE })).metadata.resourceVersion;
  const body = { metadata: { name: "node", namespace: SPACE }, data: { sky: "blue" } };
  await api.createNamespacedConfigMap({ namespace: SPACE, body });
  await api.deleteNamespacedConfigMap({ namespace: SPACE, name: "node" });
  await new Promise((done, failed) => {
    new k8s.Watch(config)
      .watch(
        `/api/v1/namespaces/${SPACE}/configmaps`,
        { resourceVersion: since },
        (type, one) => {
          seen.push(`${type} ${one.metadata.name}`);
          if (type === "DELETED") done();
        },
        (error) => failed(error || new Error("the watch ended")),
      )
      .then((aborted) => setTimeout(() => aborted.abort(), 15000).unref(), failed);
  });
  return seen;
}

function executed(k8s, config) {
  const [input, output, errors] = [new PassThrough(), new PassThrough(), new PassThrough()];
  let said = "";
  output.on("data", (data) => (said += data));
  return new Promise((done, failed) => {
    new k8s.Exec(config)
      .exec(
        SPACE,
        "front",
        "shop",
        ["sh", "-c", "read word; echo $word; exit 3"],
        output,
        errors,
        input,
        false,
        (status) => {
          const [cause] = (status.details && status.details.causes) || [{}];
          setImmediate(() => done([said, Number(cause.message || 0)]));
        },
      )
      .catch(failed);
    input.write("typed\n");
  });
}

async function main(path) {
  const k8s = await import("@kubernetes/client-node");
  const config = new k8s.KubeConfig();
  config.loadFromFile(path);
  const api = config.makeApiClient(k8s.CoreV1Api);
  const names = (found) => found.items.map((one) => one.metadata.name);
  const told = {
    list: await outcome(async () => names(await api.listNamespacedPod({ namespace: SPACE }))),
    watch: await outcome(() => watched(k8s, config, api)),
    exec: await outcome(() => executed(k8s, config)),
    denied: await outcome(() => api.listNamespacedSecret({ namespace: SPACE })),
    "by the cluster": await outcome(() => api.listNamespacedService({ namespace: SPACE })),
  };
  process.stdout.write(JSON.stringify(told), () => process.exit(0));
}

main(process.argv[2]);
