# syntax=docker/dockerfile:1
# One image with Waybill's one binary; the command chooses which part of Waybill a container is.
ARG RUST_VERSION=1.95

FROM rust:${RUST_VERSION}-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked \
    && install -D --target-directory=/out target/release/waybill \
    && for part in ingress orders payments privacy endpoints; do \
        ln --symbolic waybill "/out/waybill-$part"; \
    done \
    && install -d -m 0700 /data/data

# The C library, certificates of authorities, and nothing else: no shell, no package manager.
FROM gcr.io/distroless/cc-debian12
COPY --from=build /out/ /usr/local/bin/
COPY --from=build --chown=10001:10001 --chmod=0700 /data /var/lib/waybill
USER 10001:10001
# Relative paths of the settings, such as the default database data/waybill.db, are below this folder.
WORKDIR /var/lib/waybill
ENV LISTEN_ADDR=0.0.0.0:8000
EXPOSE 8000 9100
# Everything in one process, with secrets of your own; it starts with no others.
CMD ["waybill", "serve"]
