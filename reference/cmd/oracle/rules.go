//go:build !v1.36

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	resourceinternal "k8s.io/kubernetes/pkg/apis/resource"
	resourcevalidation "k8s.io/kubernetes/pkg/apis/resource/validation"
)

// addRule stores a DeviceTaintRule.
func (d *draWorld) addRule(obj k8sruntime.Object) error {
	rule, ok := obj.(*resourceapi.DeviceTaintRule)
	if !ok {
		return fmt.Errorf("unexpected %T", obj)
	}
	var in resourceinternal.DeviceTaintRule
	if err := legacyscheme.Scheme.Convert(rule, &in, nil); err != nil {
		return err
	}
	if l := resourcevalidation.ValidateDeviceTaintRule(&in); len(l) > 0 {
		return fmt.Errorf("%s: %w", rule.Name, l.ToAggregate())
	}
	d.rules = append(d.rules, rule)
	return nil
}

func (d *draWorld) ListWithDeviceTaintRules() ([]*slice, error) {
	if len(d.rules) == 0 {
		return d.slices, nil
	}
	if d.tainted == nil {
		if err := d.taint(); err != nil {
			return nil, err
		}
	}
	return d.tainted, nil
}

// taint asks the scheduler's tracker, with informers that run until it has seen everything.
func (d *draWorld) taint() error {
	ctx, cancel := context.WithCancel(d.w.ctx)
	defer cancel()
	var objects []k8sruntime.Object
	for _, s := range d.published {
		objects = append(objects, s)
	}
	objects = append(objects, d.rules...)
	factory := informers.NewSharedInformerFactory(fake.NewClientset(objects...), 0)
	tracker, err := startTracker(ctx, factory, resourceslicetracker.Options{
		EnableDeviceTaintRules: true, EnableConsumableCapacity: true, TaintInformer: factory.Resource().V1().DeviceTaintRules(),
	})
	if err != nil {
		return err
	}
	defer tracker.Stop()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), tracker.HasSynced) {
		return errors.New("the tracker of slices does not synchronize")
	}
	if d.tainted, err = tracker.ListPatchedResourceSlices(); err != nil {
		return err
	}
	slices.SortFunc(d.tainted, func(a, b *slice) int { return strings.Compare(a.Name, b.Name) })
	return nil
}
