#!/bin/sh
# Tries rebalancing on the cluster of $KUBECONFIG, which needs three or more nodes that take pods: scheduler and enforcer run here, as
# processes with the rights of `berth install`. Pods are created while a node is cordoned; then the enforcer moves some of them, is
# killed after the first eviction, and another one goes on. It needs berth and kubectl on the PATH, and the rights of an administrator.
# Everything that it creates is in the namespaces berth-system and berth-try, which it deletes in the end.
#
# Without a cluster: berth up --no-enforcer --scheduler-name other --kubeconfig-out FILE
set -eu
directory=$(mktemp -d)
berth=$(command -v berth)
node=$(kubectl get nodes -o 'jsonpath={.items[0].metadata.name}')
scheduler='' enforcer=''
stop() {
  kill $scheduler $enforcer 2>/dev/null || true
  wait || true
  kubectl uncordon "$node" >/dev/null
  kubectl delete namespace berth-try --ignore-not-found >/dev/null
  kubectl delete -f "$directory/install.yaml" --ignore-not-found >/dev/null
  rm -rf "$directory"
}
trap stop EXIT
trap 'exit 1' INT TERM

# Until an expression is true, for at most two minutes.
await() {
  what=$1 n=0; shift
  until "$@"; do
    n=$((n + 1))
    if [ "$n" -gt 240 ]; then echo "not in time: $what"; tail -n 20 "$directory"/*.log; exit 1; fi
    sleep 0.5
  done
}
status() { kubectl get configmap -n berth-system berth-rebalance -o 'jsonpath={.data.status\.json}' 2>/dev/null || true; }
is_ready() { [ "$(kubectl get deployment -n berth-try web -o 'jsonpath={.status.readyReplicas}')" = 6 ]; }
# The objects of replicas that were evicted are gone: events tell of them.
n_moved() { kubectl get events.events.k8s.io -n berth-try -o 'jsonpath={range .items[?(@.reason=="EvictedForRebalance")]}{.regarding.kind}{"\n"}{end}' | grep -c Pod || true; }
has_moved() { [ "$(n_moved)" -ge 1 ]; }
is_balanced() { status | grep -q '"now":{"required":0.0,"spread":0.0}.*"nLeft":0'; }

# The rights of a service account of the installation.
config_of() {
  kubectl config view --minify --raw --flatten > "$directory/$1.kubeconfig"
  token=$(kubectl create token "berth-$1" -n berth-system)
  user=$(kubectl config view --minify -o 'jsonpath={.users[0].name}')
  KUBECONFIG="$directory/$1.kubeconfig" kubectl config delete-user "$user" >/dev/null
  KUBECONFIG="$directory/$1.kubeconfig" kubectl config set-credentials "$user" --token "$token" >/dev/null
}
start_enforcer() {
  "$berth" enforcer --kubeconfig "$directory/enforcer.kubeconfig" --leader-elect --leader-elect-resource-namespace berth-system \
    --rebalance required,spread --rebalance-interval 5s --rebalance-settle 0s >> "$directory/enforcer.log" 2>&1 &
  enforcer=$!
}

berth install --components scheduler,enforcer --replicas 1 > "$directory/install.yaml" 2>/dev/null
kubectl apply -f "$directory/install.yaml" >/dev/null
kubectl scale deployment -n berth-system --all --replicas 0 >/dev/null
config_of scheduler
config_of enforcer
"$berth" scheduler --kubeconfig "$directory/scheduler.kubeconfig" --leader-elect --leader-elect-resource-namespace berth-system \
  --leader-elect-resource-name berth-scheduler \
  > "$directory/scheduler.log" 2>&1 &
scheduler=$!

kubectl create namespace berth-try >/dev/null
kubectl cordon "$node" >/dev/null
kubectl apply -n berth-try -f - >/dev/null <<'EOF'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: berth
      terminationGracePeriodSeconds: 2
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}
      containers: [{name: web, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: 10m, memory: 8Mi}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
EOF
await "six pods are ready" is_ready
echo "Before:"
kubectl get pods -n berth-try -o 'custom-columns=NODE:.spec.nodeName' --no-headers | sort | uniq -c
kubectl uncordon "$node" >/dev/null
start_enforcer
await "a pod is evicted" has_moved
kill -9 "$enforcer"
echo "Killed after $(n_moved) eviction(s)"
start_enforcer
await "the plan is carried out" is_balanced
await "six pods are ready" is_ready
echo "After:"
kubectl get pods -n berth-try -o 'custom-columns=NODE:.spec.nodeName' --no-headers | sort | uniq -c
echo "Evictions: $(n_moved)"
