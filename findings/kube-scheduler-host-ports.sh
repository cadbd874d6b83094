#!/usr/bin/env bash
# k8s.io/kube-scheduler v0.37.2 (Go module): framework.HostPortInfo, with which kube-scheduler remembers the host ports of a node, is a set and counts no
# pods. Two pods of a node may have the same host port: pods with spec.nodeName pass by the scheduler, and one that the kubelet rejects stays bound. When
# one of the two goes, the port counts as free although the other one has it. Seen:
#   two pods   conflict true
#   one gone   conflict false
set -euo pipefail
here=$(readlink -f "$0") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > go.mod <<'MOD'
module ports

go 1.26.0
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"

	"k8s.io/kube-scheduler/framework"
)

func main() {
	ports := framework.HostPortInfo{}
	ports.Add("0.0.0.0", "TCP", 8080)
	ports.Add("0.0.0.0", "TCP", 8080)
	fmt.Println("#   two pods   conflict", ports.CheckConflict("0.0.0.0", "TCP", 8080))
	ports.Remove("0.0.0.0", "TCP", 8080)
	fmt.Println("#   one gone   conflict", ports.CheckConflict("0.0.0.0", "TCP", 8080))
}
GO
go get k8s.io/kube-scheduler/framework@v0.37.2 > go.log 2>&1
go run . | tee seen
sed -n '/Seen:/,/^set/p' "$here" | grep '^#   ' | diff - seen
