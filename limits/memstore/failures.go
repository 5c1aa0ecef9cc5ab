package memstore

import (
	"math"

	"authgate/limits"
)

// failure is what a failure bucket has besides its entry. The key is kept since operators see it.
type failure struct {
	id      id
	key     string
	rule    *limits.Rule
	log     limits.FailureLog
	listing uint32 // 1 + position in shard.listed; 0: not listed
	weight  uint16 // beyond that of every bucket
	saved   bool   // the file has it, or is about to
}

func (f *failure) used() bool { return f.rule != nil }

// weigh takes the size of a failure bucket into account.
func (sh *shard) weigh(f *failure) {
	w := min(len(f.log.Log)/8+len(f.log.Live)/4, math.MaxUint16) // no rule allows so much, but a file may hold it
	sh.weight += w - int(f.weight)
	f.weight = uint16(w)
}

// list makes a failure bucket visible to operators.
func (sh *shard) list(n uint32) {
	if f := sh.failures.at(n); f.listing == 0 {
		sh.listed = append(sh.listed, n)
		f.listing = uint32(len(sh.listed))
	}
}

// save has the file follow a failure bucket that was changed, if it is worth that or was.
func (sh *shard) save(f *failure, now limits.Millis) {
	if sh.file == nil {
		return
	}
	if f.saved = f.saved || lasting(&f.log, f.rule, now); f.saved {
		sh.file.markFailure(f.key)
	}
}

// dropFailure forgets what a failure bucket has besides its entry.
func (sh *shard) dropFailure(n uint32) {
	f := sh.failures.at(n)
	sh.weight -= int(f.weight)
	if f.saved {
		sh.file.markFailure(f.key)
	}
	if f.listing > 0 {
		last := len(sh.listed) - 1
		moved := sh.listed[last]
		sh.listed[f.listing-1] = moved
		sh.failures.at(moved).listing = f.listing
		sh.listed = sh.listed[:last]
	}
	sh.failures.give(n)
}
