package memstore

// slab keeps what of a bucket does not fit into its entry. Nothing in it ever moves; places that are given back are taken first.
type slab[T any] struct {
	parts []*[slabPart]T
	free  []uint32
	next  uint32
}

const slabPart = 16

// take is a place with nothing in it. Its number is never 0.
func (s *slab[T]) take() (uint32, *T) {
	if last := len(s.free) - 1; last >= 0 {
		n := s.free[last]
		s.free = s.free[:last]
		return n, s.at(n)
	}
	s.next++
	if int(s.next) > slabPart*len(s.parts) {
		s.parts = append(s.parts, new([slabPart]T))
	}
	return s.next, s.at(s.next)
}

func (s *slab[T]) at(n uint32) *T { return &s.parts[(n-1)/slabPart][(n-1)%slabPart] }

// give takes a place back and empties it.
func (s *slab[T]) give(n uint32) {
	var zero T
	*s.at(n) = zero
	s.free = append(s.free, n)
}

// all is an iterator over all places, those with nothing in them among them.
func (s *slab[T]) all(yield func(*T) bool) {
	for n := range s.next {
		if !yield(s.at(n + 1)) {
			return
		}
	}
}
