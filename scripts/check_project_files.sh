#!/bin/sh
# Check the files that describe the project to the hosting service and to package indexes.
#   sh scripts/check_project_files.sh .checksenv/bin
# No check needs the network. `make package` has written the wheel and the source distribution.
set -eu
bin=$1

"$bin/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml
"$bin/check-jsonschema" --builtin-schema custom.github-workflows-require-timeout .github/workflows/*.yml
"$bin/check-jsonschema" --builtin-schema vendor.dependabot .github/dependabot.yml
"$bin/check-jsonschema" --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
"$bin/check-jsonschema" --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml \
    .github/ISSUE_TEMPLATE/proposal.yml
"$bin/check-jsonschema" --builtin-schema vendor.citation-file-format CITATION.cff
"$bin/zizmor" --offline --quiet --config .github/zizmor.yml .github
"$bin/validate-pyproject" pyproject.toml
"$bin/pre-commit" validate-config .pre-commit-config.yaml
"$bin/hadolint" --failure-threshold warning Dockerfile
"$bin/twine" check --strict build/package/*.whl build/package/*.tar.gz
echo "project files: workflows, templates, metadata, citation, Dockerfile and package are valid"
