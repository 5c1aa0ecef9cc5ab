package field

import (
	"net/http"
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want http.Header // nil: no fields
	}{
		{"", http.Header{}},
		{"a: b\r\nA:c \r\nx-Y:\t\r\n", http.Header{"A": {"b", "c"}, "X-Y": {""}}},
		{"A: b: c\xff\r\n", http.Header{"A": {"b: c\xff"}}},
		{"A: b", nil},
		{"A: b\n", nil},
		{"\nA: b\r\n", nil},
		{"A\r\n", nil},
		{": b\r\n", nil},
		{"A : b\r\n", nil},
		{"A: b\r\n c\r\n", nil},
		{"A: b\rc\r\n", nil},
		{"A: b\x00\r\n", nil},
	} {
		got, ok := Parse(c.in)
		if ok != (c.want != nil) || ok && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: got %q, %v, want %q", c.in, got, ok, c.want)
		}
	}
}
