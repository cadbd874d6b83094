"""kopf: an operator of a custom resource, with its finalizers and its progress in annotations and the status."""
import asyncio
import os
import threading
import time

import kopf
from kubernetes import client, config

GROUP, VERSION, PLURAL = "example.com", "v1", "widgets"
config.load_config()
definition = {
    "metadata": {"name": f"{PLURAL}.{GROUP}"},
    "spec": {"group": GROUP, "scope": "Namespaced", "names": {"kind": "Widget", "plural": PLURAL, "singular": "widget"},
             "versions": [{"name": VERSION, "served": True, "storage": True, "subresources": {"status": {}},
                           "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}
client.ApiextensionsV1Api().create_custom_resource_definition(definition)
widgets = client.CustomObjectsApi()
called = []


@kopf.on.create(PLURAL)
def created(spec, **_):
    called.append("create")
    return {"size": spec["size"]}


@kopf.on.update(PLURAL, field="spec.size")
def updated(old, new, patch, **_):
    called.append(f"update {old} {new}")
    patch.status["size"] = new


@kopf.on.delete(PLURAL)
def deleted(**_):
    called.append("delete")


def wait(what, holds):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, f"{what}: {called}"
        time.sleep(0.2)


def get():
    try:
        return widgets.get_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, "w")
    except client.ApiException as error:
        assert error.status == 404, error
        return None


def story():
    body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
    widgets.create_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, body)
    wait("created", lambda: (get().get("status") or {}).get("created") == {"size": 1})
    print("restart")
    time.sleep(3)
    wait("patched", lambda: patch({"spec": {"size": 2}}))
    wait("updated", lambda: (get().get("status") or {}).get("size") == 2)
    widgets.delete_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, "w")
    wait("deleted", lambda: get() is None)
    assert called == ["create", "update 1 2", "delete"], called
    print("ok", flush=True)
    os._exit(0)


def patch(change):
    try:
        return widgets.patch_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, "w", change)
    except Exception:
        return None


def run_story():
    try:
        story()
    except BaseException as error:
        print(f"failed: {error!r}", flush=True)
        os._exit(1)


threading.Thread(target=run_story, daemon=True).start()
asyncio.run(kopf.operator(namespaces=["default"], standalone=True))
