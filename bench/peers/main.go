//go:build linux

// Command peers measures the gateway side by side with what one would otherwise put in front of a login server: processor
// time for each request, and latency at parts of what each can carry. It prints Markdown.
//
//	make bench
//	go run ./bench/peers -seconds 10 -only nginx-lua,memory
//
// Every proxy stands in front of the same backend and gets the same logins from the same 64 connections. Processor time is that
// of the proxy's process tree, user and system: on a machine that others use as well it is far steadier than requests in a
// second. What is not installed is left out; scripts/install-bench-peers installs it on Debian.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

func main() {
	seconds := flag.Int("seconds", 5, "how long each measurement takes")
	only := flag.String("only", "", "names of proxies, separated by commas; empty: all")
	latency := flag.Bool("latency", true, "measure latency as well")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var names []string
	if *only != "" {
		names = strings.Split(*only, ",")
	}
	if err := run(ctx, time.Duration(*seconds)*time.Second, names, *latency); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// run measures all proxies, one after the other, and prints the tables.
func run(ctx context.Context, each time.Duration, only []string, latency bool) error {
	b, err := openBench(ctx)
	if err != nil {
		return err
	}
	defer b.close()
	rep := &report{}
	for _, p := range b.proxies() {
		if len(only) > 0 && !slices.Contains(only, p.name) {
			continue
		}
		if p.missing != "" {
			fmt.Fprintf(os.Stderr, "%s: left out, since %s is not installed\n", p.name, p.missing)
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring", p.name)
		if err := b.measure(ctx, p, each, latency, rep); err != nil {
			return fmt.Errorf("measuring %s: %w", p.name, err)
		}
	}
	if len(rep.costs) == 0 {
		return errors.New("nothing was measured; is the name right?")
	}
	rep.print(os.Stdout)
	return nil
}

// parts are the shares of what a proxy can carry at which latency is measured.
var parts = []float64{0.2, 0.5, 0.8}

// measure starts a proxy, measures what it costs, and how long it takes.
func (b *bench) measure(ctx context.Context, p *proxy, each time.Duration, latency bool, rep *report) error {
	proc, err := b.start(ctx, p)
	if err != nil {
		return err
	}
	defer proc.stop()
	if err := flood(ctx, p.address(), "/login", time.Second, nil); err != nil { // until caches and pools are filled
		return err
	}
	capacity := 0.0
	for _, path := range []string{"/login", "/deny"} {
		c, err := b.cost(ctx, p, proc, path, each)
		if err != nil {
			return err
		}
		rep.costs = append(rep.costs, c)
		if path == "/login" {
			capacity = float64(c.requests) / each.Seconds()
		}
	}
	if !latency {
		return nil
	}
	for _, part := range parts {
		rate := part * capacity
		through, err := paced(ctx, p.address(), rate, each)
		if err != nil {
			return err
		}
		alone, err := paced(ctx, b.backend, rate, each)
		if err != nil {
			return err
		}
		rep.delays = append(rep.delays, delay{p.name, part, rate, through, alone})
	}
	return nil
}

// cost floods a proxy and reads the processor time that it took.
func (b *bench) cost(ctx context.Context, p *proxy, proc *process, path string, d time.Duration) (cost, error) {
	var n tally
	before, valkey := proc.used(), b.valkey.used()
	if err := flood(ctx, p.address(), path, d, &n); err != nil {
		return cost{}, err
	}
	if n.wrong(path) > 0 {
		return cost{}, fmt.Errorf("%d of %d answers to %s were not what they should be", n.wrong(path), n.total(), path)
	}
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(n.total()) }
	return cost{p.name, path, n.total(), each(proc.used() - before), each(b.valkey.used() - valkey), proc.memory()}, nil
}

// backend judges every password right.
func backend(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"token":"none"}`)
}
