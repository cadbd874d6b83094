#!/bin/sh
# Shows the plan for the cluster after the outage, runs the cluster with simulated nodes, lets the enforcer rebalance it, and
# shows where the pods are then. It needs berth and kubectl on the PATH, and stops the cluster in the end.
set -eu
here=$(dirname "$0")
directory=$(mktemp -d)
export KUBECONFIG="$directory/kubeconfig"
status() { kubectl get configmap -n kube-system berth-rebalance -o 'jsonpath={.data.status\.json}' 2>/dev/null || true; }

berth rebalance --dump "$here/cluster.yaml"

berth up --from "$here/cluster.yaml" --rebalance required,defragment,spread --rebalance-settle 0s --rebalance-interval 2s \
  --kubeconfig-out "$KUBECONFIG" --no-summary > "$directory/log" 2>&1 &
cluster=$!
trap 'kill "$cluster" 2>/dev/null || true; wait "$cluster" || true; rm -rf "$directory"' EXIT
until grep -qs 'ready in' "$directory/log"; do
  kill -0 "$cluster" || { cat "$directory/log"; exit 1; }
  sleep 0.2
done
# A plan without moves ends the rebalancing.
until status | grep -q '"now":{[^}]*"spread":0.*"nLeft":0'; do
  kill -0 "$cluster" || { cat "$directory/log"; exit 1; }
  sleep 0.5
done
echo "After:"
kubectl get pods -n shop -o 'custom-columns=POD:.metadata.name,NODE:.spec.nodeName' --no-headers | sort -k2
echo "Moves:"
status | tr '{' '\n' | sed -n 's/.*"name":"\([^"]*\)","from":"\([^"]*\)","to":"\([^"]*\)".*"result":"\([^"]*\)".*/\1 from \2 to \3: \4/p'
