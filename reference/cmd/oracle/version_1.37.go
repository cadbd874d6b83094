//go:build v1.37

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

func newCache(ctx context.Context) schedcache.Cache { return schedcache.New(ctx, nil, false, false) }

// leaveVictims: they are removed by the oracle, not by calls to an API server.
func leaveVictims(dp *defaultpreemption.DefaultPreemption) {
	dp.Executor.PreemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *v1.Pod, string) (bool, error) {
		return false, nil
	}
}

func optionsOfVersion(w *world) []fwkruntime.Option {
	return []fwkruntime.Option{fwkruntime.WithMutableSnapshotLister(w.snapshot)}
}
