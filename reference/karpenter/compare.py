#!/usr/bin/env python3
"""compare.py ORACLE KARPENTER [COUNT [SEED]]: where Karpenter's simulation puts a pod on existing nodes otherwise than kube-scheduler could.

Each scenario of ../scenarios.py gives one: its nodes and running pods, and its first valid pending pod. The NodePool has no room for more nodes.
Prints each difference, and how many there are of each kind."""
import collections, json, os, re, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import scenarios

SUITES = ("nodeaffinity", "interpod", "spread", "resources", "mixed")
oracle, karpenter = sys.argv[1:3]
count, seed = (int(x) for x in (sys.argv[3:5] + ["200", "1"][len(sys.argv) - 3:])[:2])
POOL = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"limits": {"cpu": "0"}, "template": {"spec": {"requirements": []}}}}


def first_answer(scenario):
    """The scenario with its first valid pending pod alone, and the verdict of each node."""
    for pod in scenario["pending"]:
        one = {**scenario, "pending": [pod]}
        run = subprocess.run([oracle], input=json.dumps(one), capture_output=True, text=True)
        step = (json.loads(run.stdout) if run.stdout else {"expect": {"steps": [{"invalid": True}]}})["expect"]["steps"][0]
        if "invalid" not in step and "err" not in step:
            return one, step
    return None, None


def asked(scenario):
    """Where Karpenter puts the pod: its node or none, and its error."""
    nodes = json.loads(json.dumps(scenario["nodes"]))
    for n in nodes:
        n["metadata"]["labels"].update({"karpenter.sh/nodepool": "default", "node.kubernetes.io/instance-type": "s-8x-amd64-linux"})
    objects = nodes + scenario["namespaces"] + scenario["pods"] + scenario["pending"] + [POOL]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump({"apiVersion": "v1", "kind": "List", "items": objects}, f)
        f.flush()
        out = subprocess.run([karpenter, "-json", f.name], capture_output=True, text=True)
    if not out.stdout.startswith("{"):
        return None, "Karpenter: " + out.stderr[-200:]
    said = json.JSONDecoder().raw_decode(out.stdout)[0]
    node = next(iter(said["existing"] or {}), None)
    errors = " ".join((said.get("skipped") or []) + list((said["errors"] or {}).values()))
    return node, errors


def difference(i):
    suite = SUITES[i % len(SUITES)]
    scenario = scenarios.SUITES[suite](scenarios.Gen(seed * 1_000_003 + i), f"{suite}-{seed}-{i:04d}")
    scenario.pop("config", None)
    for n in scenario["nodes"]:
        if n["spec"].get("unschedulable"):
            n["spec"].setdefault("taints", []).append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    # The zones of the instance types.
    scenario = json.loads(re.sub(r'"z([0-3])"', lambda zone: f'"test-zone-{"abcd"[int(zone[1])]}"', json.dumps(scenario)))
    scenario, step = first_answer(scenario)
    if scenario is None:
        return None
    rejected = {n: v["plugin"] + ": " + "; ".join(v.get("reasons", [])) for n, v in step.get("nodes", {}).items() if "plugin" in v}
    if "preFilter" in step:
        rejected = {n["metadata"]["name"]: "; ".join(step["preFilter"]["reasons"]) for n in scenario["nodes"]}
    node, error = asked(scenario)
    feasible = [n["metadata"]["name"] for n in scenario["nodes"] if n["metadata"]["name"] not in rejected]
    if node in rejected:
        return scenario, f"it takes {node}, which is rejected", rejected[node]
    if node is None and feasible:
        return scenario, f"it takes no node of {len(feasible)}", re.sub(r'"[^"]*"|[a-z]+-\d+', "_", error)[:150]
    return scenario, "", ""


kinds, n = collections.Counter(), 0
with ThreadPoolExecutor(2) as pool:
    for found in pool.map(difference, range(count)):
        if found is None:
            continue
        n += 1
        scenario, what, why = found
        if what:
            kinds[what.split()[2], why] += 1
            print(scenario["name"], what, "|", why, "|", json.dumps(scenario["pending"][0]["spec"]))
print(f"{n} scenarios, {sum(kinds.values())} differ")
for (what, why), number in kinds.most_common():
    print(f"{number:4} {what}: {why}")
