#!/usr/bin/env bash
# Write requirements.lock anew from pyproject.toml: versions and hashes, no index and no URL.
set -euo pipefail
cd "$(dirname "$0")/.."
pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-annotate --no-header \
  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
  --extra worker --extra embedded --extra referee --extra gcs --extra postgres --extra bench --extra test \
  --output-file requirements.lock "$@" pyproject.toml
{
  echo "# Everything that Volery and its tests need, for CPython 3.11 and later on Linux x86-64."
  echo "# Made by scripts/lock.sh; do not edit."
  cat requirements.lock
} >requirements.lock.new
mv requirements.lock.new requirements.lock
