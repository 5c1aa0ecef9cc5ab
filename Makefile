VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
FUZZTIME ?= 5s
TESTFLAGS ?=
BENCHSECONDS ?= 5

.DEFAULT_GOAL := help
.PHONY: help build demo test test-hostile race fuzz bench lint fmt clean valkey pebble

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 14

build: ## bin/gateway, one static binary
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/gateway ./cmd/gateway

demo: ## try it: the gateway in front of a built-in login page
	go run ./cmd/gateway demo

test: valkey pebble ## all tests, against a real valkey-server and a real ACME authority
	go test $(TESTFLAGS) ./...

test-hostile: ## what attackers send, against real servers; HOSTILE_FUZZ=10m for longer
	cd internal/hostile && go test -count=1 -timeout=2h

race: valkey pebble ## all tests with the race detector (needs a C compiler)
	go test -race $(TESTFLAGS) ./...

fuzz: valkey ## each fuzz target for FUZZTIME=5s
	FUZZTIME=$(FUZZTIME) scripts/fuzz

bench: valkey ## micro-benchmarks, then side by side with the proxies that are installed (scripts/install-bench-peers)
	go test -run '^$$' -bench . -benchmem ./bench ./limits/...
	go run ./bench/peers -seconds $(BENCHSECONDS)

lint: ## gofumpt, go vet, staticcheck, govulncheck
	scripts/lint

fmt: ## format the code
	go tool -modfile=tools/go.mod gofumpt -w .

clean: ## remove what was built
	rm -rf bin

# Installs valkey-server where it is missing; silent where it is there.
valkey:
	@scripts/install-valkey

# Builds the ACME authority that the tests of certificates run, as tools/go.mod pins it; silent where that is done.
pebble:
	@go tool -modfile=tools/go.mod -n pebble >/dev/null
