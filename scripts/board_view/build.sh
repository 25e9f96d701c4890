#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the page that shows the Grafana board: FOLDER/page. Its packages are installed in FOLDER, once for each
# package-lock.json.
#
#     scripts/board_view/build.sh FOLDER

set -euo pipefail
mkdir -p "$1/page"
folder="$(cd "$1" && pwd)"
cd "$(dirname "$0")"

if ! cmp -s package-lock.json "$folder/installed.json"; then
    cp package.json package-lock.json "$folder"
    npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund
    cp package-lock.json "$folder/installed.json"
fi
cp convert.js main.jsx "$folder"
cp index.html ../../dist/grafana/holdfast.json "$folder/page"
cd "$folder"
node_modules/.bin/esbuild main.jsx --bundle --minify --format=esm --jsx=automatic --define:global=globalThis \
    --main-fields=browser,module,main --loader:.woff=file --loader:.woff2=file --outdir=page --log-level=warning
