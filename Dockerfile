FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# The build context has no .git, so the version comes from outside: --build-arg VERSION=$(git describe --tags --always)
ARG VERSION=devel
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/gateway ./cmd/gateway \
 && mkdir -p /out/data \
 && echo 'gateway:x:65532:65532::/data:/sbin/nologin' > /out/passwd

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/passwd /etc/passwd
COPY --from=build /out/gateway /gateway
COPY LICENSE /LICENSE
# Certificates and the memory store's file go here: mount a volume to keep them.
COPY --from=build --chown=65532:65532 /out/data /data
ENV HOME=/data XDG_DATA_HOME=/data
USER 65532:65532
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/gateway", "healthcheck"]
ENTRYPOINT ["/gateway"]
CMD ["run", "--config", "/etc/authgate/config.yaml"]
