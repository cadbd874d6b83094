#!/usr/bin/env bash
# sigs.k8s.io/kwok v0.8.0 (Go module): a selector of a Stage compares its values with strings, booleans and the results of jq's own functions, but with no
# number of the object: `In` never matches one, and `NotIn` always does, without an error. `tostring` is the way around. Seen, for a pod with one container
# that was restarted three times:
#   .status.phase In [Running]                                   true
#   .status.containerStatuses[0].ready In [true]                 true
#   .status.containerStatuses | length In [1]                    true
#   .status.containerStatuses[0].restartCount In [3]             false
#   .status.containerStatuses[0].restartCount NotIn [3]          true
#   .status.containerStatuses[0].restartCount | tostring In [3]  true
set -euo pipefail
here=$(readlink -f "$0") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > go.mod <<'MOD'
module stages

go 1.26.0

require sigs.k8s.io/kwok v0.8.0
MOD
cat > main.go <<'GO'
package main

import (
	"context"
	"fmt"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/utils/expression"
)

func main() {
	pod := &core.Pod{Status: core.PodStatus{Phase: "Running", ContainerStatuses: []core.ContainerStatus{{Ready: true, RestartCount: 3}}}}
	for _, line := range []struct {
		key      string
		operator internalversion.SelectorOperator
		value    string
	}{
		{".status.phase", "In", "Running"},
		{".status.containerStatuses[0].ready", "In", "true"},
		{".status.containerStatuses | length", "In", "1"},
		{".status.containerStatuses[0].restartCount", "In", "3"},
		{".status.containerStatuses[0].restartCount", "NotIn", "3"},
		{".status.containerStatuses[0].restartCount | tostring", "In", "3"},
	} {
		requirement, err := expression.NewRequirement(line.key, line.operator, []string{line.value})
		if err != nil {
			panic(err)
		}
		matches, err := requirement.Matches(context.Background(), pod)
		if err != nil {
			panic(err)
		}
		fmt.Printf("#   %-60s %t\n", fmt.Sprintf("%s %s [%s]", line.key, line.operator, line.value), matches)
	}
}
GO
go run -mod=mod . 2> log > seen || { cat log; exit 1; }
cat seen
sed -n '/Seen,/,/^set/p' "$here" | grep '^#   ' | diff - seen
