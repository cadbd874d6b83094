//go:build v1.36

package main

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

func newCache(ctx context.Context) schedcache.Cache { return schedcache.New(ctx, nil, false) }

// leaveVictims: they are removed by the oracle, not by calls to an API server.
func leaveVictims(dp *defaultpreemption.DefaultPreemption) {
	dp.Executor.PreemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *v1.Pod, string) error {
		return nil
	}
}

func optionsOfVersion(*world) []fwkruntime.Option { return nil }

func (d *draWorld) ListWithDeviceTaintRules() ([]*slice, error) { return d.slices, nil }

func (d *draWorld) addRule(obj k8sruntime.Object) error { return fmt.Errorf("unexpected %T", obj) }

func (*scenario) decideGroups(context.Context) ([]groupStep, error) {
	return nil, errors.New("groups are those of 1.37 and later")
}
