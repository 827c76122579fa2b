FROM python:3.13-slim AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore

WORKDIR /build
# The wheel is built in a separate environment; the environment that serves has no pip.
RUN python -m venv tools && python -m venv --without-pip /opt/posref

COPY requirements/build.txt requirements/runtime.txt requirements/
RUN --mount=type=cache,target=/root/.cache/pip \
    tools/bin/pip install --require-hashes -r requirements/build.txt \
    && tools/bin/pip --python /opt/posref/bin/python install --require-hashes -r requirements/runtime.txt

COPY pyproject.toml README.md LICENSE ./
COPY service service
RUN tools/bin/pip wheel --no-deps --no-build-isolation --wheel-dir wheels . \
    && tools/bin/pip --python /opt/posref/bin/python install --no-deps --no-index wheels/*.whl


FROM python:3.13-slim

LABEL org.opencontainers.image.title="posref" \
      org.opencontainers.image.description="The reference server for positional encodings" \
      org.opencontainers.image.licenses="MIT"

COPY --from=build /opt/posref /opt/posref

# pip has compiled the modules, so the root file system can be read-only. The first picture writes a
# list of fonts to memory.
ENV PATH=/opt/posref/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    TMPDIR=/dev/shm \
    PYTHONUNBUFFERED=1 \
    POSREF_HOST=0.0.0.0

USER 10001:10001
EXPOSE 8000
# The request of "posref ready", without importing posref each time.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --start-interval=1s \
    CMD ["python", "-I", "-S", "-c", "import http.client, os; \
asked = http.client.HTTPConnection('127.0.0.1', int(os.environ.get('POSREF_PORT', 8000)), timeout=4); \
asked.request('GET', '/readyz'); raise SystemExit(asked.getresponse().status != 200)"]
CMD ["posref", "serve"]
