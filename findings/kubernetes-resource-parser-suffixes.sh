#!/usr/bin/env bash
# kubernetes-resource-parser 0.1.0 (npm): memoryParser drops what it does not expect and returns the number that is left, without an error. 12e6, a form that
# kube-apiserver keeps, is twelve bytes, the 1.5Gi of a manifest is one, and 100m is not a number; cpuParser reads 1k, a thousand processors, as one. Seen:
#   memory 1Gi    1073741824
#   memory 1.5Gi  1
#   memory 12e6   12
#   memory 100m   NaN
#   cpu    1500m  1.5
#   cpu    1k     1
set -euo pipefail
here=$(readlink -f "$0") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init --yes > init.log
npm install --silent --no-audit --no-fund kubernetes-resource-parser@0.1.0
cat > run.cjs <<'NODE'
const { cpuParser, memoryParser } = require('kubernetes-resource-parser');

for (const text of ['1Gi', '1.5Gi', '12e6', '100m']) console.log(`#   memory ${text.padEnd(6)} ${memoryParser(text)}`);
for (const text of ['1500m', '1k']) console.log(`#   cpu    ${text.padEnd(6)} ${cpuParser(text)}`);
NODE
node run.cjs | tee seen
sed -n '/Seen:/,/^set/p' "$here" | grep '^#   ' | diff - seen
