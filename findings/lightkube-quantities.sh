#!/usr/bin/env bash
# lightkube 1.0.1 (PyPI): lightkube.utils.quantity.parse_quantity does not read the suffixes n and u, and no exponent with a capital E, all of which are
# Kubernetes quantities: metrics-server writes the CPU usage of pods and nodes as 156340n. It reads exponents together with a suffix (1e3Ki) and Zi,
# which kube-apiserver refuses. Seen:
#   156340n  ValueError: Invalid unit suffix: n
#   250u     ValueError: Invalid unit suffix: u
#   1E3      ValueError: Invalid unit suffix: E3
#   1e3      1000.000
#   1e3Ki    1024000.000
#   1Zi      1180591620717411303424.000
set -euo pipefail
here=$(readlink -f "$0") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet lightkube==1.0.1
"$work/venv/bin/python" - > "$work/seen" <<'PYTHON'
from lightkube.utils.quantity import parse_quantity

for text in ["156340n", "250u", "1E3", "1e3", "1e3Ki", "1Zi"]:
    try:
        answer = parse_quantity(text)
    except ValueError as error:
        answer = f"ValueError: {error}"
    print(f"#   {text:8} {answer}")
PYTHON
cat "$work/seen"
sed -n '/Seen:/,/^set/p' "$here" | grep '^#   ' | diff - "$work/seen"
