#!/usr/bin/env bash
# cel-js 0.8.2 (npm) evaluates CEL, the language of device selectors and admission policies, with the numbers of JavaScript: integers are divided like decimals,
# and equal from 2^53 on where they differ by one, as serial numbers and capacities in bytes do. `||` evaluates its second side although the first one
# is true, and fails with it, where CEL's specification lets the true side decide; `&&` does not. Seen:
#   7 / 2 == 3                            false
#   7 / 2 == 3.5                          true
#   9007199254740993 == 9007199254740992  true
#   true || 1 / 0 > 1                     CelEvaluationError: Division by zero
#   false && 1 / 0 > 1                    false
set -euo pipefail
here=$(readlink -f "$0") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-save cel-js@0.8.2 > log 2>&1 || { cat log; exit 1; }
cat > expressions.mjs <<'JS'
import { evaluate } from "cel-js";

for (const expression of ["7 / 2 == 3", "7 / 2 == 3.5", "9007199254740993 == 9007199254740992", "true || 1 / 0 > 1", "false && 1 / 0 > 1"]) {
  let answer;
  try {
    answer = evaluate(expression);
  } catch (error) {
    answer = `${error.constructor.name}: ${error.message}`;
  }
  console.log(`#   ${expression.padEnd(37)} ${answer}`);
}
JS
node expressions.mjs | tee seen
sed -n '/Seen:/,/^set/p' "$here" | grep '^#   ' | diff - seen
