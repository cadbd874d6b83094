#!/usr/bin/env python3
"""mutations.py mutations|updates COUNT SEED OUT.jsonl.gz

Requests for requests.py, all of them dry runs (`control-plane --gates GenericWorkload=true`), in which one value of an object is removed, null, empty, of
another type, too long, out of range, repeated, or not a name. `mutations` creates each object of objects.yaml; `updates` changes those that exist, by PUT,
patches and apply, and writes to the subresources of subresources.yaml. COUNT 0 means all.
"""
import copy, gzip, json, os, random, sys

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
OF_CLUSTER = set("""PriorityClass Node PersistentVolume StorageClass CSINode CSIDriver VolumeAttachment Namespace DeviceClass ResourceSlice DeviceTaintRule RuntimeClass
ClusterRole ClusterRoleBinding ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration MutatingWebhookConfiguration
CustomResourceDefinition IngressClass ServiceCIDR IPAddress VolumeAttributesClass FlowSchema PriorityLevelConfiguration CertificateSigningRequest""".split())
REMOVED = object()
MERGE, STRATEGIC, JSON, APPLY = (f"application/{t}" for t in ("merge-patch+json", "strategic-merge-patch+json", "json-patch+json", "apply-patch+yaml"))


def plural(kind):
    kind = kind.lower()
    return kind if kind == "endpoints" else kind + "es" if kind.endswith(("s", "ch")) else kind[:-1] + "ies" if kind.endswith("cy") or kind.endswith("ity") else kind + "s"


def url(o):
    root = "/apis/" if "/" in o["apiVersion"] else "/api/"
    place = "/" if o["kind"] in OF_CLUSTER else "/namespaces/default/"
    return root + o["apiVersion"] + place + plural(o["kind"])


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


def patch(o, path, value):
    """The merge patch of the change; lists are whole."""
    key = path[0]
    inner = changed(o, path, value).get(key)
    if isinstance(o[key], dict) and len(path) > 1 and isinstance(inner, dict):
        inner = patch(o[key], path[1:], value)
    return {key: inner}


def request(server, name, method, path, body, content_type="application/json"):
    return {"server": server, "name": name, "method": method, "path": path, "body": body, "contentType": content_type}


def creations(objects):
    for o in objects:
        yield request("mutations", f"{o['kind']}  valid", "POST", url(o) + "?dryRun=All", o)
        for path, v in paths(o):
            if path not in ((), ("apiVersion",), ("kind",)):
                for name, value in changes(v).items():
                    query = "?dryRun=All" + ("&fieldValidation=Strict" if name == "unknown" else "")
                    yield request("mutations", f"{o['kind']} {'.'.join(map(str, path))} {name}", "POST", url(o) + query, changed(o, path, value))


def writes(o, at, name, path, value, version, verbs):
    """One change by each way to write it."""
    for verb in verbs:
        # Of a number that has too many bits for its field, kube-apiserver keeps the lower ones there.
        if verb in ("strategic", "apply") and name.endswith((" big", " huge")):
            continue
        query, body, content_type, method = "?dryRun=All&fieldManager=writer", changed(o, path, value), "application/json", "PATCH"
        if verb in ("PUT", "POST"):
            method = verb
            if version and isinstance(body.get("metadata"), dict):
                body["metadata"].setdefault("resourceVersion", version)
        elif verb == "json":
            pointer = "/" + "/".join(str(key).replace("~", "~0").replace("/", "~1") for key in path)
            body, content_type = [{"op": "remove", "path": pointer} if value is REMOVED else {"op": "replace", "path": pointer, "value": value}], JSON
        elif verb == "apply":
            query, content_type = query + random.choice(("", "&force=true")), APPLY
        else:
            body, content_type = patch(o, path, value), MERGE if verb == "merge" else STRATEGIC
        if name.endswith("unknown"):
            query += "&fieldValidation=Strict"
        yield request("updates", f"{name} {verb}", method, at + query, body, content_type)


def updates(objects):
    setup, *subresources = yaml.safe_load_all(open(f"{HERE}/subresources.yaml"))
    ways, first, kinds = ["PUT", "merge", "strategic", "json", "apply"], [], {}
    # What is validated when others are created comes last.
    for o in sorted(objects, key=lambda o: o["kind"] in ("LimitRange", "ResourceQuota")) + setup["setup"]:
        kinds.setdefault(o["kind"], o)
        version = f"{o['kind']}-{o['metadata']['name']}"
        d = request("updates", f"{o['kind']} {o['metadata']['name']} setup", "POST", url(o) + "?fieldManager=creator", o)
        first.append({**d, "grab": {version: "metadata.resourceVersion"}})
    later = []
    for o in objects:
        at, version = f"{url(o)}/{o['metadata']['name']}", f"{{{{{o['kind']}-{o['metadata']['name']}}}}}"
        later += writes(o, at, f"{o['kind']}  valid", ("kind",), o["kind"], version, ways)
        for path, v in paths(o):
            if path not in ((), ("apiVersion",), ("kind",)):
                for name, value in changes(v).items():
                    later += writes(o, at, f"{o['kind']} {'.'.join(map(str, path))} {name}", path, value, version, ways)
    for s in subresources:
        o, sub = s["body"], s["subresource"]
        at = f"{url(kinds[s['kind']])}/{s['name']}/{sub}"
        verbs = [s["verb"]] if "verb" in s else ways if s["kind"] != "Thing" else ["PUT", "merge", "json", "apply"]
        if s["subresource"] == "ephemeralcontainers":
            verbs = ["strategic", "merge"]
        name, within = f"{s['kind']}/{sub}", tuple(s["within"].split("."))
        later += writes(o, at, f"{name}  valid", ("kind",), o["kind"], None, [v for v in verbs if v != "json"])
        for path, v in paths(o):
            if path[:len(within)] == within or path[:1] == ("metadata",) and path[1:]:
                for change, value in changes(v).items():
                    later += writes(o, at, f"{name} {'.'.join(map(str, path))} {change}", path, value, None, verbs)
    return first, later


def main():
    server, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    random.seed(seed)
    objects = list(yaml.safe_load_all(open(f"{HERE}/objects.yaml")))
    first, requests = ([], list(creations(objects))) if server == "mutations" else updates(objects)
    if count:
        requests = [requests[i] for i in sorted(random.sample(range(len(requests)), count))]
    with gzip.open(sys.argv[4], "wt") as out:
        out.writelines(json.dumps(d) + "\n" for d in first + requests)


main()
