#!/bin/sh
# Ensure that Chromium and Firefox are installed for the browser tests; on Debian and Ubuntu, install them.
set -eu
find_one() {
    for name in "$@"; do
        if command -v "$name" > /dev/null; then return 0; fi
    done
    return 1
}
missing=
find_one chromium chromium-browser google-chrome || missing="$missing chromium"
find_one firefox-esr firefox || missing="$missing firefox-esr"
if [ -z "$missing" ]; then exit 0; fi
if ! command -v apt-get > /dev/null; then
    echo "Not found:$missing. Install a Chromium and a Firefox, so that they are on the PATH." >&2
    exit 1
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then as_root=sudo; fi
$as_root apt-get update -q
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -q -y --no-install-recommends $missing
