// Added to k8s.io/kubernetes/pkg/scheduler by ./run: the scheduler of an integration test runs another program.
package scheduler

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/feature"
	configv1 "k8s.io/kube-scheduler/config/v1"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
)

// What the schedulers of this process were made with.
var optionsOf sync.Map

// Run runs the program $REPLACEMENT in the scheduler's place. Plugins of the test cannot be in it.
func (sched *Scheduler) Run(ctx context.Context) {
	made, _ := optionsOf.Load(sched)
	options := made.(schedulerOptions)
	if len(options.frameworkOutOfTreeRegistry) > 0 || options.kubeConfig == nil {
		fmt.Println("NOT REPLACED: plugins of the test")
		sched.runItself(ctx)
		return
	}
	dir, err := os.MkdirTemp("", "replacement")
	if err != nil {
		panic(err)
	}
	kubeconfig, config := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "config.yaml")
	c := options.kubeConfig
	user := fmt.Sprintf("token: %q", c.BearerToken)
	if c.BearerToken == "" && len(c.CertData) > 0 {
		user = fmt.Sprintf("client-certificate-data: %s, client-key-data: %s", base64.StdEncoding.EncodeToString(c.CertData), base64.StdEncoding.EncodeToString(c.KeyData))
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {%s}}]
`, c.Host, user)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		panic(err)
	}
	var versioned configv1.KubeSchedulerConfiguration
	scheme.Scheme.Default(&versioned)
	var internal schedulerapi.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&versioned, &internal, nil); err != nil {
		panic(err)
	}
	internal.Profiles, internal.Extenders = options.profiles, options.extenders
	// A file must have 1 at least.
	internal.PodInitialBackoffSeconds, internal.PodMaxBackoffSeconds = max(1, options.podInitialBackoffSeconds), max(1, options.podMaxBackoffSeconds)
	internal.PercentageOfNodesToScore = &options.percentageOfNodesToScore
	internal.LeaderElection.LeaderElect = false
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeYAML)
	written, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion), &internal)
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(config, written, 0o600); err != nil {
		panic(err)
	}
	var gates []string
	for name, spec := range feature.DefaultMutableFeatureGate.GetAll() {
		// Tests of older versions unlock gates, which a program of this version does not.
		if on := feature.DefaultFeatureGate.Enabled(name); on != spec.Default && !spec.LockToDefault && !strings.HasPrefix(string(name), "All") {
			gates = append(gates, fmt.Sprintf("%s=%t", name, on))
		}
	}
	sort.Strings(gates)
	arguments := []string{"scheduler", "--kubeconfig", kubeconfig, "--config", config, "--strict-v1"}
	if len(gates) > 0 {
		arguments = append(arguments, "--feature-gates", strings.Join(gates, ","))
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		panic(err)
	}
	cmd := exec.CommandContext(ctx, os.Getenv("REPLACEMENT"), arguments...)
	cmd.Stdout, cmd.Stderr = log, log
	fmt.Println("REPLACED:", dir, gates)
	err = cmd.Run()
	if ctx.Err() == nil {
		said, _ := os.ReadFile(log.Name())
		fmt.Printf("REPLACEMENT ENDED: %v: %s\n", err, said)
	}
	sched.SchedulingQueue.Close()
	if sched.APIDispatcher != nil {
		sched.APIDispatcher.Close()
	}
}
