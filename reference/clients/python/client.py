"""The official Python client."""
import threading
import time

from kubernetes import client, config, dynamic, watch

config.load_config()
core, apps, policy = client.CoreV1Api(), client.AppsV1Api(), client.PolicyV1Api()
NS = "default"


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


core.create_namespaced_config_map(NS, config_map("a", k="1"))
found = core.list_namespaced_config_map(NS, label_selector="!none", limit=1)
assert len(found.items) == 1 and found.metadata.resource_version
got = core.read_namespaced_config_map("a", NS)
got.data["k"] = "2"
core.replace_namespaced_config_map("a", NS, got)
try:
    core.replace_namespaced_config_map("a", NS, got)
    raise SystemExit("a replacement of an old version is accepted")
except client.ApiException as error:
    assert error.status == 409, error
core.patch_namespaced_config_map("a", NS, [{"op": "add", "path": "/data/json", "value": "x"}])
core.patch_namespaced_config_map("a", NS, {"data": {"k": None}})
assert core.read_namespaced_config_map("a", NS).data == {"json": "x"}

resources = dynamic.DynamicClient(client.ApiClient())
maps = resources.resources.get(api_version="v1", kind="ConfigMap")
resources.server_side_apply(maps, config_map("applied", k="one"), namespace=NS, field_manager="one")
try:
    resources.server_side_apply(maps, config_map("applied", k="two"), namespace=NS, field_manager="two")
    raise SystemExit("a conflict is accepted")
except dynamic.exceptions.ConflictError:
    pass
resources.server_side_apply(maps, config_map("applied", k="two"), namespace=NS, field_manager="two", force_conflicts=True)

labels = {"app": "web"}
apps.create_namespaced_deployment(NS, {
    "metadata": {"name": "web"},
    "spec": {"replicas": 1, "selector": {"matchLabels": labels},
             "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}}})
apps.patch_namespaced_deployment_scale("web", NS, {"spec": {"replicas": 2}})
assert apps.read_namespaced_deployment_scale("web", NS).spec.replicas == 2
for event in watch.Watch().stream(apps.list_namespaced_deployment, NS, timeout_seconds=60):
    if (event["object"].status.ready_replicas or 0) == 2:
        break
else:
    raise SystemExit("2 replicas are never ready")
pod = core.list_namespaced_pod(NS, label_selector="app=web").items[0].metadata.name
core.create_namespaced_pod_eviction(pod, NS, client.V1Eviction(metadata=client.V1ObjectMeta(name=pod)))

seen = []


def follow():
    version = core.list_namespaced_config_map(NS).metadata.resource_version
    while "later" not in seen:
        try:
            for event in watch.Watch().stream(core.list_namespaced_config_map, NS, resource_version=version):
                seen.append(event["object"].metadata.name)
                if "later" in seen:
                    return
        except client.ApiException as error:
            # The version is too old: as informers do, from a new list.
            assert error.status == 410, error
            found = core.list_namespaced_config_map(NS)
            version = found.metadata.resource_version
            seen.extend(item.metadata.name for item in found.items)
        except Exception:
            time.sleep(0.2)


thread = threading.Thread(target=follow, daemon=True)
thread.start()
time.sleep(1)
print("restart")
for _ in range(100):
    try:
        core.create_namespaced_config_map(NS, config_map("later"))
        break
    except Exception as error:
        time.sleep(0.2)
thread.join(30)
assert "later" in seen, seen
apps.delete_namespaced_deployment("web", NS)
core.delete_collection_namespaced_config_map(NS)
assert not core.list_namespaced_config_map(NS).items
print("ok")
