package memstore

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"authgate/limits"
)

// A table has what was added and not removed since, whatever the order, and however their places coincide.
func TestTable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, homes := range []uint64{1, 3, 1 << 40} { // how many different halves decide where a bucket lies
		var table table
		want := make(map[id]int64)
		var order []id
		most := 0
		for step := range 20_000 {
			if rising := step/4000%2 == 0; len(order) == 0 || random.IntN(8) < 3 == !rising {
				i := id{random.Uint64N(homes) << 24, random.Uint64() | 1}
				table.add(i, step%2 == 0).a = int64(step)
				want[i] = int64(step)
				order = append(order, i)
				most = max(most, len(order))
			} else {
				n := random.IntN(len(order))
				i := order[n]
				order[n] = order[len(order)-1]
				order = order[:len(order)-1]
				table.remove(i)
				delete(want, i)
				if table.find(i) != nil {
					t.Fatalf("step %d: %x is still there", step, i)
				}
			}
			if homes < 10 && len(order) > 200 { // each search goes through all
				for _, i := range order {
					table.remove(i)
				}
				clear(want)
				order = order[:0]
			}
			if step%500 == 0 {
				for i, a := range want {
					if e := table.find(i); e == nil || e.a != a {
						t.Fatalf("step %d: got %v for %x, want %d", step, e, i, a)
					}
				}
			}
		}
		used := 0
		for n := range table.slots {
			if table.slots[n].used() {
				used++
			}
		}
		if used != len(order) || table.count != used {
			t.Errorf("%d homes: got %d slots in use and a count of %d, want %d", homes, used, table.count, len(order))
		}
		if len(table.slots) > 3*most+4 {
			t.Errorf("%d homes: got %d slots for at most %d", homes, len(table.slots), most)
		}
	}
}

// One bucket is one line of a cache.
func TestEntrySize(t *testing.T) {
	const line = 64
	var table table
	table.resize(3, false)
	if size := unsafe.Sizeof(entry{}); size != line {
		t.Errorf("got %d bytes, want %d", size, line)
	}
	if at := uintptr(unsafe.Pointer(&table.slots[0])); at%line != 0 {
		t.Errorf("the first is at %x, across two lines", at)
	}
}

func TestAge(t *testing.T) {
	const now, day = limits.Millis(1_800_000_000_000), limits.Millis(24 * 3600 * 1000)
	last := int32(math.MinInt32)
	for _, ago := range []limits.Millis{-day, -1000, 0, 20, 1000, day, 60 * day} { // in the future: the clock was set back
		e := entry{touched: ticks(now - ago)}
		if got := e.age(now); got <= last {
			t.Errorf("touched %d ms ago: an age of %d, want more than %d", ago, got, last)
		} else {
			last = got
		}
	}
}

func TestSlab(t *testing.T) {
	var s slab[int]
	taken := make(map[uint32]int)
	random := rand.New(rand.NewPCG(1, 2))
	for step := range 5000 {
		if random.IntN(5) < 3 {
			n, p := s.take()
			if _, twice := taken[n]; twice || n == 0 || *p != 0 {
				t.Fatalf("step %d: got place %d with %d in it", step, n, *p)
			}
			*p, taken[n] = step, step
			continue
		}
		for n := range taken {
			s.give(n)
			delete(taken, n)
			break
		}
	}
	sum := 0
	for p := range s.all {
		sum += *p
	}
	for n, value := range taken {
		if *s.at(n) != value {
			t.Errorf("place %d: got %d, want %d", n, *s.at(n), value)
		}
		sum -= value
	}
	if sum != 0 || s.len() != len(taken) {
		t.Errorf("got %d places, and %d too much in all, want %d", s.len(), sum, len(taken))
	}
}
