#!/usr/bin/env bash
# @kubernetes/client-node 2.0.1 (npm): quantityToScalar of dist/util.js takes the number before a suffix of more than one as a BigInt. An amount with a fraction, such
# as the memory 1.5Gi of a manifest or of a custom resource, is a SyntaxError. kube-apiserver accepts it in pods and nodes, and writes it as 1536Mi. Seen:
#   1536Mi  1610612736
#   1.5Gi   SyntaxError
#   0.5Ki   SyntaxError
#   1.5G    SyntaxError
#   1.5     1.5
set -euo pipefail
here=$(readlink -f "$0") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init --yes > init.log
npm install --silent --no-audit --no-fund @kubernetes/client-node@2.0.1
cat > run.mjs <<'NODE'
import { quantityToScalar } from './node_modules/@kubernetes/client-node/dist/util.js';

for (const text of ['1536Mi', '1.5Gi', '0.5Ki', '1.5G', '1.5']) {
    let answer;
    try {
        answer = String(quantityToScalar(text));
    } catch (error) {
        answer = error.constructor.name;
    }
    console.log(`#   ${text.padEnd(7)} ${answer}`);
}
NODE
node run.mjs | tee seen
sed -n '/Seen:/,/^set/p' "$here" | grep '^#   ' | diff - seen
