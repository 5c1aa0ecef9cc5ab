//go:build linux

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// cost is what one proxy took for one kind of request.
type cost struct {
	proxy, path string
	requests    int64
	own, valkey float64 // processor time, us for each request
	memory      float64 // MiB
}

// delay is the latency at one rate, through a proxy and without it.
type delay struct {
	proxy          string
	part, rate     float64
	through, alone times
}

// report is all that was measured.
type report struct {
	costs  []cost
	delays []delay
}

// yardstick is what others are compared with, if it was measured.
const yardstick = "nginx-lua"

func (r *report) print(w io.Writer) {
	base := map[string]cost{}
	for _, c := range r.costs {
		if c.proxy == yardstick {
			base[c.path] = c
		}
	}
	ratio := func(c cost) string {
		if b, ok := base[c.path]; ok {
			return fmt.Sprintf("%.2f", c.own/b.own)
		}
		return "-"
	}
	fmt.Fprintf(w, "| proxy | path | processor time, us | against %s | Valkey's, us | MiB |\n|---|---|---|---|---|---|\n", yardstick)
	most := 0.0
	for _, c := range r.costs {
		fmt.Fprintf(w, "| %s | `%s` | %.1f | %s | %.1f | %.0f |\n", c.proxy, c.path, c.own, ratio(c), c.valkey, c.memory)
		most = max(most, c.own)
	}
	fmt.Fprint(w, "\n```\n")
	for _, c := range r.costs {
		fmt.Fprintf(w, "%-16s %-7s |%-40s %.1f us\n", c.proxy, c.path, strings.Repeat("#", int(40*c.own/most+0.5)), c.own)
	}
	fmt.Fprint(w, "```\n")
	if len(r.delays) == 0 {
		return
	}
	fmt.Fprint(w, "\n| proxy | of its capacity | requests/s | p50, ms | p99 | p99.9 | backend alone: p50 | p99 | p99.9 |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, d := range r.delays {
		fmt.Fprintf(w, "| %s | %.0f %% | %.0f", d.proxy, 100*d.part, d.rate)
		for _, t := range []times{d.through, d.alone} {
			for _, part := range []float64{0.5, 0.99, 0.999} {
				fmt.Fprintf(w, " | %.2f", float64(t.at(part))/float64(time.Millisecond))
			}
		}
		fmt.Fprintln(w, " |")
	}
}
