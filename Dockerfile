# One static binary, and a shell to look around with. To try it:
#
#   docker build -t globalfs .
#   docker run --rm -it --name globalfs --device /dev/fuse --cap-add SYS_ADMIN -v globalfs:/data globalfs
#   docker exec -it globalfs ls -l /mnt/globalfs
#
# Some hosts also need --security-opt apparmor=unconfined.
#
# --build-arg VERSION=0.1.0 is the version that the program prints.
# The target "server" runs servers as the user globalfs, without root: docker build --target server -t globalfs-server .
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY internal internal
COPY pkg pkg
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w -X github.com/globalfs/globalfs/internal/command.version=$VERSION" -o /globalfs ./cmd/globalfs

FROM debian:bookworm-slim AS server
COPY --from=build /globalfs /usr/local/bin/globalfs
RUN useradd --system --uid 7420 --user-group --home-dir /var/lib/globalfs --shell /usr/sbin/nologin globalfs \
 && install -d -m 700 -o globalfs -g globalfs /var/lib/globalfs
STOPSIGNAL SIGINT
USER globalfs
ENTRYPOINT ["globalfs"]
CMD ["server", "--help"]

# A mount needs root, and so does "dev" with one.
FROM server
USER root
RUN mkdir -p /mnt/globalfs /data
VOLUME /data
CMD ["dev", "--data-dir", "/data", "--mount", "/mnt/globalfs"]
