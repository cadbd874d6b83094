#!/usr/bin/env python3
"""Random scheduling scenarios, one JSON object per line.

usage: scenarios.py SUITE COUNT SEED
suites: nodeaffinity interpod spread resources profiles admission mixed preemption volumes dra recent-resources recent-devices groups
"""
import json, random, sys

HOST, ZONE, RACK, REGION = ("kubernetes.io/hostname", "topology.kubernetes.io/zone",
                            "example.com/rack", "topology.kubernetes.io/region")
APPS = ["web", "cache", "db", "batch", "log"]
NSS = ["default", "team-a", "team-b", "kube-system"]


class Gen:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def p(self, prob):
        return self.r.random() < prob

    # ---- nodes -----------------------------------------------------------
    def nodes(self, lo=3, hi=16):
        r, out = self.r, []
        n = r.randint(lo, hi)
        zones = r.randint(1, 4)
        for i in range(n):
            name = f"node-{i:02d}"
            labels = {HOST: name}
            if not self.p(.08):
                labels[ZONE] = f"z{r.randrange(zones)}"
            if self.p(.7):
                labels[RACK] = f"r{r.randrange(5)}"
            if self.p(.3):
                labels[REGION] = r.choice(["eu", "us"])
            if self.p(.6):
                labels["disk"] = r.choice(["ssd", "hdd", "nvme"])
            if self.p(.6):
                labels["cores"] = r.choice(["4", "8", "16", "32", "-1", "007", "many", "9223372036854775807", ""])
            if self.p(.4):
                labels["arch"] = r.choice(["amd64", "arm64"])
            if self.p(.2):
                labels["gpu"] = ""
            if self.p(.03):
                del labels[HOST]
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                    "spec": {}, "status": {"allocatable": {
                        "cpu": r.choice(["2", "4", "4", "8", "3500m"]),
                        "memory": r.choice(["4Gi", "8Gi", "16Gi", "7000Mi"]),
                        "pods": r.choice(["110", "110", "110", "4"]),
                        "ephemeral-storage": "50Gi"}}}
            node["status"]["capacity"] = dict(node["status"]["allocatable"])
            if self.p(.12):
                node["spec"]["taints"] = [{"key": r.choice(["dedicated", "flaky"]),
                                           "value": r.choice(["a", "b"]),
                                           "effect": r.choice(["NoSchedule", "PreferNoSchedule", "NoExecute"])}
                                          for _ in range(r.randint(1, 2))]
                seen, uniq = set(), []
                for t in node["spec"]["taints"]:
                    if (t["key"], t["effect"]) not in seen:
                        seen.add((t["key"], t["effect"]))
                        uniq.append(t)
                node["spec"]["taints"] = uniq
            if self.p(.05):
                node["spec"]["unschedulable"] = True
            if self.p(.15):
                node["status"]["images"] = [{"names": [f"registry.example/{a}:1"], "sizeBytes": r.choice([30, 200, 700]) * 1 << 20}
                                            for a in r.sample(APPS, r.randint(1, 3))]
            out.append(node)
        return out

    def namespaces(self):
        out = []
        for n in NSS:
            labels = {"kubernetes.io/metadata.name": n}
            if self.p(.6):
                labels["team"] = self.r.choice(["devops", "data", "web"])
            out.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n, "labels": labels}})
        return out

    # ---- selectors -------------------------------------------------------
    def node_req(self):
        r = self.r
        key = r.choice([ZONE, RACK, "disk", "cores", "arch", "gpu", REGION, "missing", HOST])
        op = r.choice(["In", "NotIn", "Exists", "DoesNotExist", "In", "Gt", "Lt"])
        if op in ("Gt", "Lt"):
            if self.p(.8):
                key = "cores"
            return {"key": key, "operator": op, "values": [r.choice(["3", "7", "8", "16", "0", "9223372036854775806"] + (["-2"] if self.p(.05) else []))]}
        if op in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": op}
        vals = {ZONE: ["z0", "z1", "z2"], RACK: ["r0", "r1", "r2", "r3"], "disk": ["ssd", "hdd", "nvme"],
                "cores": ["4", "8", "16", "many", ""], "arch": ["amd64", "arm64"], "gpu": ["", "x"],
                REGION: ["eu", "us"], "missing": ["q"], HOST: ["node-00", "node-01", "node-02", "node-05"]}[key]
        return {"key": key, "operator": op, "values": r.sample(vals, r.randint(1, min(3, len(vals))))}

    def node_term(self):
        t = {}
        x = self.r.random()
        if x < .06:
            return t
        if x < .9:
            t["matchExpressions"] = [self.node_req() for _ in range(self.r.choice([1, 1, 1, 2, 3]))]
        if x > .85:
            t["matchFields"] = [{"key": "metadata.name", "operator": self.r.choice(["In", "In", "NotIn"]),
                                 "values": [f"node-{self.r.randrange(8):02d}"]}]
        return t

    def node_affinity(self):
        a = {}
        if self.p(.6):
            a["requiredDuringSchedulingIgnoredDuringExecution"] = {
                "nodeSelectorTerms": [self.node_term() for _ in range(self.r.choice([1, 1, 2, 3]))]}
        if self.p(.6) or not a:
            a["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": self.r.choice([1, 5, 10, 50, 100]), "preference": self.node_term()}
                for _ in range(self.r.choice([1, 1, 2, 4]))]
        return a

    def label_selector(self, allow_null=True):
        r, x = self.r, self.r.random()
        if allow_null and x < .03:
            return None
        if x < .08:
            return {}
        s = {}
        if x < .6:
            s["matchLabels"] = {"app": r.choice(APPS)}
            if self.p(.2):
                s["matchLabels"]["tier"] = r.choice(["fe", "be"])
        if x > .5:
            reqs = []
            for _ in range(r.choice([1, 1, 2])):
                key = r.choice(["app", "tier", "ver", "nokey"])
                op = r.choice(["In", "NotIn", "Exists", "DoesNotExist"])
                q = {"key": key, "operator": op}
                if op in ("In", "NotIn"):
                    vals = {"app": APPS, "tier": ["fe", "be", "mid"], "ver": ["1", "2", "3"], "nokey": ["a"]}[key]
                    q["values"] = r.sample(vals, r.randint(1, min(2, len(vals))))
                reqs.append(q)
            s["matchExpressions"] = reqs
        return s

    def pod_term(self):
        r = self.r
        t = {"topologyKey": r.choice([HOST, HOST, ZONE, ZONE, RACK, REGION, "missing"])}
        s = self.label_selector()
        if s is not None:
            t["labelSelector"] = s
        if self.p(.25):
            t["namespaces"] = r.sample(NSS, r.randint(1, 2))
        if self.p(.2):
            t["namespaceSelector"] = r.choice([{}, {"matchLabels": {"team": "devops"}},
                                               {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
                                               {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["data"]}]}])
        if "labelSelector" in t and self.p(.12):
            t[r.choice(["matchLabelKeys", "mismatchLabelKeys"])] = [r.choice(["pod-template-hash", "tenant"])]
        return t

    def pod_affinity(self, dens=.5):
        a = {}
        if self.p(dens):
            a["requiredDuringSchedulingIgnoredDuringExecution"] = [self.pod_term() for _ in range(self.r.choice([1, 1, 1, 2]))]
        if self.p(dens) or not a:
            a["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": self.r.choice([1, 10, 33, 100]), "podAffinityTerm": self.pod_term()}
                for _ in range(self.r.choice([1, 1, 2, 3]))]
        return a

    def spread(self):
        r, out, seen = self.r, [], set()
        for _ in range(r.choice([1, 1, 2, 3])):
            c = {"maxSkew": r.choice([1, 1, 2, 3]), "topologyKey": r.choice([HOST, ZONE, ZONE, RACK, "missing"]),
                 "whenUnsatisfiable": r.choice(["DoNotSchedule", "ScheduleAnyway"])}
            if (c["topologyKey"], c["whenUnsatisfiable"]) in seen:
                continue
            seen.add((c["topologyKey"], c["whenUnsatisfiable"]))
            s = self.label_selector()
            if s is not None:
                c["labelSelector"] = s
                if self.p(.15):
                    c["matchLabelKeys"] = ["pod-template-hash"]
            if c["whenUnsatisfiable"] == "DoNotSchedule" and self.p(.25):
                c["minDomains"] = r.randint(1, 5)
            if self.p(.2):
                c["nodeAffinityPolicy"] = r.choice(["Honor", "Ignore"])
            if self.p(.2):
                c["nodeTaintsPolicy"] = r.choice(["Honor", "Ignore"])
            out.append(c)
        return out

    # ---- pods ------------------------------------------------------------
    def pod(self, name, want=(), node=None, ns=None):
        r = self.r
        app = r.choice(APPS)
        labels = {"app": app}
        if self.p(.5):
            labels["tier"] = r.choice(["fe", "be"])
        if self.p(.5):
            labels["ver"] = r.choice(["1", "2", "3"])
        if self.p(.4):
            labels["pod-template-hash"] = r.choice(["h1", "h2"])
        if self.p(.2):
            labels["tenant"] = r.choice(["t1", "t2"])
        if self.p(.05):
            labels = {}
        spec = {"containers": [{"name": "c", "image": f"registry.example/{app}:1"}]}
        c = spec["containers"][0]
        if self.p(.6):
            req = {}
            if self.p(.9):
                req["cpu"] = r.choice(["50m", "100m", "250m", "1", "1500m"])
            if self.p(.8):
                req["memory"] = r.choice(["64Mi", "200Mi", "1Gi", "1500Mi"])
            c["resources"] = {"requests": req}
        if self.p(.08) or ("ports" in want and self.p(.6)):
            c["ports"] = [{"containerPort": 80, "hostPort": r.choice([80, 8080]),
                           "protocol": r.choice(["TCP", "UDP"])}]
            if self.p(.3):
                c["ports"][0]["hostIP"] = r.choice(["127.0.0.1", "10.0.0.1"])
        aff = {}
        if "na" in want:
            aff["nodeAffinity"] = self.node_affinity()
        if "pa" in want:
            aff["podAffinity"] = self.pod_affinity()
        if "paa" in want:
            aff["podAntiAffinity"] = self.pod_affinity()
        if aff:
            spec["affinity"] = aff
        if "ns" in want:
            spec["nodeSelector"] = r.choice([{"disk": "ssd"}, {ZONE: "z0"}, {"arch": "amd64", "disk": "hdd"}, {"gpu": ""}, {"nope": "x"}])
        if "spread" in want:
            spec["topologySpreadConstraints"] = self.spread()
        if self.p(.15) or "tol" in want:
            spec["tolerations"] = [r.choice([
                {"operator": "Exists"}, {"key": "dedicated", "operator": "Exists"},
                {"key": "dedicated", "operator": "Equal", "value": "a", "effect": "NoSchedule"},
                {"key": "flaky", "operator": "Equal", "value": "b"}])]
        if "init" in want and self.p(.5):
            spec["initContainers"] = [{"name": "i", "image": "registry.example/init:1",
                                       "resources": {"requests": {"cpu": "2", "memory": "100Mi"}}}]
            if self.p(.4):
                spec["initContainers"][0]["restartPolicy"] = "Always"
        if "overhead" in want and self.p(.3):
            spec["overhead"] = {"cpu": "100m", "memory": "50Mi"}
        if node:
            spec["nodeName"] = node
        pod = {"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": name, "namespace": ns or r.choice(NSS), "uid": f"uid-{name}", "labels": labels},
               "spec": spec}
        if node and self.p(.04):
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return pod

    def existing(self, nodes, k, want_p):
        out = []
        for i in range(k):
            want = [w for w, pr in want_p.items() if self.p(pr)]
            out.append(self.pod(f"e-{i:03d}", want, node=self.r.choice(nodes)["metadata"]["name"]))
        return out

    @staticmethod
    def without_shared_ports(pods):
        """kube-scheduler does not count the pods of a host port: it is free when one of them goes."""
        taken = set()
        for q in pods:
            for c in q["spec"]["containers"]:
                for port in c.get("ports", []):
                    key = (q["spec"].get("nodeName"), port.get("hostPort"), port.get("protocol"))
                    if port.get("hostPort") and key in taken:
                        del c["ports"]
                        break
                    taken.add(key)
        return pods

    # ---- suites ----------------------------------------------------------
    def base(self, name, nodes, pods, pending):
        return {"name": name, "namespaces": self.namespaces(), "nodes": nodes, "pods": pods, "pending": pending}

    def nodeaffinity(self, name):
        nodes = self.nodes()
        pend = [self.pod(f"p-{i}", [w for w in ("na", "ns") if w == "na" or self.p(.3)]) for i in range(self.r.randint(1, 4))]
        return self.base(name, nodes, self.existing(nodes, self.r.randint(0, 10), {}), pend)

    def interpod(self, name):
        nodes = self.nodes()
        pods = self.existing(nodes, self.r.randint(0, 40), {"pa": .25, "paa": .25})
        pend = []
        for i in range(self.r.randint(1, 6)):
            want = [w for w, pr in (("pa", .5), ("paa", .5), ("na", .15)) if self.p(pr)]
            pend.append(self.pod(f"p-{i}", want))
        if self.p(.25):   # a self-affine group, the first-pod rule
            app = self.r.choice(APPS)
            for i in range(3):
                q = self.pod(f"g-{i}", ns="team-a")
                q["metadata"]["labels"] = {"app": app, "grp": "g"}
                q["spec"].setdefault("affinity", {})["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"grp": "g"}}, "topologyKey": self.r.choice([ZONE, HOST, RACK])}]}
                pend.append(q)
        return self.base(name, nodes, pods, pend)

    def spreading(self, name):
        nodes = self.nodes(3, 12)
        pods = self.existing(nodes, self.r.randint(0, 40), {"paa": .05})
        pend = [self.pod(f"p-{i}", [w for w, pr in (("spread", .9), ("na", .25), ("tol", .2)) if self.p(pr)])
                for i in range(self.r.randint(1, 6))]
        return self.base(name, nodes, pods, pend)

    def resources(self, name):
        nodes = self.nodes(2, 8)
        pods = self.existing(nodes, self.r.randint(0, 25), {"init": .3, "overhead": .3, "ports": .3})
        pend = [self.pod(f"p-{i}", [w for w, pr in (("init", .4), ("overhead", .3), ("ports", .4), ("tol", .3)) if self.p(pr)])
                for i in range(self.r.randint(1, 6))]
        if self.p(.2):
            pend[0]["spec"]["containers"][0].setdefault("resources", {}).setdefault("requests", {})["example.com/gpu"] = "1"
            pend[0]["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": "1"}
            for n in nodes:
                if self.p(.4):
                    n["status"]["allocatable"]["example.com/gpu"] = "2"
        return self.base(name, nodes, pods, pend)

    def profiles(self, name):
        s = self.mixed(name)
        r = self.r
        args = []
        if self.p(.6):
            ipa = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "InterPodAffinityArgs"}
            ipa["hardPodAffinityWeight"] = r.choice([0, 1, 50, 100])
            if self.p(.5):
                ipa["ignorePreferredTermsOfExistingPods"] = True
            args.append({"name": "InterPodAffinity", "args": ipa})
        if self.p(.6):
            na = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeAffinityArgs", "addedAffinity": self.node_affinity()}
            args.append({"name": "NodeAffinity", "args": na})
        if self.p(.3):
            args.append({"name": "NodeResourcesFit", "args": {
                "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeResourcesFitArgs",
                "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 2}, {"name": "memory", "weight": 1}]}}})
        if self.p(.3):
            args.append({"name": "PodTopologySpread", "args": {
                "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "PodTopologySpreadArgs", "defaultingType": "List",
                "defaultConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}]}})
        prof = {"schedulerName": "default-scheduler", "pluginConfig": args}
        if self.p(.4):
            prof["plugins"] = {"multiPoint": {"disabled": [{"name": r.choice(["PodTopologySpread", "ImageLocality", "TaintToleration"])}]}}
        if self.p(.4):
            prof.setdefault("plugins", {})["score"] = {
                "disabled": [{"name": "InterPodAffinity"}],
                "enabled": [{"name": "InterPodAffinity", "weight": r.choice([1, 7, 20])}]}
        profs = [prof]
        if self.p(.5):
            profs.append({"schedulerName": "foo-scheduler", "pluginConfig": [{"name": "NodeAffinity", "args": {
                "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeAffinityArgs", "addedAffinity": self.node_affinity()}}]})
            for p in s["pending"]:
                if self.p(.4):
                    p["spec"]["schedulerName"] = "foo-scheduler"
        s["config"] = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": profs}
        if self.p(.5):
            s["services"] = [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"svc-{a}", "namespace": ns},
                              "spec": {"selector": {"app": a}}} for a in APPS[:3] for ns in NSS[:3]]
        return s

    def mixed(self, name):
        nodes = self.nodes(3, 20)
        pods = self.existing(nodes, self.r.randint(0, 60), {"pa": .15, "paa": .15, "na": .1, "spread": .1})
        pend = []
        for i in range(self.r.randint(2, 10)):
            want = [w for w, pr in (("pa", .35), ("paa", .35), ("na", .35), ("spread", .35), ("ns", .1), ("tol", .2),
                                    ("init", .1), ("overhead", .1)) if self.p(pr)]
            pend.append(self.pod(f"p-{i}", want))
        return self.base(name, nodes, pods, pend)

    def break_something(self, pod):
        r = self.r
        na = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "k", "operator": "In", "values": ["v"]}]}]}}
        term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}
        k = r.randrange(22)
        a = pod["spec"].setdefault("affinity", {})
        req = na["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]["matchExpressions"][0]
        if k == 0: req["operator"] = "Like"
        elif k == 1: req["values"] = []
        elif k == 2: req.update(operator="Exists")
        elif k == 3: req.update(operator="Gt", values=["1", "2"])
        elif k == 4: req.update(operator="Lt", values=["abc"])
        elif k == 5: req["key"] = "bad key!"
        elif k == 6: na["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] = []
        elif k == 7: na["preferredDuringSchedulingIgnoredDuringExecution"] = [{"weight": r.choice([0, 101, -1]), "preference": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}]
        elif k == 8: na["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0] = {"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["x"]}]}
        elif k == 9: na["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0] = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x", "y"]}]}
        elif k == 10: term["topologyKey"] = ""
        elif k == 11: term["topologyKey"] = "bad key"
        elif k == 12: term["labelSelector"] = {"matchExpressions": [{"key": "app", "operator": "Gt", "values": ["1"]}]}
        elif k == 13: term["namespaces"] = ["Bad_NS"]
        elif k == 14: term["namespaceSelector"] = {"matchExpressions": [{"key": "x", "operator": "In", "values": []}]}
        elif k == 15: term["matchLabelKeys"], term["mismatchLabelKeys"] = ["app2"], ["app2"]
        elif k == 16: term["matchLabelKeys"] = ["app"]
        elif k == 17: term["matchLabelKeys"] = ["app2"]; del term["labelSelector"]
        elif k == 18: pod["spec"]["topologySpreadConstraints"] = [{"maxSkew": 0, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
        elif k == 19: pod["spec"]["topologySpreadConstraints"] = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}]
        elif k == 20: pod["spec"]["topologySpreadConstraints"] = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}] * 2
        elif k == 21: pod["spec"]["nodeSelector"] = {"bad key": "v", "ok": "bad value!"}
        if k < 10:
            a["nodeAffinity"] = na
        elif k < 18:
            where = r.choice(["podAffinity", "podAntiAffinity"])
            if self.p(.5):
                a[where] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            else:
                a[where] = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": r.choice([1, 0, 200]) if self.p(.3) else 5, "podAffinityTerm": term}]}
        if not a:
            del pod["spec"]["affinity"]

    def admission(self, name):
        nodes = self.nodes(2, 4)
        pend = []
        for i in range(6):
            p = self.pod(f"p-{i}", [w for w, pr in (("pa", .3), ("paa", .3), ("na", .3), ("spread", .3)) if self.p(pr)])
            for _ in range(self.r.choice([0, 1, 1, 2])):
                self.break_something(p)
            pend.append(p)
        return self.base(name, nodes, [], pend)


    # ---- preemption --------------------------------------------------------
    def hard_terms(self, key=None, apps=APPS):
        r, out = self.r, []
        for _ in range(r.choice([1, 1, 1, 2])):
            t = {"topologyKey": key or r.choice([HOST, HOST, HOST, ZONE, RACK]),
                 "labelSelector": {"matchLabels": {"app": r.choice(apps)}}}
            if self.p(.5):
                t["namespaceSelector"] = {}
            out.append(t)
        return {"requiredDuringSchedulingIgnoredDuringExecution": out}

    def sized(self, pod, cpu, memory=None):
        req = {"cpu": cpu}
        if memory:
            req["memory"] = memory
        pod["spec"]["containers"][0]["resources"] = {"requests": req}
        return pod

    def milli(self, cpu):
        return int(cpu[:-1]) if cpu.endswith("m") else 1000 * int(cpu)

    def preemption(self, name):
        r = self.r
        nodes = self.nodes(2, 8)
        twins, nss = self.p(.3), r.sample(NSS, r.randint(1, 2))
        light = self.p(.45)     # resources do not matter, the other rules do
        apps = r.sample(APPS, 2) if light else APPS
        sizes = ["50m", "100m"] if light else ["100m", "250m", "400m", "500m", "900m", "1"]
        cpus = [r.choice(["1", "2", "3", "4"])] if twins or self.p(.3) else ["1", "2", "2", "3", "4"]
        for n in nodes:
            n["status"]["allocatable"] = {"cpu": r.choice(cpus), "memory": r.choice(["4Gi", "8Gi"]),
                                          "pods": r.choice(["110", "110", "110", "110", "4"]), "ephemeral-storage": "50Gi"}
            n["status"]["capacity"] = dict(n["status"]["allocatable"])
            if self.p(.5):
                n["spec"].pop("taints", None)
                n["spec"].pop("unschedulable", None)
        prios = r.choice([[0, 10, 100, 1000], [0, 0, 0, 100], [-10, 0, 10], [0], [100, 200, 300, 1000000]])
        shape = [(r.choice(prios), r.choice(sizes), minute, r.choice(apps))
                 for minute in r.sample(range(30), 6)]
        pods = []
        for n in nodes:
            if self.p(.06):
                continue
            free, room = self.milli(n["status"]["allocatable"]["cpu"]), int(n["status"]["allocatable"]["pods"])
            mine = shape[:r.choice([6, 6, 6, 4])] if twins else [
                (r.choice(prios), r.choice(sizes if light else sizes + ["2"]), minute, r.choice(apps))
                for minute in r.sample(range(30), r.randint(1, 7))]
            for prio, cpu, minute, app in mine:
                if self.milli(cpu) > free or room == 0:
                    continue
                free, room = free - self.milli(cpu), room - 1
                want = [w for w, pr in (("ports", .5 if light else .1), ("spread", .04)) if self.p(pr)]
                q = self.sized(self.pod(f"e-{len(pods):03d}", want, node=n["metadata"]["name"], ns=r.choice(nss)), cpu)
                if q["metadata"]["labels"]:
                    q["metadata"]["labels"]["app"] = app
                if self.p(.1):
                    q["spec"].setdefault("affinity", {})["podAntiAffinity"] = self.hard_terms(apps=apps)
                if self.p(.95):
                    q["spec"]["priority"] = prio
                q["status"] = {"startTime": f"2026-01-01T{r.choice([9, 9, 10]) if not twins else 9:02d}:{minute:02d}:00Z"}
                pods.append(q)
        pend, top = [], r.choice([[1000], [50, 100, 1000], [0, 100], [2000000000, 500]])
        for i in range(r.randint(2, 6)):
            want = [w for w, pr in (("na", .1), ("ns", .05), ("spread", .15), ("tol", .2), ("ports", .6 if light else .15)) if self.p(pr)]
            q = self.sized(self.pod(f"p-{i}", want, ns=r.choice(nss)),
                           r.choice(sizes if light else ["100m", "500m", "900m", "1", "1500m", "2", "3"]),
                           r.choice([None, "1Gi"] if light else [None, "1Gi", "3Gi"]))
            if light and q["metadata"]["labels"]:
                q["metadata"]["labels"]["app"] = r.choice(apps)
            if self.p(.5 if light else .3):
                q["spec"].setdefault("affinity", {})["podAntiAffinity"] = self.hard_terms(HOST if light and self.p(.6) else None, apps)
            if self.p(.12):
                q["spec"].setdefault("affinity", {})["podAffinity"] = self.hard_terms(r.choice([ZONE, HOST]), apps)
            if self.p(.35 if light else .1):
                q["spec"].setdefault("topologySpreadConstraints", []).append(
                    {"maxSkew": 1, "topologyKey": RACK if "spread" in want else HOST, "whenUnsatisfiable": "DoNotSchedule",
                     "minDomains": r.choice([1, 3, 9]), "labelSelector": {"matchLabels": {"app": r.choice(apps)}}})
                seen = [(c["topologyKey"], c["whenUnsatisfiable"]) for c in q["spec"]["topologySpreadConstraints"]]
                if len(set(seen)) < len(seen):
                    q["spec"]["topologySpreadConstraints"].pop()
            q["spec"]["priority"] = r.choice(top)
            if self.p(.08):
                q["spec"]["preemptionPolicy"] = "Never"
            pend.append(q)
        s = self.base(name, nodes, pods, pend)
        s["preemption"] = True
        if self.p(.65):
            s["pdbs"] = []
            for i in range(r.randint(1, 4)):
                sel = r.choice([{"matchLabels": {"app": r.choice(APPS)}}, {"matchLabels": {"app": r.choice(APPS)}},
                                {"matchExpressions": [{"key": "app", "operator": "In", "values": r.sample(APPS, 3)}]},
                                {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, {}, None])
                allowed = r.choice([0, 0, 0, 1, 1, 2])
                b = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                     "metadata": {"name": f"pdb-{i}", "namespace": r.choice(nss)}, "spec": {"maxUnavailable": 1},
                     "status": {"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 3 - allowed, "expectedPods": 3}}
                if sel is not None:
                    b["spec"]["selector"] = sel
                if pods and self.p(.2):
                    b["status"]["disruptedPods"] = {r.choice(pods)["metadata"]["name"]: "2026-01-01T12:00:00Z"}
                s["pdbs"].append(b)
        if self.p(.25):
            s["nominated"] = []
            for i in range(r.randint(1, 2)):
                q = self.sized(self.pod(f"n-{i}", ns=r.choice(nss)), r.choice(["500m", "1"]))
                q["spec"]["priority"] = r.choice([0, 100, 1000, 3000])
                if self.p(.3):
                    q["spec"].setdefault("affinity", {})["podAntiAffinity"] = self.hard_terms(HOST)
                q["status"] = {"nominatedNodeName": r.choice(nodes)["metadata"]["name"]}
                s["nominated"].append(q)
        self.without_shared_ports(pods)
        return s


    # ---- volumes -------------------------------------------------------------
    def volumes(self, name):
        r = self.r
        GCE, EBS, CSI, CAP = "pd.csi.storage.gke.io", "ebs.csi.aws.com", "csi.example.com", "cap.example.com"
        OLD = "failure-domain.beta.kubernetes.io/"
        nodes, objs = self.nodes(3, 9), []
        nss = r.sample(NSS, r.randint(1, 2))
        migrated, topo = self.p(.6), self.p(.7)
        for n in nodes:
            n["status"]["allocatable"] = {"cpu": "16", "memory": "32Gi", "pods": "110", "ephemeral-storage": "50Gi"}
            n["status"]["capacity"] = dict(n["status"]["allocatable"])
            labels = n["metadata"]["labels"]
            if ZONE in labels and topo and self.p(.9):
                labels["topology.gke.io/zone"] = labels["topology.ebs.csi.aws.com/zone"] = labels[ZONE]
            if ZONE in labels and self.p(.15):
                labels[OLD + "zone"] = labels[ZONE]
                if self.p(.5):
                    del labels[ZONE]
        names = [n["metadata"]["name"] for n in nodes]
        zones = sorted({n["metadata"]["labels"].get(ZONE) for n in nodes} - {None}) or ["z0"]

        def obj(kind, api, nm, ns=None, **rest):
            o = {"apiVersion": api, "kind": kind, "metadata": {"name": nm, "uid": f"uid-{kind.lower()}-{ns or ''}-{nm}"}}
            if ns:
                o["metadata"]["namespace"] = ns
            o.update(rest)
            objs.append(o)
            return o

        # what the nodes' drivers say
        limit = r.choice([1, 2, 2, 3, 25])
        for n in names:
            if self.p(.85):
                drivers = []
                for d in (CSI, CAP, GCE, EBS):
                    if self.p(.8):
                        e = {"name": d, "nodeID": n, "topologyKeys": []}
                        if self.p(.75):
                            e["allocatable"] = {"count": max(0, limit + r.choice([0, 0, 0, 1, -1]))}
                        elif self.p(.2):
                            e["allocatable"] = {}
                        drivers.append(e)
                o = obj("CSINode", "storage.k8s.io/v1", n, spec={"drivers": drivers})
                if migrated and self.p(.9):
                    o["metadata"]["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins":
                                                    r.choice(["kubernetes.io/gce-pd,kubernetes.io/aws-ebs", "kubernetes.io/gce-pd"])}
        obj("CSIDriver", "storage.k8s.io/v1", CSI, spec={"attachRequired": True})
        if self.p(.9):
            obj("CSIDriver", "storage.k8s.io/v1", CAP, spec={"attachRequired": True, "storageCapacity": self.p(.9)})

        def topology():
            key = r.choice([ZONE, ZONE, ZONE, HOST, OLD + "zone"])
            return {"key": key, "values": r.sample(names, min(3, len(names))) if key == HOST else r.sample(zones, r.randint(1, len(zones)))}

        def cls(nm, provisioner, mode, allowed=0.):
            o = obj("StorageClass", "storage.k8s.io/v1", nm, provisioner=provisioner, volumeBindingMode=mode, reclaimPolicy="Delete")
            if self.p(allowed):
                terms = []
                for _ in range(r.choice([1, 1, 2])):
                    by_key = {t["key"]: t for t in [topology() for _ in range(r.choice([1, 1, 1, 2]))]}
                    t = {"matchLabelExpressions": [{"key": k, "values": sorted(by_key[k]["values"])} for k in sorted(by_key)]}
                    if t not in terms:
                        terms.append(t)
                o["allowedTopologies"] = terms
        W = "WaitForFirstConsumer"
        cls("local", "kubernetes.io/no-provisioner", W)
        cls("fast", CSI, W, .5)
        cls("cap", CAP, W, .15)
        cls("gce", "kubernetes.io/gce-pd", W, .2)
        cls("ebs", "kubernetes.io/aws-ebs", r.choice([W, "Immediate"]))
        cls("imm", CSI, "Immediate")
        for i in range(r.randint(0, 5)):
            o = obj("CSIStorageCapacity", "storage.k8s.io/v1", f"cap-{i}", "kube-system", storageClassName=r.choice(["cap", "cap", "cap", "fast"]))
            o["capacity"] = r.choice(["3Gi", "10Gi", "40Gi", "0"])
            bare = self.p(.15)  # the generator once left the capacity out; the draw stays, so that seeds give what they gave
            if bare:
                o["capacity"] = "0"
            if self.p(.3):
                o["maximumVolumeSize"] = r.choice(["2Gi", "12Gi", "50Gi"])
            if self.p(.9):
                o["nodeTopology"] = r.choice([{"matchLabels": {ZONE: r.choice(zones)}}, {"matchLabels": {ZONE: r.choice(zones)}},
                                              {"matchExpressions": [{"key": HOST, "operator": "In", "values": r.sample(names, 2)}]}, {}])

        def node_terms():
            x = r.random()
            if x < .35:
                return [{"matchExpressions": [{"key": HOST, "operator": "In", "values": r.sample(names, r.choice([1, 2, 3]))}]}]
            if x < .85:
                return [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": r.sample(zones, r.choice([1, min(2, len(zones))]))}]}]
            reqs = [self.node_req() for _ in range(r.choice([1, 2]))]
            return [{"matchExpressions": [q]} for q in reqs if q.get("values") != ["-2"]] or \
                   [{"matchExpressions": [{"key": HOST, "operator": "Exists"}]}]

        # volumes waiting for claims; sizes differ, so that the smallest one that fits is one
        sizes = {c: r.sample(range(1, 40), 14) for c in ("local", "fast", "gce", "")}
        pvs = []
        for i in range(r.choice([0, 2, 6, 10, 14, 14])):
            c = r.choice(["local", "local", "local", "local", "fast", "gce", ""])
            modes = r.choice([["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"], ["ReadWriteMany"], ["ReadWriteOncePod"]])
            pv = obj("PersistentVolume", "v1", f"pv-{i:02d}", spec={
                "capacity": {"storage": f"{sizes[c].pop()}Gi"}, "accessModes": modes, "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": c, "volumeMode": "Block" if self.p(.1) else "Filesystem"})
            pv["status"] = {"phase": r.choice(["Available"] * 9 + ["Released", "Pending"])}
            if c == "local":
                pv["spec"]["local"] = {"path": f"/mnt/{i}"}
                pv["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": node_terms()}}
            elif c == "gce":
                pv["spec"]["gcePersistentDisk"] = {"pdName": f"pd-{r.randrange(6)}"}
            else:
                pv["spec"]["csi"] = {"driver": CSI, "volumeHandle": f"h-{i}"}
                if self.p(.5):
                    pv["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": node_terms()}}
            if self.p(.5):
                pv["metadata"]["labels"] = {"tier": r.choice(["gold", "silver"])}
            if self.p(.03):
                pv["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
                pv["metadata"]["finalizers"] = ["kubernetes.io/pv-protection"]
            pvs.append(pv)

        claims = {ns: [] for ns in nss}
        prebound = [pv for pv in pvs if pv["status"]["phase"] == "Available" and self.p(.15)]

        def claim(nm, ns, kind=None, owner=None):
            kind = kind or r.choice(["bound"] * 12 + ["local"] * 11 + ["fast"] * 6 + ["cap"] * 5 + ["gce"] * 3 + ["rwop"] * 3 +
                                    ["ebs", "selected", "imm", "noclass", "unknown", "lost", "deleting", "half", "nopv"])
            modes = r.choice([["ReadWriteOnce"]] * 6 + [["ReadWriteMany"], ["ReadOnlyMany"]])
            o = obj("PersistentVolumeClaim", "v1", nm, ns, spec={"accessModes": modes, "volumeMode": "Filesystem", "resources": {
                "requests": {"storage": f"{r.choice([1, 1, 2, 4, 6, 11, 20])}Gi"}}})
            sp = o["spec"]
            sp["storageClassName"] = {"bound": r.choice(["local", "fast", "gce", "imm"]), "rwop": r.choice(["fast", "imm"]), "selected": r.choice(["fast", "cap"]),
                                      "noclass": "", "unknown": "nowhere", "lost": "fast", "deleting": "fast", "half": "fast", "nopv": "fast"}.get(kind, kind)
            o["status"] = {"phase": "Pending"}
            if kind in ("rwop",):
                sp["accessModes"] = ["ReadWriteOncePod"]
            if kind == "local" and self.p(.25):
                sp["selector"] = r.choice([{"matchLabels": {"tier": "gold"}}, {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}])
            if kind in ("local", "fast") and self.p(.08):
                sp["volumeMode"] = "Block"
            if kind == "selected":
                o["metadata"].setdefault("annotations", {})["volume.kubernetes.io/selected-node"] = r.choice(names)
            if kind == "lost":
                sp["volumeName"] = "pv-lost"
                o["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
                o["status"]["phase"] = "Lost"
            if kind == "deleting":
                o["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["kubernetes.io/pvc-protection"])
            if kind == "nopv":
                sp["volumeName"] = "pv-gone"
                o["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
                o["status"]["phase"] = "Bound"
            if kind in ("bound", "half") or (kind == "rwop" and self.p(.7)):
                pvn = f"b-{len(objs):03d}"
                sp["volumeName"] = pvn
                pv = obj("PersistentVolume", "v1", pvn, spec={
                    "capacity": {"storage": "40Gi"}, "accessModes": sp["accessModes"], "persistentVolumeReclaimPolicy": "Delete",
                    "storageClassName": sp["storageClassName"], "volumeMode": sp["volumeMode"],
                    "claimRef": {"kind": "PersistentVolumeClaim", "namespace": ns, "name": nm, "uid": o["metadata"]["uid"]}})
                pv["status"] = {"phase": "Bound"}
                if kind != "half":
                    o["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
                    o["status"]["phase"] = "Bound"
                src = r.choice(["csi", "csi", "csi", "gce", "gce", "ebs", "local", "nfs"])
                if src == "csi":
                    pv["spec"]["csi"] = {"driver": r.choice([CSI, CSI, CSI, EBS]), "volumeHandle": f"h-b{len(objs)}"}
                elif src == "gce":
                    pv["spec"]["gcePersistentDisk"] = {"pdName": f"pd-{r.randrange(6)}"}
                elif src == "ebs":
                    pv["spec"]["awsElasticBlockStore"] = {"volumeID": f"vol-0{r.randrange(6)}"}
                elif src == "local":
                    pv["spec"]["local"] = {"path": "/mnt/x"}
                else:
                    pv["spec"]["nfs"] = {"server": "nfs.example", "path": "/"}
                if src == "local" or self.p(.3):
                    pv["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": node_terms()}}
                elif self.p(.6):
                    z = r.choice(zones) if src in ("gce", "ebs") or self.p(.6) else "__".join(r.sample(zones, min(2, len(zones))))
                    pv["metadata"]["labels"] = {r.choice([ZONE, OLD + "zone"]): z}
                    if self.p(.2):
                        pv["metadata"]["labels"][r.choice([REGION, OLD + "region"])] = r.choice(["eu", "us"])
            if owner:
                o["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}",
                                                     "controller": True, "blockOwnerDeletion": True}]
            if sp.get("volumeName") is None and prebound and sp["storageClassName"] == prebound[-1]["spec"]["storageClassName"]:
                pv = prebound.pop()
                pv["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": ns, "name": nm}
                if self.p(.5):
                    pv["spec"]["claimRef"]["uid"] = o["metadata"]["uid"] if self.p(.7) else "uid-another"
            return o

        for i in range(r.randint(4, 14)):
            ns = r.choice(nss)
            claim(f"c-{i}", ns)
            claims[ns].append(f"c-{i}")

        used = {ns: [] for ns in nss}

        def add_volumes(pod, count, pending):
            ns, vols = pod["metadata"]["namespace"], []
            for i in range(count):
                v, x = {"name": f"v{i}"}, r.random()
                if x < (.62 if pending else .4) and claims[ns]:
                    again = [c for c in used[ns] if c in claims[ns]]
                    c = r.choice(again) if again and self.p(.35) else r.choice(claims[ns])
                    if any(w.get("persistentVolumeClaim", {}).get("claimName") == c for w in vols):
                        continue
                    used[ns].append(c)
                    v["persistentVolumeClaim"] = {"claimName": c if self.p(.985) else "c-missing"}
                elif x < .70:
                    v["gcePersistentDisk"] = {"pdName": f"pd-{r.randrange(3)}", "readOnly": self.p(.4)}
                elif x < .75:
                    v["awsElasticBlockStore"] = {"volumeID": f"vol-0{r.randrange(3)}"}
                elif x < .79:
                    v["iscsi"] = {"targetPortal": "10.0.0.1:3260", "iqn": f"iqn.2001-04.com.example:d{r.randrange(2)}", "lun": 0, "readOnly": self.p(.4)}
                elif x < .83:
                    v["rbd"] = {"monitors": r.sample(["10.0.0.1:6789", "10.0.0.2:6789", "10.0.0.3:6789"], r.randint(1, 2)),
                                "image": f"i{r.randrange(2)}", "readOnly": self.p(.4)}
                    if self.p(.2):
                        v["rbd"]["pool"] = "other"
                elif x < .92:
                    cl = r.choice(["local", "fast", "fast", "cap"])
                    v["ephemeral"] = {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": cl,
                                                                       "resources": {"requests": {"storage": "2Gi"}}}}}
                    nm, y = f"{pod['metadata']['name']}-v{i}", r.random()
                    if not pending or y < .8:
                        claim(nm, ns, r.choice(["bound", cl]), pod["metadata"]["name"])
                    elif y < .9:
                        claim(nm, ns, cl, "another" if self.p(.7) else None)
                else:
                    v.update(r.choice([{"emptyDir": {}}, {"hostPath": {"path": "/var/log"}}, {"configMap": {"name": "cm"}}, {"secret": {"secretName": "s"}},
                                       {"csi": {"driver": "inline.example.com"}}]))
                vols.append(v)
            if vols:
                pod["spec"]["volumes"] = vols
            return pod

        pods = []
        for q in self.existing(nodes, r.randint(0, 20), {"paa": .03}):
            q["metadata"]["namespace"] = r.choice(nss)
            if self.p(.75):
                add_volumes(q, r.choice([1, 1, 2]), False)
                # it runs, so its claims are bound
                for v in q["spec"].get("volumes", []):
                    nm = v.get("persistentVolumeClaim", {}).get("claimName") or (f"{q['metadata']['name']}-{v['name']}" if "ephemeral" in v else None)
                    c = next((o for o in objs if o["kind"] == "PersistentVolumeClaim" and o["metadata"]["name"] == nm
                              and o["metadata"]["namespace"] == q["metadata"]["namespace"]), None)
                    if c and c["status"]["phase"] != "Bound" and self.p(.8):
                        q["spec"]["volumes"] = [w for w in q["spec"]["volumes"] if w is not v]
            pods.append(q)
        pend = []
        for i in range(r.randint(2, 7)):
            q = self.pod(f"p-{i}", [w for w, pr in (("na", .12), ("paa", .08), ("spread", .1), ("tol", .2)) if self.p(pr)], ns=r.choice(nss))
            pend.append(add_volumes(q, r.choice([0, 1, 1, 1, 2, 2, 3]), True))
        for i in range(r.choice([0, 0, 1, 3, 5])):
            bound = [o for o in objs if o["kind"] == "PersistentVolume" and "csi" in o["spec"]]
            if bound:
                pv = r.choice(bound)
                obj("VolumeAttachment", "storage.k8s.io/v1", f"va-{i}", spec={"attacher": pv["spec"]["csi"]["driver"], "nodeName": r.choice(names),
                                                                              "source": {"persistentVolumeName": pv["metadata"]["name"]}})
                objs[-1]["status"] = {"attached": self.p(.9)}
        s = self.base(name, nodes, pods, pend)
        s["objects"] = objs
        return s

    # ---- dynamic resource allocation ---------------------------------------
    def dra(self, name):
        r, objs = self.r, []
        GPU, NIC, FAB, TOPO = "gpu.example.com", "nic.example.com", "fabric.example.com", "topology.example.com"
        nodes = self.nodes(2, 7)
        for n in nodes:
            n["status"]["allocatable"]["pods"] = n["status"]["capacity"]["pods"] = "110"
            if self.p(.6):
                n["spec"].pop("taints", None)
            if self.p(.5):
                n["spec"].pop("unschedulable", None)
            n["metadata"]["labels"].setdefault(ZONE, "z0")
        names = [n["metadata"]["name"] for n in nodes]
        zones = sorted({n["metadata"]["labels"][ZONE] for n in nodes})
        nss = r.sample(["default", "team-a", "team-b"], 2)

        def obj(kind, nm, ns=None, **kw):
            o = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": nm}}
            if ns:
                o["metadata"].update(namespace=ns, uid=f"uid-{ns}-{nm}")
            o.update(kw)
            objs.append(o)
            return o

        def cel(*exprs):
            return [{"cel": {"expression": e}} for e in exprs]

        def opaque(driver, what):
            return {"opaque": {"driver": driver, "parameters": {"apiVersion": "config.example.com/v1", "kind": "Settings", "mode": what}}}

        # -- classes
        extended = self.p(.45)
        on = lambda d: f'device.driver == "{d}"'
        spec = {"selectors": cel(on(GPU))}
        if self.p(.3):
            spec["config"] = [opaque(GPU, "class")] + ([opaque(GPU, "more")] if self.p(.3) else [])
        if extended:
            spec["extendedResourceName"] = "example.com/gpu"
        obj("DeviceClass", "gpu", spec=spec)
        obj("DeviceClass", "large", spec={"selectors": cel(on(GPU), f'device.capacity["{GPU}"].memory.compareTo(quantity("{r.choice(["20Gi", "40Gi", "64Gi"])}")) >= 0')})
        obj("DeviceClass", "nic", spec={"selectors": cel(on(NIC)), **({"config": [opaque(NIC, "class")]} if self.p(.4) else {})})
        obj("DeviceClass", "fabric", spec={"selectors": cel(on(FAB))})
        obj("DeviceClass", "part", spec={"selectors": cel(f'{on(GPU)} && device.attributes["{GPU}"].kind == "part"')})
        obj("DeviceClass", "any", spec={})
        obj("DeviceClass", "broken", spec={"selectors": cel(f'{on(GPU)} && device.attributes["{GPU}"].firmware == "1"')})

        # -- slices
        devs = []        # those that an allocated claim may hold

        def qty(v):
            return {"value": v}

        def taint():
            return {"key": r.choice(["example.com/unhealthy", "example.com/reserved"]), "value": r.choice(["", "a", "b"]),
                    "effect": r.choice(["NoSchedule", "NoSchedule", "NoExecute", "None"])}

        def gpu(i, kind="full"):
            at = {"model": {"string": r.choice(["A100", "H100", "T4"])}, "numa": {"int": i % 2}, "kind": {"string": kind},
                  "driverVersion": {"version": r.choice(["1.0.0", "1.2.3", "2.0.0-rc.1", "1.10.0"])}, f"{TOPO}/numa": {"int": i % 2}}
            if self.p(.8):
                at["healthy"] = {"bool": self.p(.7)}
            if self.p(.6):
                at["serial"] = {"string": f"s{r.randrange(4)}"}
            if self.p(.03):
                del at[r.choice(["model", "driverVersion", f"{TOPO}/numa"])]
            d = {"name": f"gpu-{i}", "attributes": at, "capacity": {"memory": qty(r.choice(["16Gi", "40Gi", "80Gi"])), "cores": qty(r.choice(["64", "108", "132"]))}}
            if self.p(.2):
                d["taints"] = [taint() for _ in range(r.choice([1, 1, 2]))]
                if len(d["taints"]) == 2 and d["taints"][0]["key"] == d["taints"][1]["key"] and d["taints"][0]["effect"] == d["taints"][1]["effect"]:
                    d["taints"].pop()
            return d

        def policy(default, rng, values):
            x = r.random()
            if x < .4:
                return {"default": default, "validRange": rng}
            if x < .75:
                return {"default": default, "validValues": values}
            return {"default": default} if x < .85 else None

        def nic(i):
            d = {"name": f"nic-{i}", "attributes": {"speed": {"int": r.choice([10, 25, 100])}, f"{TOPO}/numa": {"int": i % 2}, "rdma": {"bool": self.p(.5)}},
                 "capacity": {"bandwidth": qty(r.choice(["10G", "10G", "8G", "25G"]))}}
            if shared and self.p(.75):
                d["allowMultipleAllocations"] = True
                p = policy("1G", {"min": "1G", **({"max": "8G"} if self.p(.6) else {}), **({"step": "1G"} if self.p(.6) else {})}, ["1G", "2G", "5G"])
                if p:
                    d["capacity"]["bandwidth"]["requestPolicy"] = p
                if self.p(.4):
                    d["capacity"]["queues"] = qty(r.choice(["16", "32"]))
                    p = policy("4", {"min": "4", "step": "4"} if self.p(.5) else {"min": "2", "max": "12"}, ["4", "8"])
                    if p:
                        d["capacity"]["queues"]["requestPolicy"] = p
            if self.p(.12):
                d["taints"] = [taint()]
            return d

        def slices(driver, pool, parts, sel, gen=1, count=None, usable=True):
            for k, part in enumerate(parts):
                nm = f"{r.choice('abcxyz')}-{driver.split('.')[0]}-{pool}-g{gen}-{k}"
                key = "sharedCounters" if part and "counters" in part[0] else "devices"
                sp = {"driver": driver, "pool": {"name": pool, "generation": gen, "resourceSliceCount": count or len(parts)}, **sel, key: part}
                obj("ResourceSlice", nm, spec=sp)
                if key == "devices" and usable:
                    for d in part:
                        devs.append((driver, pool, d, {k2: v for k2, v in d.items() if k2 in ("nodeName", "allNodes", "nodeSelector")} if "perDeviceNodeSelection" in sel else sel))

        def split(l):
            if len(l) > 1 and self.p(.35):
                c = r.randrange(1, len(l))
                return [l[:c], l[c:]]
            return [l]

        shared, parts, updating = self.p(.55), self.p(.5), self.p(.4)
        for n in names:
            if self.p(.88):
                ds = [gpu(i) for i in range(r.choice([1, 2, 3, 4, 4, 6]))]
                sp = split(ds)
                x = r.random()
                if updating and x < .09:
                    slices(GPU, n, sp, {"nodeName": n}, gen=2, count=len(sp) + 1, usable=False)       # not all there yet
                elif updating and x < .35:
                    slices(GPU, n, sp, {"nodeName": n}, gen=2)                                         # the old ones still there
                    slices(GPU, n, [[gpu(i) for i in range(r.choice([1, 5]))]], {"nodeName": n}, gen=1, usable=False)
                elif updating and x < .40:
                    slices(GPU, n, [ds, [dict(ds[0])]], {"nodeName": n}, usable=False)                 # twice the same name
                else:
                    slices(GPU, n, sp, {"nodeName": n})
            if self.p(.6):
                ds = [nic(i) for i in range(r.choice([1, 2, 2, 3]))]
                slices(NIC, n, split(ds), {"nodeName": n})
            if parts and self.p(.6):
                whole = r.choice(["80Gi", "40Gi"])
                sets = [{"name": f"c{k}", "counters": {"memory": qty(whole), "slices": qty("7")}} for k in range(r.choice([1, 1, 2]))]
                ds = []
                for c in sets:
                    for size, mem, part in r.sample([("full", whole, "7"), ("half", {"80Gi": "40Gi", "40Gi": "20Gi"}[whole], "4"), ("q0", "10Gi", "2"), ("q1", "10Gi", "2"), ("s0", "5Gi", "1")], r.randint(3, 5)):
                        d = gpu(len(ds), "part")
                        d["name"] = f"{c['name']}-{size}"
                        d["capacity"] = {"memory": qty(mem)}
                        d["consumesCounters"] = [{"counterSet": c["name"], "counters": {"memory": qty(mem), "slices": qty(part)}}]
                        if self.p(.15) and shared:
                            d["allowMultipleAllocations"] = True
                        if self.p(.02):
                            d["consumesCounters"][0]["counterSet"] = "gone"
                        ds.append(d)
                slices(GPU, f"{n}-parts", [sets, ds] if self.p(.9) else [ds, sets], {"nodeName": n})

        def fab(i, binds):
            d = {"name": f"fab-{i}", "attributes": {"lanes": {"int": r.choice([4, 8, 16])}, f"{TOPO}/numa": {"int": i % 2}}, "capacity": {"memory": qty(r.choice(["16Gi", "40Gi"]))}}
            if binds:
                if self.p(.7):
                    d["bindsToNode"] = True
                d["bindingConditions"] = r.choice([["example.com/attached"], ["example.com/attached", "example.com/prepared"]])
                d["bindingFailureConditions"] = ["example.com/failed"]
            return d
        zsel = lambda *z: {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": sorted(z)}]}]}
        if self.p(.6):
            z = r.sample(zones, r.randint(1, len(zones)))
            sel = r.choice([zsel(*z), zsel(*z), {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [r.choice(names)]}]}]},
                            {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}, {"key": ZONE, "operator": "In", "values": z}]}]}])
            slices(FAB, r.choice(["rack", "zone"]), split([fab(i, self.p(.2)) for i in range(r.randint(2, 5))]), {"nodeSelector": sel})
        if self.p(.5):
            slices(FAB, "everywhere", split([fab(i, self.p(.4)) for i in range(r.randint(2, 5))]), {"allNodes": True})
        if self.p(.6):
            ds = []
            for i in range(r.randint(4, 7)):
                d = fab(i, self.p(.4))
                d.update(r.choice([{"nodeName": r.choice(names)}, {"nodeName": r.choice(names)}, {"allNodes": True}, {"nodeSelector": zsel(r.choice(zones))}]))
                ds.append(d)
            slices(FAB, "some", split(ds), {"perDeviceNodeSelection": True})

        # -- claims
        good = {
            GPU: [f'device.attributes["{GPU}"].model == "H100"', f'device.driver.startsWith("gpu") && device.attributes["{GPU}"].numa >= 0', f'device.attributes["{GPU}"].model in ["A100", "H100"]', f'device.attributes["{GPU}"].model.startsWith("A") || device.attributes["{GPU}"].model.endsWith("4")',
                  f'"serial" in device.attributes["{GPU}"] && device.attributes["{GPU}"].serial.matches("^s[0-2]$")', f'has(device.attributes["{GPU}"].healthy) && device.attributes["{GPU}"].healthy',
                  f'device.attributes["{GPU}"].driverVersion.compareTo(semver("1.2.0")) >= 0', f'device.attributes["{GPU}"].driverVersion.isLessThan(semver("2.0.0"))', f'device.attributes["{GPU}"].driverVersion.major() == 1',
                  f'device.capacity["{GPU}"].memory.compareTo(quantity("40Gi")) >= 0', f'device.capacity["{GPU}"].memory.isGreaterThan(quantity("9Gi"))', f'device.capacity["{GPU}"].memory.sub(quantity("8Gi")).isLessThan(quantity("33Gi"))',
                  f'device.capacity["{GPU}"].memory.asInteger() >= 17179869184', f'cel.bind(a, device.attributes["{GPU}"], a.numa == 0 || a.model.lowerAscii().contains("h1"))', f'device.attributes["{GPU}"].numa % 2 == 0',
                  f'device.attributes["{GPU}"].model.size() == 4 ? sign(device.capacity["{GPU}"].memory) == 1 : "cores" in device.capacity["{GPU}"]', f'device.attributes.exists(d, d == "{TOPO}")', 'device.allowMultipleAllocations == false'],
            NIC: [f'device.attributes["{NIC}"].speed >= 25', f'device.attributes["{NIC}"].rdma', f'!device.attributes["{NIC}"].rdma || device.attributes["{NIC}"].speed in [10, 100]', 'device.allowMultipleAllocations',
                  f'device.capacity["{NIC}"].bandwidth.isGreaterThan(quantity("8G"))'],
            FAB: [f'device.attributes["{FAB}"].lanes > 4', f'device.attributes["{TOPO}"].numa == 1', f'device.capacity["{FAB}"].memory.compareTo(quantity("16Gi")) == 0']}
        bad = [f'device.attributes["{GPU}"].nosuch == "x"', f'device.attributes["{GPU}"].model', f'device.attributes["{GPU}"].model > 3', f'device.capacity["{GPU}"].memory.compareTo(quantity("many")) > 0',
               f'device.attributes["{GPU}"].driverVersion.isGreaterThan(semver("1.x"))', f'1 / (device.attributes["{GPU}"].numa - device.attributes["{GPU}"].numa) == 0', 'device.attributes["other.example.com"].a']

        def toleration():
            return r.choice([{"operator": "Exists"}, {"key": "example.com/unhealthy", "operator": "Exists"}, {"key": "example.com/unhealthy", "operator": "Exists", "effect": "NoSchedule"},
                             {"key": "example.com/reserved", "value": r.choice(["a", "b"])}, {"key": "example.com/reserved", "operator": "Equal", "value": "a", "effect": "NoExecute"}])

        def ask(cls, sub=False, admin=False):
            driver = {"gpu": GPU, "large": GPU, "part": GPU, "nic": NIC, "fabric": FAB}.get(cls, GPU)
            q = {"deviceClassName": cls}
            x = r.random()
            if x < .06:
                q["allocationMode"] = "All"
            elif x < .24:
                q.update(allocationMode="ExactCount", count=r.choice([2, 2, 2, 3, 4]))
            if cls == "any":
                q["selectors"] = cel(r.choice([f'"numa" in device.attributes["{TOPO}"]', f'{on(NIC)} || {on(FAB)}', f'device.attributes["{TOPO}"].?numa.orValue(0) == 0']))
            elif self.p(.42):
                if self.p(.06):
                    q["selectors"] = cel(r.choice(bad))
                else:
                    q["selectors"] = cel(*r.sample(good[driver], r.choice([1, 1, 1, 2])))
            if self.p(.22):
                q["tolerations"] = [toleration() for _ in range(r.choice([1, 1, 2]))]
            if cls == "nic" and self.p(.5):
                q["capacity"] = {"requests": {r.choice(["bandwidth"] * 9 + ["queues"] * 3 + ["nosuch"]): None}}
                for k in q["capacity"]["requests"]:
                    q["capacity"]["requests"][k] = r.choice(["1G", "2G", "3G", "1500M", "5G", "9G", "1000M"] if k == "bandwidth" else ["1", "4", "6", "8", "20"])
            if admin and not sub:
                q["adminAccess"] = True
            return q

        def pick_class():
            return r.choice(["gpu"] * 8 + ["large"] * 2 + ["nic"] * (6 if shared else 3) + ["fabric"] * 7 + ["part"] * (6 if parts else 0) + ["any"] + (["broken"] if self.p(.45) else []) + (["absent"] if self.p(.45) else []))

        def devices(admin):
            reqs = []
            for i in range(r.choice([1, 1, 1, 1, 1, 2, 2, 3])):
                q = {"name": f"r{i}"}
                if self.p(.25) and not admin:
                    subs = []
                    for k in range(r.choice([1, 2, 2, 3, 4])):
                        subs.append({"name": f"s{k}", **ask(pick_class() if k else r.choice(["large", "part", "fabric", "gpu"]), sub=True)})
                        subs[-1].setdefault("allocationMode", "ExactCount")
                    q["firstAvailable"] = subs
                    if len(subs) > 1 and self.p(.4):      # a rare one first, a common one then
                        subs[0] = {"name": "s0", "deviceClassName": "gpu", "allocationMode": "ExactCount", "selectors": cel(f'device.attributes["{GPU}"].?model.orValue("") == "{r.choice(["A100", "H100", "T4"])}"')}
                        subs[1] = {"name": "s1", "deviceClassName": r.choice(["gpu", "gpu", "nic"]), "allocationMode": "ExactCount"}
                else:
                    q["exactly"] = ask(pick_class(), admin=admin)
                reqs.append(q)
            d = {"requests": reqs}
            many = len(reqs) > 1 or any(x.get("count", 1) > 1 for q in reqs for x in ([q["exactly"]] if "exactly" in q else q["firstAvailable"]))
            if many and self.p(.45):
                cs = []
                for _ in range(r.choice([1, 1, 2])):
                    drivers = {c["deviceClassName"] for q in reqs for c in ([q["exactly"]] if "exactly" in q else q["firstAvailable"])}
                    only = drivers <= {"gpu", "large", "part"}
                    c = {r.choice(["matchAttribute", "matchAttribute", "distinctAttribute"]): r.choice([f"{TOPO}/numa"] + ([f"{GPU}/model", f"{GPU}/serial", f"{GPU}/driverVersion", f"{GPU}/healthy", f"{GPU}/numa"] if only else []))}
                    if len(reqs) > 1 and self.p(.3):
                        ref = r.choice(reqs)
                        c["requests"] = [f"{ref['name']}/{ref['firstAvailable'][0]['name']}" if "firstAvailable" in ref and self.p(.5) else ref["name"]]
                    cs.append(c)
                d["constraints"] = cs
            if self.p(.15):
                q = r.choice(reqs)
                x = r.random()
                cfg = opaque(GPU, "claim")
                if x < .5:
                    cfg["requests"] = [f"{q['name']}/{q['firstAvailable'][-1]['name']}" if "firstAvailable" in q and self.p(.5) else q["name"]]
                d["config"] = [cfg]
            return d

        admins = [ns for ns in nss if self.p(.5)]
        free = [d for d in devs if not d[2].get("consumesCounters")]
        r.shuffle(free)
        claims = {ns: [] for ns in nss}

        def local(n):
            return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [n]}]}]}

        def allocate(o, node=None, when="2026-01-01T00:00:00Z"):
            """Give a claim one device that nothing else has; where it is on one node only, say which."""
            for i, (driver, pool, d, sel) in enumerate(free):
                at = sel.get("nodeName")
                if node and at not in (None, node) or node and "nodeSelector" in sel:
                    continue
                cls = {GPU: "gpu", NIC: "nic", FAB: "fabric"}[driver]
                free.pop(i)
                o["spec"] = {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": cls, "allocationMode": "ExactCount", "count": 1}}]}}
                res = {"request": "r0", "driver": driver, "pool": pool, "device": d["name"]}
                if d.get("allowMultipleAllocations"):
                    res["shareID"] = "%08x-0000-4000-8000-%012x" % (len(objs), r.getrandbits(40))
                    res["consumedCapacity"] = {}
                    for k, c in d["capacity"].items():
                        p = c.get("requestPolicy")
                        res["consumedCapacity"][k] = p["default"] if p else c["value"]
                    if self.p(.6):
                        free.append((driver, pool, d, sel)) if all(c.get("requestPolicy") for c in d["capacity"].values()) and self.p(.3) else None
                alloc = {"devices": {"results": [res]}}
                for k in ("bindingConditions", "bindingFailureConditions"):
                    if k in d:
                        res[k] = d[k]
                if at or d.get("bindsToNode"):
                    alloc["nodeSelector"] = local(at or node or r.choice(names))
                elif "nodeSelector" in sel:
                    alloc["nodeSelector"] = sel["nodeSelector"]
                alloc["allocationTimestamp"] = when
                o["status"] = {"allocation": alloc}
                o["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
                if "bindingConditions" in d:
                    x = r.random()
                    conds = [{"type": c, "status": "True", "reason": "Done", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"} for c in d["bindingConditions"]]
                    if x < .35:
                        conds[0].update(type="example.com/failed")
                    elif x < .5:
                        conds.pop()
                        alloc["allocationTimestamp"] = "2099-01-01T00:00:00Z"      # not too late yet
                    elif x < .65:
                        conds.pop()
                    o["status"]["devices"] = [{"driver": driver, "pool": pool, "device": d["name"], "conditions": conds}] if conds else []
                return True
            return False

        def consumer(pod):
            return {"resource": "pods", "name": pod, "uid": f"uid-{pod}"}

        def claim(nm, ns, kind=None, owner=None):
            o = obj("ResourceClaim", nm, ns, spec=None)
            kind = kind or r.choice(["new"] * 22 + ["allocated"] * 10 + ["full"] * 4 + ["deleting"] * 4)
            if kind in ("allocated", "full"):
                if free and self.p(.6):      # rather one with binding conditions, where there is one
                    free.sort(key=lambda d: "bindingConditions" not in d[2])
                if allocate(o):
                    if kind == "full":
                        o["status"]["reservedFor"] = [consumer(f"x-{i:03d}") for i in range(256)]
                    else:
                        o["status"]["reservedFor"] = [consumer(f"x-{i:03d}") for i in range(r.choice([0, 0, 1, 2, 3]))]
            if o["spec"] is None:
                o["spec"] = {"devices": devices(ns in admins and self.p(.22))}
            if kind == "deleting":
                o["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["resource.kubernetes.io/delete-protection"])
            if owner:
                o["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True, "blockOwnerDeletion": True}]
                o["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": nm.rsplit("-", 1)[-1]}
            return o

        for ns in nss:
            obj("ResourceClaimTemplate", "tmpl", ns, spec={"spec": {"devices": devices(False)}})
        tmpl = {o["metadata"]["namespace"]: o["spec"]["spec"] for o in objs if o["kind"] == "ResourceClaimTemplate"}

        def use(q, entries):
            q["spec"]["resourceClaims"] = entries
            refs = [{"name": e["name"]} for e in entries if self.p(.9)]
            if refs:
                q["spec"]["containers"][0].setdefault("resources", {})["claims"] = refs

        # -- pods that run, and the devices that they have
        pods = []
        for q in self.existing(nodes, r.randint(0, 8), {"paa": .04}):
            ns = q["metadata"]["namespace"] = r.choice(nss)
            if self.p(.6) and free:
                nm = f"{q['metadata']['name']}-dev"
                o = obj("ResourceClaim", nm, ns, spec=None)
                if allocate(o, q["spec"]["nodeName"], "2026-01-01T00:00:00Z"):
                    o["status"]["reservedFor"] = [consumer(q["metadata"]["name"])]
                    for d in o["status"].get("devices", []):
                        d["conditions"] = [{"type": c, "status": "True", "reason": "Done", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                                           for c in o["status"]["allocation"]["devices"]["results"][0]["bindingConditions"]]
                    use(q, [{"name": "dev", "resourceClaimName": nm}])
                    if self.p(.4):
                        claims[ns].append(nm)       # others may use it too
                else:
                    objs.remove(o)
            pods.append(q)

        for i in range(r.randint(2, 6)):
            ns = r.choice(nss)
            claim(f"c-{i}", ns)
            claims[ns].append(f"c-{i}")

        # -- pods to be placed
        pend, used = [], {ns: [] for ns in nss}
        for i in range(r.randint(3, 7)):
            q = self.pod(f"p-{i}", [w for w, pr in (("na", .12), ("ns", .04), ("paa", .08), ("pa", .04), ("spread", .08), ("tol", .2), ("ports", .05)) if self.p(pr)], ns=r.choice(nss))
            ns, nm, entries, statuses = q["metadata"]["namespace"], q["metadata"]["name"], [], []
            x = r.random()
            ext = extended and x < .35
            for k in range(0 if x < .05 else r.choice([0, 0, 1]) if ext else r.choice([1, 1, 1, 1, 1, 2, 2, 3])):
                e = {"name": f"d{k}"}
                y = r.random()
                if y < .28 and claims[ns]:
                    again = [c for c in used[ns] if c in claims[ns]]
                    e["resourceClaimName"] = r.choice(again) if again and self.p(.3) else r.choice(claims[ns])
                    if any(f.get("resourceClaimName") == e["resourceClaimName"] for f in entries) and self.p(.8):
                        continue
                    used[ns].append(e["resourceClaimName"])
                    if self.p(.08):
                        e["resourceClaimName"] = "c-missing"
                elif y < .54:
                    e["resourceClaimTemplateName"] = "tmpl"
                    z, made = r.random(), f"{nm}-{e['name']}"
                    if z < .84:
                        o = claim(made, ns, "new" if z < .75 or z > .78 else None, nm)
                        if self.p(.5) and "status" not in o:
                            o["spec"] = json.loads(json.dumps(tmpl[ns]))
                        if z > .78:
                            o["metadata"]["ownerReferences"][0].update(name="another", uid="uid-another")
                        statuses.append({"name": e["name"], "resourceClaimName": made})
                    elif z < .905:
                        statuses.append({"name": e["name"]})       # none is needed, says the controller
                    elif z < .925:
                        statuses.append({"name": e["name"], "resourceClaimName": made})     # but it is gone
                else:
                    made = f"{nm}-own-{k}"
                    claim(made, ns, "new")
                    e["resourceClaimName"] = made
                entries.append(e)
            if entries:
                use(q, entries)
                if statuses:
                    q["status"] = {"resourceClaimStatuses": statuses}
            if ext:
                res = r.choice(["example.com/gpu", "example.com/gpu", "deviceclass.resource.kubernetes.io/gpu", "deviceclass.resource.kubernetes.io/nic", "example.com/nothing" if self.p(.2) else "example.com/gpu"])
                want = r.choice(["1", "1", "1", "2", "0" if self.p(.3) else "1"])
                c = q["spec"]["containers"][0].setdefault("resources", {})
                c.setdefault("requests", {})[res] = want
                c["limits"] = {res: want}
                if self.p(.25):
                    q["spec"]["containers"].append({"name": "c2", "image": "registry.example/web:1", "resources": {"requests": {res: "1"}, "limits": {res: "1"}}})
                if self.p(.25):
                    q["spec"]["initContainers"] = [{"name": "i", "image": "registry.example/init:1", "resources": {"requests": {res: r.choice(["1", "2"])}}}]
                    q["spec"]["initContainers"][0]["resources"]["limits"] = dict(q["spec"]["initContainers"][0]["resources"]["requests"])
                    if self.p(.3):
                        q["spec"]["initContainers"][0]["restartPolicy"] = "Always"
                if self.p(.06):       # left over from an attempt that failed
                    o = claim(f"{nm}-extended-resources-0", ns, "new", nm)
                    o["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
                    o["spec"] = {"devices": {"requests": [{"name": "container-0-request-0", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]}}
            pend.append(q)
        if extended:
            for n in nodes:
                x = r.random()
                if x < .3:
                    n["status"]["allocatable"]["example.com/gpu"] = n["status"]["capacity"]["example.com/gpu"] = "2" if x < .2 else "0"
        r.shuffle(objs)
        s = self.base(name, nodes, pods, pend)
        for n in s["namespaces"]:
            if n["metadata"]["name"] in admins:
                n["metadata"]["labels"]["resource.kubernetes.io/admin-access"] = "true"
        s["dra"] = True
        s["objects"] = objs
        return s

    # ---- what later versions added ----------------------------------------
    def recent_resources(self, name):
        """Resizes that wait, pod-level resources, features that nodes declare."""
        s, r = self.resources(name), self.r
        for n in s["nodes"]:
            if self.p(.6):
                n["status"]["declaredFeatures"] = sorted(r.sample(["GuaranteedQoSPodCPUResize", "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"], r.randint(0, 3)))
        for q in s["pods"]:
            c = q["spec"]["containers"][0]
            if "requests" not in c.get("resources", {}) or not self.p(.5):
                continue
            old = {"cpu": r.choice(["50m", "1", "2500m"]), **({"memory": r.choice(["64Mi", "3Gi"])} if self.p(.7) else {})}
            status = {"name": c["name"], "image": c["image"], "imageID": "", "ready": True, "restartCount": 0}
            if self.p(.8):
                status["allocatedResources"] = dict(old)
            if self.p(.8):
                status["resources"] = {"requests": {**old, **({"cpu": "3"} if self.p(.2) else {})}}
            q["status"] = {"phase": "Running", "containerStatuses": [status]}
            x = r.random()
            if x < .7:
                kind, reason = r.choice([("PodResizePending", "Infeasible"), ("PodResizePending", "Deferred"), ("PodResizeInProgress", "")])
                q["status"]["conditions"] = [{"type": kind, "status": "True", **({"reason": reason} if reason else {})}]
        for q in s["pods"] + s["pending"]:
            if self.p(.25):
                need = {k: v for k, v in (("cpu", r.choice(["500m", "2", "4"])), ("memory", r.choice(["500Mi", "2Gi", "6Gi"]))) if self.p(.8)}
                q["spec"]["resources"] = {"requests": need, **({"limits": dict(need)} if self.p(.3) else {})} if need else {}
                if self.p(.4):
                    q["spec"]["containers"].append({"name": "c2", "image": "registry.example/web:1", "resources": {"requests": {"cpu": r.choice(["100m", "1"])}}})
        for q in s["pending"]:
            x = r.random()
            if x < .25:
                c = q["spec"]["containers"][0]
                c["restartPolicy"] = "Never"
                c["restartPolicyRules"] = [{"action": r.choice(["Restart", "RestartAllContainers"]), "exitCodes": {"operator": "In", "values": [42]}}]
            elif x < .4:
                q["spec"]["hostNetwork"], q["spec"]["hostUsers"] = self.p(.8), False
                for c in q["spec"]["containers"]:
                    c.pop("ports", None)
        return s

    def recent_devices(self, name):
        """Devices as in dra, with rules that taint, `All` of devices that are shared, and pools in an update."""
        s, r = self.dra(name), self.r
        specs = [o["spec"] for o in s["objects"] if o["kind"] == "ResourceSlice"]
        drivers = sorted({o["driver"] for o in specs})
        pools = sorted({o["pool"]["name"] for o in specs})
        devices = sorted({d["name"] for o in specs for d in o.get("devices", [])})
        for i in range(r.choice([0, 1, 1, 2, 3])):
            selector = {k: v for k, v, p in (("driver", r.choice(drivers), .7), ("pool", r.choice(pools), .4), ("device", r.choice(devices), .4)) if self.p(p)}
            taint = {"key": r.choice(["example.com/unhealthy", "example.com/reserved"]), "value": r.choice(["", "a", "b"]), "effect": r.choice(["NoSchedule", "NoSchedule", "NoExecute", "None"]),
                     "timeAdded": "2026-01-01T00:00:00Z"}
            s["objects"].append({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": f"rule-{i}"},
                                 "spec": {**({"deviceSelector": selector} if selector or self.p(.5) else {}), "taint": taint}})
        for o in s["objects"]:
            if o["kind"] == "ResourceSlice" and self.p(.08):
                o["spec"]["pool"]["resourceSliceCount"] += 1
            devices = o["spec"].get("devices", {}) if o["kind"] == "ResourceClaim" else {}
            if "status" in o or not isinstance(devices, dict):
                continue
            for q in devices.get("requests", []):
                for a in [q["exactly"]] if "exactly" in q else q["firstAvailable"]:
                    if self.p(.15):
                        a["allocationMode"] = "All"
                        a.pop("count", None)
                        if self.p(.5):
                            a["deviceClassName"] = "nic"
                            a.pop("selectors", None)
                            a["capacity"] = {"requests": {"bandwidth": r.choice(["1G", "2G", "9G"])}}
        return s

    def groups(self, name):
        """Racks of nodes, pods and groups that run there, and one to three groups that are placed one after another."""
        r = self.r
        classes = [None, "mid", "mid", "high", "high", "high", "never"]
        groups = [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": n}, "value": v, "preemptionPolicy": p}
                  for n, v, p in (("mid", 500, "PreemptLowerPriority"), ("high", 1000, "PreemptLowerPriority"), ("never", 1000, "Never"))]
        s = {"name": name, "namespaces": [], "nodes": [], "pods": [], "pending": [], "groups": groups, "pdbs": []}
        size = r.choice([4, 6, 8])
        for a in range(r.choice([1, 2, 2, 3])):
            for b in range(r.choice([1, 2, 3])):
                amounts = {"cpu": str(size if self.p(.8) else r.choice([4, 6, 8])), "memory": "64Gi", "pods": "110"}
                labels = {HOST: f"n{a}{b}", **({} if self.p(.05) else {RACK: f"r{a}"}), **({"disk": r.choice(["ssd", "hdd"])} if self.p(.3) else {})}
                s["nodes"].append({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{a}{b}", "labels": labels},
                                   "spec": {"taints": [{"key": "flaky", "effect": "NoSchedule"}]} if self.p(.05) else {},
                                   "status": {"allocatable": amounts, "capacity": amounts}})

        def group(n, prio):
            spec = {"schedulingPolicy": r.choice([{"basic": {}}, {"gang": {"minCount": 0}}, {"gang": {"minCount": 0}}, {"gang": {"minCount": 0}}])}
            if self.p(.5):
                spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
            if prio:
                spec["priorityClassName"] = prio
            if self.p(.6):
                spec["disruptionMode"] = {r.choice(["all", "single"]): {}}
            groups.append({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": n, "namespace": "default"}, "spec": spec})
            return spec

        def pod(n, cpu, prio, of=None, node=None, **more):
            spec = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}],
                    **({"priorityClassName": prio} if prio else {}), **({"schedulingGroup": {"podGroupName": of}} if of else {}), **more}
            q = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": n, "namespace": "default", "labels": {"app": of or "run"}}, "spec": spec}
            if node:
                spec["nodeName"] = node["metadata"]["name"]
                q["status"] = {"phase": "Running", "startTime": f"2026-01-01T00:{len(s['pods']):02d}:00Z"}
            return q

        free = {n["metadata"]["name"]: int(n["status"]["allocatable"]["cpu"]) for n in s["nodes"]}
        for n in s["nodes"]:
            for k in range(r.choice([0, 0, 1, 1, 2])):
                cpu = r.choice([1, 2, 3, size // 2, size - 1])
                if cpu <= free[n["metadata"]["name"]]:
                    free[n["metadata"]["name"]] -= cpu
                    s["pods"].append(pod(f"run-{n['metadata']['name']}-{k}", str(cpu), r.choice([None, None, "mid"]), node=n))
        if self.p(.4):
            prio, cpu, mates = r.choice([None, "mid"]), r.choice([1, 2]), []
            for n in s["nodes"]:
                if cpu <= free[n["metadata"]["name"]] and self.p(.6):
                    mates.append(pod(f"old-{n['metadata']['name']}", str(cpu), prio, "old", n))
                    s["pods"].append(mates[-1])
            if mates:
                spec = group("old", prio)
                spec.pop("schedulingConstraints", None)
                if "gang" in spec["schedulingPolicy"]:
                    spec["schedulingPolicy"]["gang"]["minCount"] = len(mates)
        if self.p(.25):
            s["pdbs"].append({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "run", "namespace": "default"},
                              "spec": {"selector": {"matchLabels": {"app": "run"}}, "maxUnavailable": 1}, "status": {"disruptionsAllowed": r.choice([0, 1, 2])}})
        for g in range(r.choice([1, 1, 2, 3])):
            prio, n, cpu, more = r.choice(classes), r.randint(2, 6), r.choice(["1", "1500m", "2", "3"]), {}
            if self.p(.15):
                more["nodeSelector"] = {"disk": r.choice(["ssd", "hdd"])}
            if self.p(.15):
                more["tolerations"] = [{"key": "flaky", "operator": "Exists"}]
            spec = group(f"g{g}", prio)
            if "gang" in spec["schedulingPolicy"]:
                spec["schedulingPolicy"]["gang"]["minCount"] = r.randint(1, n)
            mates = {"labelSelector": {"matchLabels": {"app": f"g{g}"}}, "topologyKey": r.choice([HOST, HOST, RACK])}
            if self.p(.12):
                more["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [mates]}}
            elif self.p(.2):
                more["topologySpreadConstraints"] = [{**mates, "maxSkew": r.choice([1, 2]), "whenUnsatisfiable": r.choice(["DoNotSchedule", "ScheduleAnyway"])}]
            # A pod with another preemption policy keeps the group from being placed.
            s["pending"] += [pod(f"g{g}-{k}", cpu, "never" if prio == "high" and self.p(.01) else prio, f"g{g}", **more) for k in range(n)]
        return s


SUITES = {"nodeaffinity": Gen.nodeaffinity, "interpod": Gen.interpod, "spread": Gen.spreading, "resources": Gen.resources,
          "profiles": Gen.profiles, "admission": Gen.admission, "mixed": Gen.mixed, "preemption": Gen.preemption, "volumes": Gen.volumes,
          "dra": Gen.dra, "recent-resources": Gen.recent_resources, "recent-devices": Gen.recent_devices, "groups": Gen.groups}

if __name__ == "__main__":
    suite, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for i in range(count):
        g = Gen(seed * 1_000_003 + i)
        print(json.dumps(SUITES[suite](g, f"{suite}-{seed}-{i:04d}"), separators=(",", ":")))
