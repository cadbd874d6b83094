#!/usr/bin/env python3
"""mutations.py COUNT SEED OUT.jsonl.gz

Requests for requests.py, of the server `mutations` (`control-plane --gates GenericWorkload=true`): each creates, as a dry run, one object of objects.yaml
in which one value is removed, null, empty, of another type, too long, out of range, repeated, or not a name. COUNT 0 means all.
"""
import copy, gzip, json, os, random, sys

import yaml

PLURALS = {"StorageClass": "storageclasses", "PriorityClass": "priorityclasses", "DeviceClass": "deviceclasses", "RuntimeClass": "runtimeclasses", "CSIStorageCapacity": "csistoragecapacities", "ValidatingAdmissionPolicy": "validatingadmissionpolicies"}
OF_CLUSTER = {"PriorityClass", "Node", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment", "Namespace", "DeviceClass", "ResourceSlice", "DeviceTaintRule", "RuntimeClass", "ClusterRole", "ValidatingAdmissionPolicy", "ValidatingWebhookConfiguration", "CustomResourceDefinition"}
REMOVED = object()


def url(o):
    root = "/apis/" if "/" in o["apiVersion"] else "/api/"
    place = "/" if o["kind"] in OF_CLUSTER else "/namespaces/default/"
    return root + o["apiVersion"] + place + PLURALS.get(o["kind"], o["kind"].lower() + "s")


def paths(o, path=()):
    yield path, o
    for key, value in o.items() if isinstance(o, dict) else enumerate(o) if isinstance(o, list) else ():
        yield from paths(value, path + (key,))


def changes(v):
    always = {"remove": REMOVED, "null": None}
    if isinstance(v, bool):
        return {**always, "text": "true", "flip": not v, "one": 1}
    if isinstance(v, int):
        return {**always, "zero": 0, "minus": -1, "text": str(v), "fraction": 1.5, "big": 2**31, "huge": 10**20 - 1, "large": 2 * 10**9}
    if isinstance(v, str):
        return {**always, "empty": "", "odd": "A_b!", "long": "x" * 300, "number": 7, "upper": v.upper(), "slash": v + "/x/y", "dash": "-" + v, "space": v + " ", "digit": "5", "neg": "-1"}
    if isinstance(v, list):
        return {**always, "empty": [], "twice": v + v[:1], "object": {}, "null item": v + [None], "text": "x"}
    return {**always, "empty": {}, "unknown": {**v, "unknownField": 1}, "text": "x", "list": []}


def changed(o, path, value):
    o = copy.deepcopy(o)
    within = o
    for key in path[:-1]:
        within = within[key]
    if value is REMOVED:
        del within[path[-1]]
    else:
        within[path[-1]] = value
    return o


def main():
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    requests = []
    for o in yaml.safe_load_all(open(os.path.join(os.path.dirname(__file__), "objects.yaml"))):
        requests.append((o, "", "valid", o))
        for path, v in paths(o):
            if path not in ((), ("apiVersion",), ("kind",)):
                requests += ((o, ".".join(map(str, path)), name, changed(o, path, value)) for name, value in changes(v).items())
    if count:
        chosen = sorted(random.Random(seed).sample(range(len(requests)), count))
        requests = [requests[i] for i in chosen]
    with gzip.open(sys.argv[3], "wt") as out:
        for o, path, name, body in requests:
            query = "?dryRun=All" + ("&fieldValidation=Strict" if name == "unknown" else "")
            d = {"server": "mutations", "name": f"{o['kind']} {path} {name}", "method": "POST", "path": url(o) + query, "body": body, "contentType": "application/json"}
            out.write(json.dumps(d) + "\n")


main()
