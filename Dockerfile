# syntax=docker/dockerfile:1
# One image for the worker, the exporter and every command: volery is its entry point.
# Parakeet is not baked in: it comes from the hub, or from a volume. What installed packages carry
# (segmentation, speaker embedding, the pocket Parakeet) is here.
ARG PYTHON_IMAGE=python:3.11.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/volery
COPY requirements-image.lock /src/
RUN /opt/volery/bin/pip install --require-hashes -r /src/requirements-image.lock
COPY pyproject.toml README.md LICENSE NOTICE /src/
COPY backend /src/backend
RUN pip install hatchling==1.27.0 \
    && pip wheel --no-deps --no-build-isolation --wheel-dir /wheels /src \
    && /opt/volery/bin/pip install --no-deps /wheels/*.whl \
    && /opt/volery/bin/python -m compileall -q /opt/volery/lib

FROM ${PYTHON_IMAGE}
# torch is a CUDA 13 build: NVIDIA's table of minor version compatibility asks for a driver of the
# 580 series or newer. `volery doctor` checks it.
LABEL org.opencontainers.image.title="volery" \
      org.opencontainers.image.licenses="Apache-2.0" \
      com.nvidia.cuda.version="13.0" \
      com.nvidia.driver.least="580"
ENV PATH=/opt/volery/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    HOME=/home/volery
# Folders that volumes are mounted on: a new volume takes over their owner.
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin volery \
    && install --directory --owner=volery --group=volery /models /artifacts
COPY --from=build /opt/volery /opt/volery
USER 10001:10001
WORKDIR /home/volery
EXPOSE 9090
ENTRYPOINT ["volery"]
CMD ["worker"]
