VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
FUZZTIME ?= 5s
TESTFLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help build demo test race fuzz bench lint fmt clean valkey

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 10

build: ## bin/gateway, one static binary
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/gateway ./cmd/gateway

demo: ## try it: the gateway in front of a built-in login page
	go run ./cmd/gateway demo

test: valkey ## all tests, against a real valkey-server
	go test $(TESTFLAGS) ./...

race: valkey ## all tests with the race detector (needs a C compiler)
	go test -race $(TESTFLAGS) ./...

fuzz: valkey ## each fuzz target for FUZZTIME=5s
	FUZZTIME=$(FUZZTIME) scripts/fuzz

bench: valkey ## micro-benchmarks
	go test -run '^$$' -bench . -benchmem ./bench/... ./limits/...

lint: ## gofumpt, go vet, staticcheck, govulncheck
	scripts/lint

fmt: ## format the code
	go tool -modfile=tools/go.mod gofumpt -w .

clean: ## remove what was built
	rm -rf bin

# Installs valkey-server where it is missing; silent where it is there.
valkey:
	@scripts/install-valkey
