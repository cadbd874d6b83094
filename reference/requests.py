#!/usr/bin/env python3
"""requests.py REQUESTS.jsonl.gz KUBECONFIG SERVER [--differences FILE | --record FILE.jsonl.gz]

Sends the requests that REQUESTS has for SERVER (a name in its lines), in order, to the API server of KUBECONFIG (a token or a client certificate), which
should be empty. Compares the answers with the recorded ones, if there are any, and prints counts by kind: same, status, text (of an error), body. With --record,
writes the requests with the answers of this server.
"""
import base64, collections, datetime, gzip, http.client, json, re, ssl, sys, tempfile, time, urllib.parse
import yaml

TODAY = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT")
TIME = re.compile(r"\b(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?)")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
GIVEN_UID = "11111111-2222-4333-8444-555555555555"
AGE = re.compile(r"^\d+(s|m|h|d)\d*s?$")


def normal(o, path=""):
    """The answer without what differs from run to run."""
    if isinstance(o, dict):
        if o.get("kind") == "Table":
            columns = [c["name"] for c in o.get("columnDefinitions", [])]
            for row in o.get("rows") or []:
                row["cells"] = ["<age>" if isinstance(c, str) and AGE.match(c) else c for _, c in zip(columns, row["cells"])]
        out = {}
        for k, v in o.items():
            if k == "managedFields":
                continue
            if k == "continue" and path.endswith("metadata") and v:
                out[k] = "<continue>"
            elif k == "resourceVersion" and path.endswith("metadata") and v:
                out[k] = "<rv>"
            elif k == "uid" and path.endswith(("metadata", "details")) and v:
                out[k] = "<uid>"
            else:
                out[k] = normal(v, path + "." + k)
        return out
    if isinstance(o, list):
        return [normal(x, path + "[]") for x in o]
    if isinstance(o, str):
        o = TIME.sub(lambda m: "<time>" if m[1].startswith(TODAY) else m[1], o)
        o = UID.sub(lambda m: m[0] if m[0] == GIVEN_UID else "<uid>", o)
        o = re.sub(r"(Too large resource version: \d+, current: )\d+", r"\1<rv>", o)
        o = re.sub(r"(ResourceVersion in (object meta: |record \())\d+", r"\1<rv>", o)
        # The object that a patch makes, and generated names.
        o = re.sub(r'(Invalid value: )"\{\\".*(\}": |<cut>$)', r"\1", o, flags=re.S)
        o = re.sub(r"\b(A_)[a-z0-9]{5}\b", r"\1<random>", o)
        return o if len(o) <= 4000 else o[:4000] + "<cut>"
    return o


def flat(o, path=""):
    if isinstance(o, dict) and o:
        return {p: x for k, v in o.items() for p, x in flat(v, f"{path}.{k}").items()}
    if isinstance(o, list) and o:
        return {p: x for i, v in enumerate(o) for p, x in flat(v, f"{path}[{i}]").items()}
    return {path: o}


def at(o, path):
    try:
        for part in path.split("."):
            o = o[int(part)] if isinstance(o, list) else o[part]
        return o
    except (KeyError, IndexError, ValueError, TypeError):
        return "NONE"


def connect(kubeconfig):
    k = yaml.safe_load(open(kubeconfig))
    user, url = k["users"][0]["user"], urllib.parse.urlparse(k["clusters"][0]["cluster"]["server"])
    context = ssl._create_unverified_context()
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as c:
            c.write(base64.b64decode(user["client-certificate-data"]) + b"\n" + base64.b64decode(user["client-key-data"]))
            c.flush()
            context.load_cert_chain(c.name)
    header = {"Authorization": "Bearer " + user["token"]} if "token" in user else {}
    return lambda: http.client.HTTPSConnection(url.hostname, url.port, context=context, timeout=30), header


def main():
    file, kubeconfig, server = sys.argv[1:4]
    option = dict([sys.argv[4:6]]) if len(sys.argv) > 5 else {}
    out = open(option["--differences"], "w") if "--differences" in option else None
    recorded = gzip.open(option["--record"], "wt") if "--record" in option else None
    new, auth = connect(kubeconfig)
    grabbed, counts = {}, collections.defaultdict(collections.Counter)

    def fill(text):
        for k, v in grabbed.items():
            text = text.replace("{{" + k + "}}", str(v))
        return text

    connection = new()
    for line in gzip.open(file, "rt"):
        d = json.loads(line)
        if d["server"] != server:
            continue
        body = json.dumps(d["body"]) if isinstance(d["body"], (dict, list)) else d["body"]
        time.sleep(d.get("wait", 0))
        headers = {**auth, "Accept": d.get("accept", "application/json"), **(d.get("headers") or {})}
        if body is not None:
            headers["Content-Type"] = d["contentType"]
        response, data = None, b""
        for _ in range(20):
            try:
                connection.request(d["method"], fill(d["path"]), fill(body).encode() if body is not None else None, headers)
                response = connection.getresponse()
                data = response.read()
                # A custom resource is not served at once.
                if d["path"].endswith("/customresourcedefinitions") and response.status == 201:
                    time.sleep(2)
                if b"storage is (re)initializing" not in data:
                    break
                time.sleep(0.5)
            except (http.client.HTTPException, OSError):
                connection = new()
        if response is None:
            print("no answer:", d["name"])
            continue
        try:
            answer = json.loads(data)
        except ValueError:
            answer = {"_text": data.decode("utf8", "replace")[:2000]}
        for k, path in (d.get("grab") or {}).items():
            grabbed[k] = at(answer, path)
        answer = normal(answer)
        if recorded:
            recorded.write(json.dumps({**d, "status": response.status, "answer": answer, "warnings": response.headers.get_all("Warning") or []}) + "\n")
        if "answer" not in d:
            continue
        ours, theirs = flat(answer), flat(normal(d["answer"]))
        keys = [k for k in sorted(ours.keys() | theirs.keys()) if ours.get(k, "absent") != theirs.get(k, "absent")]
        if response.status != d["status"]:
            kind = "status"
        elif not keys:
            kind = "same"
        else:
            kind = "text" if answer.get("kind") == "Status" and answer.get("status") == "Failure" else "body"
        counts[d["name"].split(":")[0]][kind] += 1
        if kind != "same" and out:
            row = {"name": d["name"], "kind": kind, "status": [response.status, d["status"]], "differs": {k: [ours.get(k, "absent"), theirs.get(k, "absent")] for k in keys[:12]}}
            out.write(json.dumps(row) + "\n")
    if recorded:
        recorded.close()
    for section, c in counts.items():
        print(f"{section}: {dict(c)}")
    total = sum(counts.values(), collections.Counter())
    print(f"all: {dict(total)}")
    # Causes come in random order where kube-apiserver goes through a map.
    return 0 if set(total) <= {"same", "text"} else 1


sys.exit(main())
