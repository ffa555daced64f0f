# selfattn with fairseq and all commands, on CUDA:  docker build -t selfattn .
#   docker run --rm --gpus all -v "$PWD:/work" selfattn train DATA --arch transformer_mtsa ...
# On CPUs, with an index that has CPU builds of torch:
#   docker build --build-arg TORCH=torch==2.13.0+cpu --build-arg PIP_EXTRA_INDEX_URL=INDEX -t selfattn .
ARG PYTHON=3.12
FROM python:${PYTHON}-slim
# Compilers: for fairseq-fixed where it has no wheel, and at run time for the kernels in C and Triton.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/selfattn
COPY . .
ARG TORCH=
ARG PIP_EXTRA_INDEX_URL=
RUN PIP_NO_CACHE_DIR=1 python scripts/setup_env.py base ${TORCH:+--torch "$TORCH"} \
    || { tail -n 30 .venv/.selfattn/*.log; exit 1; }
ENV PATH=/opt/selfattn/.venv/bin:$PATH

# Any `--user` may write here: whoever runs it owns the kernels that it compiles, and needs no entry in passwd.
RUN mkdir --mode 1777 /home/selfattn /home/selfattn/.cache /work
ENV HOME=/home/selfattn USER=selfattn
USER 1000
WORKDIR /work
ENTRYPOINT ["selfattn"]
CMD ["info"]
