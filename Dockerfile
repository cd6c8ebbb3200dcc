# seqattn on the CPU. The default command trains the config squares:
#
#   docker build --tag seqattn .
#   docker run --rm seqattn
#   docker run --rm --volume "$PWD:/work" --workdir /work seqattn train my_config.yaml
#
# With the argument PIP_EXTRA_INDEX_URL, pip also searches an index with builds of torch for the CPU,
# which are gigabytes smaller:  docker build --build-arg PIP_EXTRA_INDEX_URL=... --tag seqattn .
FROM python:3.11-slim

ARG PIP_EXTRA_INDEX_URL=""
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /opt/seqattn
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY seqattn seqattn
COPY configs configs
RUN python -m pip install --constraint constraints.txt ".[report]" \
    && useradd --create-home --uid 1000 seqattn
USER 1000
WORKDIR /home/seqattn
ENTRYPOINT ["seqattn"]
CMD ["train", "/opt/seqattn/configs/squares.yaml", "--overwrite"]
