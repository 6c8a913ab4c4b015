# The gateway in a container: docker build -t nanobot .
# The first stage builds, the second holds the program and what its tools need, and runs as a user without rights.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /source
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    cargo build --locked --profile dist --package nanobot --package nanobot-matrix-crypto-program \
    && cp target/dist/nanobot target/dist/nanobot-documents target/dist/nanobot-matrix-crypto /usr/local/bin/

FROM debian:bookworm-slim
# Certificates of the web, time zones, and what a person expects of a shell.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap ca-certificates curl git tzdata \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 nanobot \
    && useradd --uid 10001 --gid nanobot --home-dir /data --no-create-home --shell /bin/sh nanobot \
    && install --directory --owner nanobot --group nanobot --mode 0700 /data
COPY --from=build /usr/local/bin/nanobot /usr/local/bin/nanobot-documents /usr/local/bin/nanobot-matrix-crypto /usr/local/bin/
# Everything that is kept: configuration, conversations, memory, state. And names of files in any script,
# for what commands print.
ENV NANOBOT_HOME=/data LANG=C.UTF-8
VOLUME /data
WORKDIR /data
USER nanobot
# Asks the gateway itself, by its socket; nothing has to be open to the network.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD ["nanobot", "gateway", "status"]
ENTRYPOINT ["nanobot"]
CMD ["gateway"]
