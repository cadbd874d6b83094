#!/usr/bin/env bash
# sigs.k8s.io/descheduler v0.36.0 (Go module): RemovePodsViolatingInterPodAntiAffinity decides otherwise than kube-scheduler, on which its evictions rely. Two
# pods on one node violate a term also if the node lacks the term's topologyKey: kube-scheduler puts the evicted pod back, and it is evicted again. Two pods
# of one name in two namespaces, as StatefulSets have them, never violate a term, and neither do pods that only its namespaceSelector selects. Seen:
#   same namespace, node with the key       violated true
#   same namespace, node without the key    violated true
#   namespaces: [b], other name             violated true
#   namespaces: [b], same name              violated false
#   namespaceSelector: {}, other name       violated false
set -euo pipefail
here=$(readlink -f "$0") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > go.mod <<'MOD'
module anti

go 1.26.0

require sigs.k8s.io/descheduler v0.36.0

replace k8s.io/kube-openapi => k8s.io/kube-openapi v0.0.0-20260512234627-ef417d054102
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/descheduler/pkg/utils"
)

func pod(namespace, name string) *core.Pod {
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app": "db"}},
		Spec:       core.PodSpec{NodeName: "n"},
	}
}

func violated(other *core.Pod, labels map[string]string, term core.PodAffinityTerm) bool {
	term.TopologyKey = "rack"
	term.LabelSelector = &meta.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	candidate := pod("a", "db-0")
	candidate.Spec.Affinity = &core.Affinity{PodAntiAffinity: &core.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []core.PodAffinityTerm{term}}}
	nodes := map[string]*core.Node{"n": {ObjectMeta: meta.ObjectMeta{Name: "n", Labels: labels}}}
	return utils.CheckPodsWithAntiAffinityExist(candidate, map[string][]*core.Pod{other.Namespace: {other}}, nodes)
}

func main() {
	rack := map[string]string{"rack": "1"}
	own, b, all := core.PodAffinityTerm{}, core.PodAffinityTerm{Namespaces: []string{"b"}}, core.PodAffinityTerm{NamespaceSelector: &meta.LabelSelector{}}
	fmt.Println("#   same namespace, node with the key       violated", violated(pod("a", "db-1"), rack, own))
	fmt.Println("#   same namespace, node without the key    violated", violated(pod("a", "db-1"), nil, own))
	fmt.Println("#   namespaces: [b], other name             violated", violated(pod("b", "db-1"), rack, b))
	fmt.Println("#   namespaces: [b], same name              violated", violated(pod("b", "db-0"), rack, b))
	fmt.Println("#   namespaceSelector: {}, other name       violated", violated(pod("b", "db-1"), rack, all))
}
GO
go run -mod=mod . 2> log > seen || { cat log; exit 1; }
cat seen
sed -n '/Seen:/,/^set/p' "$here" | grep '^#   ' | diff - seen
