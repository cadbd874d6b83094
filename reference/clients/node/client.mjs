// client-node, the official client for JavaScript.
import * as k8s from '@kubernetes/client-node';
import assert from 'node:assert';

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);
const namespace = 'default';
const until = async (what, holds) => {
  for (let i = 0; i < 300; i++) {
    if (await holds()) return;
    await new Promise((done) => setTimeout(done, 200));
  }
  throw new Error(`never: ${what}`);
};
const code = async (request) => request.then(() => 200, (error) => error.code);
const configMap = (name, data) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace }, data });

await core.createNamespacedConfigMap({ namespace, body: configMap('a', { k: '1' }) });
const got = await core.readNamespacedConfigMap({ name: 'a', namespace });
got.data.k = '2';
await core.replaceNamespacedConfigMap({ name: 'a', namespace, body: got });
assert.equal(await code(core.replaceNamespacedConfigMap({ name: 'a', namespace, body: got })), 409);
const as = (strategy) => k8s.setHeaderOptions('Content-Type', strategy);
await core.patchNamespacedConfigMap({ name: 'a', namespace, body: [{ op: 'add', path: '/data/json', value: 'x' }] }, as(k8s.PatchStrategy.JsonPatch));
await core.patchNamespacedConfigMap({ name: 'a', namespace, body: { data: { k: null } } }, as(k8s.PatchStrategy.MergePatch));
assert.deepEqual((await core.readNamespacedConfigMap({ name: 'a', namespace })).data, { json: 'x' });
const apply = (value, manager, force) =>
  objects.patch(configMap('applied', { k: value }), undefined, undefined, manager, force, k8s.PatchStrategy.ServerSideApply);
await apply('one', 'one', false);
assert.equal(await code(apply('two', 'two', false)), 409);
await apply('two', 'two', true);

const labels = { app: 'web' };
await apps.createNamespacedDeployment({ namespace, body: { metadata: { name: 'web' }, spec: { replicas: 1, selector: { matchLabels: labels },
  template: { metadata: { labels }, spec: { containers: [{ name: 'c', image: 'x' }] } } } } });
await apps.patchNamespacedDeploymentScale({ name: 'web', namespace, body: { spec: { replicas: 2 } } }, as(k8s.PatchStrategy.MergePatch));
await until('2 ready replicas', async () => (await apps.readNamespacedDeployment({ name: 'web', namespace })).status.readyReplicas === 2);
const pods = (await core.listNamespacedPod({ namespace, labelSelector: 'app=web' })).items;
await core.createNamespacedPodEviction({ name: pods[0].metadata.name, namespace, body: { metadata: { name: pods[0].metadata.name } } });

const seen = new Set();
const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, () => core.listNamespacedConfigMap({ namespace }));
informer.on('add', (object) => seen.add(object.metadata.name));
informer.on('error', () => setTimeout(() => informer.start().catch(() => {}), 500));
await informer.start();
await until('the informer has the objects', () => seen.has('applied'));
console.log('restart');
await new Promise((done) => setTimeout(done, 2000));
await until('the server answers', async () => (await code(core.createNamespacedConfigMap({ namespace, body: configMap('later', {}) }))) === 200);
await until('the informer goes on', () => seen.has('later'));
await informer.stop();
await apps.deleteNamespacedDeployment({ name: 'web', namespace });
await core.deleteCollectionNamespacedConfigMap({ namespace });
assert.equal((await core.listNamespacedConfigMap({ namespace })).items.length, 0);
console.log('ok');
process.exit(0);
