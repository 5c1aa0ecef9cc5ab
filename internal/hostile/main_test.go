package hostile

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
)

// TestMain ends the backends and prints the table of what was tried. All backends are tried at once, however few cores there are:
// they are processes of their own, and each is to have its time.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	status := m.Run()
	backends.stop()
	results.print()
	os.Exit(status)
}

// tally counts the inputs of one class.
type tally struct {
	class   string
	mu      sync.Mutex
	tried   int
	evaded  int
	details []detail
}

// detail is a further number that shows how much a class has tried.
type detail struct {
	what string
	n    int
}

// table are the tallies of one run, in the order in which the classes were begun.
type table struct {
	mu   sync.Mutex
	rows []*tally
}

var results table

// class begins a row of the table.
func class(name string) *tally {
	results.mu.Lock()
	defer results.mu.Unlock()
	row := &tally{class: name}
	results.rows = append(results.rows, row)
	return row
}

// try counts inputs.
func (c *tally) try(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried += n
}

// also adds to a further number.
func (c *tally) also(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.details {
		if c.details[i].what == what {
			c.details[i].n += n
			return
		}
	}
	c.details = append(c.details, detail{what, n})
}

// maxTold bounds how many evasions of one class are told in full: one fault may let hundreds through.
const maxTold = 12

// evasion counts an input that got through, and fails the test.
func (c *tally) evasion(t testing.TB, format string, args ...any) {
	t.Helper()
	c.mu.Lock()
	c.evaded++
	n := c.evaded
	c.mu.Unlock()
	switch {
	case n <= maxTold:
		t.Errorf("evaded: "+format, args...)
	case n == maxTold+1:
		t.Error("evaded: and more")
	}
}

// print writes the table.
func (r *table) print() {
	if len(r.rows) == 0 {
		return
	}
	fmt.Printf("\n%-34s %9s %7s\n", "hostile input", "tried", "evaded")
	tried, evaded := 0, 0
	for _, c := range r.rows {
		fmt.Printf("%-34s %9d %7d", c.class, c.tried, c.evaded)
		for i, d := range c.details {
			separator := ", "
			if i == 0 {
				separator = "   "
			}
			fmt.Printf("%s%d %s", separator, d.n, d.what)
		}
		fmt.Println()
		tried, evaded = tried+c.tried, evaded+c.evaded
	}
	fmt.Printf("%-34s %9d %7d\n", "all", tried, evaded)
	for i, name := range backends.missing {
		if i == 0 {
			fmt.Print("left out, since not installed: ")
		} else {
			fmt.Print(", ")
		}
		fmt.Print(name)
	}
	if len(backends.missing) > 0 {
		fmt.Println()
	}
}
