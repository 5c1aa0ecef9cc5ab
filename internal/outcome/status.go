package outcome

import (
	"fmt"
	"strconv"
)

// The status codes that HTTP can carry: three digits, the first of them not zero.
const (
	minStatus = 100
	maxStatus = 999
)

// statusSet is a set of status codes. The zero value is empty.
type statusSet [(maxStatus - minStatus + 64) / 64]uint64

func (s *statusSet) has(code int) bool {
	i := uint(code - minStatus)
	return i <= maxStatus-minStatus && s[i/64]&(1<<(i%64)) != 0
}

func (s *statusSet) add(code int) {
	i := uint(code - minStatus)
	s[i/64] |= 1 << (i % 64)
}

// addAll adds every code from low up to and including high.
func (s *statusSet) addAll(low, high int) {
	for code := low; code <= high; code++ {
		s.add(code)
	}
}

func (s *statusSet) contains(other *statusSet) bool {
	for i := range s {
		if other[i]&^s[i] != 0 {
			return false
		}
	}
	return true
}

func (s *statusSet) meets(other *statusSet) bool {
	for i := range s {
		if other[i]&s[i] != 0 {
			return true
		}
	}
	return false
}

func (s *statusSet) meetsRange(low, high int) bool {
	other := statusSet{}
	other.addAll(low, high)
	return s.meets(&other)
}

// addText adds a code (`302`) or a class (`2xx`).
func (s *statusSet) addText(text string) error {
	if len(text) == 3 && (text[1:] == "xx" || text[1:] == "XX") && text[0] >= '1' && text[0] <= '5' {
		low := int(text[0]-'0') * 100
		s.addAll(low, low+99)
		return nil
	}
	code, err := strconv.Atoi(text)
	if err != nil || len(text) != 3 || code < minStatus {
		return fmt.Errorf("%q is no status, use a code such as 302 or a class such as 2xx", text)
	}
	s.add(code)
	return nil
}
