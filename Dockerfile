# One static binary, and a shell to look around with. To try it:
#
#   docker build -t globalfs .
#   docker run --rm -it --name globalfs --device /dev/fuse --cap-add SYS_ADMIN -v globalfs:/data globalfs
#   docker exec -it globalfs ls -l /mnt/globalfs
#
# Some hosts also need --security-opt apparmor=unconfined.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY internal internal
COPY pkg pkg
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /globalfs ./cmd/globalfs

FROM debian:bookworm-slim
COPY --from=build /globalfs /usr/local/bin/globalfs
RUN mkdir -p /mnt/globalfs /data
VOLUME /data
STOPSIGNAL SIGINT
ENTRYPOINT ["globalfs"]
CMD ["dev", "--data-dir", "/data", "--mount", "/mnt/globalfs"]
