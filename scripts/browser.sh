#!/bin/sh
# Ensure that Chromium is installed for the browser tests; on Debian and Ubuntu, install it.
set -eu
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" > /dev/null; then exit 0; fi
done
if ! command -v apt-get > /dev/null; then
    echo "No Chromium was found. Install it, so that 'chromium' or 'google-chrome' is on the PATH." >&2
    exit 1
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then as_root=sudo; fi
$as_root apt-get update -q
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -q -y --no-install-recommends chromium
