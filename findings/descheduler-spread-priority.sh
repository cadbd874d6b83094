#!/usr/bin/env bash
# sigs.k8s.io/descheduler v0.36.0 (Go module): of the pods of a domain that has too many, RemovePodsViolatingTopologySpreadConstraint evicts the one with the
# highest priority. The comment of its sortDomains says that the lowest priority is considered first; the list is in ascending order, but is taken from its
# end. kube-scheduler then has to place the most important pod again, and the least important ones stay. Seen, two pods in zone a and none in zone b:
#   priorities [1 1000]  evicts pod-1000
#   priorities [1000 1]  evicts pod-1000
#   priorities [5 -5]    evicts pod-5
set -euo pipefail
here=$(readlink -f "$0") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > go.mod <<'MOD'
module spread

go 1.26.0

require sigs.k8s.io/descheduler v0.36.0

replace k8s.io/kube-openapi => k8s.io/kube-openapi v0.0.0-20260512234627-ef417d054102
MOD
cat > main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"strings"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	requests "k8s.io/client-go/testing"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/defaultevictor"
	spread "sigs.k8s.io/descheduler/pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint"
	"sigs.k8s.io/descheduler/pkg/framework/testing"
	framework "sigs.k8s.io/descheduler/pkg/framework/types"
)

func node(zone string) *core.Node {
	room := core.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("20")}
	return &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: zone, Labels: map[string]string{"zone": zone}},
		Status:     core.NodeStatus{Allocatable: room, Conditions: []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}}},
	}
}

func pod(priority int32) *core.Pod {
	name := fmt.Sprintf("pod-%d", max(priority, -priority))
	if priority < 0 {
		name += "-negative"
	}
	labels := map[string]string{"app": "web"}
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: name, UID: types.UID(name), Namespace: "shop", Labels: labels,
			OwnerReferences: []meta.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web"}}},
		Spec: core.PodSpec{NodeName: "a", Priority: &priority, Containers: []core.Container{{Name: "c"}},
			TopologySpreadConstraints: []core.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone",
				WhenUnsatisfiable: core.DoNotSchedule, LabelSelector: &meta.LabelSelector{MatchLabels: labels}}}},
	}
}

func evicted(ctx context.Context, priorities []int32) string {
	nodes := []*core.Node{node("a"), node("b")}
	objects := []runtime.Object{nodes[0], nodes[1]}
	for _, priority := range priorities {
		objects = append(objects, pod(priority))
	}
	client := fake.NewClientset(objects...)
	var names []string
	client.PrependReactor("create", "pods", func(action requests.Action) (bool, runtime.Object, error) {
		names = append(names, action.(requests.CreateAction).GetObject().(*policy.Eviction).Name)
		return true, nil, nil
	})
	handle, _, err := testing.InitFrameworkHandle(ctx, client, nil, defaultevictor.DefaultEvictorArgs{}, nil)
	if err != nil {
		panic(err)
	}
	hard := []core.UnsatisfiableConstraintAction{core.DoNotSchedule}
	plugin, err := spread.New(ctx, &spread.RemovePodsViolatingTopologySpreadConstraintArgs{Constraints: hard}, handle)
	if err != nil {
		panic(err)
	}
	plugin.(framework.BalancePlugin).Balance(ctx, nodes)
	return strings.Join(names, " ")
}

func main() {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	for _, priorities := range [][]int32{{1, 1000}, {1000, 1}, {5, -5}} {
		fmt.Printf("#   priorities %-9s evicts %s\n", fmt.Sprint(priorities), evicted(ctx, priorities))
	}
}
GO
go run -mod=mod . 2> log > seen || { cat log; exit 1; }
cat seen
sed -n '/Seen,/,/^set/p' "$here" | grep '^#   ' | diff - seen
