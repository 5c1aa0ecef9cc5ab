package device

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const name = "gateway_device"

func TestSet(t *testing.T) {
	for _, c := range []struct {
		name   string
		cookie Cookie
		secure bool
		want   string
	}{
		{"plain", Cookie{Name: name, TTL: 90 * day}, false, "gateway_device=v; Path=/; Max-Age=7776000; HttpOnly; SameSite=Lax"},
		{"https", Cookie{Name: name, TTL: time.Hour}, true, "gateway_device=v; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax; Secure"},
		{
			"domain",
			Cookie{Name: "d", Domain: "example.org", TTL: time.Hour},
			true,
			"d=v; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax; Domain=example.org; Secure",
		},
	} {
		if got := c.cookie.Set("v", c.secure); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestCandidates(t *testing.T) {
	var crowd, numbers []string
	for i := range 2 * maxCandidates {
		numbers = append(numbers, fmt.Sprint(i))
		crowd = append(crowd, fmt.Sprint("gateway_device=", i))
	}
	for _, c := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{"no line", nil, nil},
		{"none", []string{"a=1; b=2"}, nil},
		{"one", []string{"a=1; gateway_device=v; b=2"}, []string{"v"}},
		{"equal signs", []string{"gateway_device=v=="}, []string{"v=="}},
		{"two lines", []string{"gateway_device=v", "a=1; gateway_device=w"}, []string{"v", "w"}},
		{"the same twice", []string{"gateway_device=v; gateway_device=v"}, []string{"v"}},
		{"planted before the real one", []string{"gateway_device=1; gateway_device=2; gateway_device=3; gateway_device=4"}, []string{"1", "2", "3", "4"}},
		{"too many", []string{strings.Join(crowd[:maxCandidates+1], "; ")}, numbers[:maxCandidates]},
		{"blanks and empty pairs", []string{";; \tgateway_device = v \t;;"}, []string{"v"}},
		{"no blank", []string{"a=1;gateway_device=v"}, []string{"v"}},
		{"empty value", []string{"gateway_device="}, []string{""}},
		{"no equal sign", []string{"gateway_device; a=gateway_device"}, nil},
		{"in another's value", []string{"a=gateway_device=v; b=1,gateway_device=v"}, nil},
		{"part of a name", []string{"gateway_device2=v; xgateway_device=v"}, nil},
		{"another case", []string{"Gateway_Device=v"}, nil},
	} {
		if got := Candidates(http.Header{"Cookie": c.lines}, name); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// stripped is what of lines is left.
func stripped(lines ...string) []string {
	h := http.Header{"Cookie": lines}
	Strip(h, name)
	return h["Cookie"]
}

func TestStrip(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"nothing to do", `a=1;;  b="2; c" ;`, `a=1;;  b="2; c" ;`},
		{"alone", "gateway_device=v", ""},
		{"alone among empty pairs", " ; gateway_device=v;;\t", ""},
		{"first", "gateway_device=v; a=1", "a=1"},
		{"middle", "a=1; gateway_device=v; b=2", "a=1; b=2"},
		{"last", "a=1; gateway_device=v", "a=1"},
		{"last with a divider", "a=1; gateway_device=v;", "a=1;"},
		{"several", "gateway_device=1; gateway_device=2;a=1;gateway_device=3;  b=2; gateway_device=4", "a=1;  b=2"},
		{"bytes of others", "a=\xff\"é\" ; gateway_device=v;\tb= x y ;;c", "a=\xff\"é\" ;\tb= x y ;;c"},
		{"name not in ASCII beside it", "gateway_device=v; é=1; à=à; gateway_device=v", "é=1; à=à"},
		{"empty pairs beside it", "; gateway_device=v; a=1", "; a=1"},
		{"value with equal signs", "a=1; gateway_device=v==; b=2", "a=1; b=2"},
		{"no value", "a=1; gateway_device; b=2", "a=1; b=2"},
		{"blanks", "a=1; \t gateway_device \t = v ; b=2", "a=1; b=2"},
		{"quoted", `a=1; gateway_device="v"; b=2`, "a=1; b=2"},
		{"quoted divider", `a=1; gateway_device="v; w"; b=2`, `a=1; w"; b=2`},
		{"within the quotes of another", `a="1; gateway_device=v; b=2"`, `a="1; b=2"`},
		{"comma before", "a=1,gateway_device=v; b=2", "a=1; b=2"},
		{"comma after", "a=1; gateway_device=v, b=2", "a=1; b=2"},
		{"commas", "a=1, gateway_device=v, b=2", "a=1, b=2"},
		{"comma first", "gateway_device=v, b=2", "b=2"},
		{"blank before", "a=1 gateway_device=v; b=2", "a=1; b=2"},
		{"blanks before", "a=é \tgateway_device = v; b=2", "a=é; b=2"},
		{"blank and what follows", "a=1 gateway_device=v c=3; b=2", "a=1; b=2"},
		{"equal sign before", "=gateway_device=v; = =gateway_device; b=2", "b=2"},
		{"case", "Gateway_Device=v; GATEWAY_DEVICE=v; b=2", "b=2"},
		{"escapes", "gateway%5Fdevice=v; %67ateway_device=v; gateway%5fdevice%3Dv; b=2", "b=2"},
		{"what PHP reads so", "gateway.device=v; gateway device=v; gateway[device=v; gateway_device[]=v; gateway_device[a][b]=v; b=2", "b=2"},
		{"plus for a blank", "gateway+device=v; +=1; b=2", "+=1; b=2"},
		{"other white space", "\xa0gateway_device=v; \xc2\xa0gateway_device\x85=v; \u3000gateway_device=v; b=2", "b=2"},
		{"in another's value", "a=gateway_device=v; b =gateway_device=v", "a=gateway_device=v; b =gateway_device=v"},
		{"other names", "gateway_device2=v; xgateway_device=v; gateway-device=v; gateway_devic=e; gateway_device.x=1; gateway_devic%=1", "gateway_device2=v; xgateway_device=v; gateway-device=v; gateway_devic=e; gateway_device.x=1; gateway_devic%=1"},
	} {
		want := []string{c.want}
		if c.want == "" {
			want = nil
		}
		if got := stripped(c.line); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", c.name, got, want)
		}
	}
}

func TestStripLines(t *testing.T) {
	lines := []string{"a=1", "gateway_device=v", "b=2; gateway_device=v", "c=3"}
	inbound := http.Header{"Cookie": lines, "Accept": {"*/*"}}
	Strip(inbound, name)
	if got, want := inbound["Cookie"], []string{"a=1", "b=2", "c=3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if lines[1] != "gateway_device=v" || lines[2] != "b=2; gateway_device=v" {
		t.Errorf("the slice that others may hold is %q now", lines)
	}
	alone := http.Header{"Cookie": {"gateway_device=v", ";gateway_device=w"}}
	if Strip(alone, name); len(alone) != 0 {
		t.Errorf("got %v, want no header", alone)
	}
}

func TestStripCostsNothingWhenAbsent(t *testing.T) {
	h := http.Header{"Cookie": {"session=0123456789abcdef; theme=dark; _ga=GA1.2.3; gateway_devic=1", "b=2"}}
	if got := testing.AllocsPerRun(100, func() { Strip(h, name) }); got != 0 {
		t.Errorf("got %.0f allocations, want none", got)
	}
	none := http.Header{}
	if got := testing.AllocsPerRun(100, func() { Strip(none, name); Candidates(none, name) }); got != 0 {
		t.Errorf("without cookies: got %.0f allocations, want none", got)
	}
}

// However a client writes it, no backend reads a cookie of the name, and a second pass finds nothing.
func FuzzStrip(f *testing.F) {
	for _, line := range []string{
		"a=1; gateway_device=v; b=2", `a="1; gateway_device=v; b=2"`, "a=1,gateway_device=v", "a=1 gateway_device=v c=3",
		"gateway%5fdevice=v", "gateway.device[]=v", "\u00a0gateway_device\u3000=v", "=gateway_device==", ";;,, gateway_device",
		"gateway_device \xffgateway_device=v", "gateway[device%00=v", `gateway_device="a\";b"`, "gateway_device%20=v;+gateway_device=w",
	} {
		f.Add(line, "c=3")
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		got := stripped(first, second)
		for _, line := range got {
			if holds(line, name) {
				t.Errorf("%q of %q and %q holds one still", line, first, second)
			}
			if strings.Trim(line, "; \t,") == "" && line != first && line != second {
				t.Errorf("%q of %q and %q is an empty line", line, first, second)
			}
		}
		all := strings.Join(got, "; ")
		for backend, read := range backends {
			if names := read(all); slices.Contains(names, name) {
				t.Errorf("%s reads %q in %q, which is left of %q and %q", backend, names, all, first, second)
			}
		}
		if len(got) == 2 && !holds(first, name) && !holds(second, name) && (got[0] != first || got[1] != second) {
			t.Errorf("%q and %q became %q", first, second, got)
		}
	})
}

// Cookies of others, written as browsers do, are never touched, wherever ours stands.
func FuzzStripKeepsOthers(f *testing.F) {
	f.Add("session", "abc==", "theme", `"dark"`, uint8(1))
	f.Add("é", "à", "x-gateway_device", "gateway_device=1", uint8(0))
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string, at uint8) {
		for _, s := range []string{k1, v1, k2, v2} {
			if strings.ContainsAny(s, "; \t,") || s == "" {
				return
			}
		}
		pairs := []string{k1 + "=" + v1, k2 + "=" + v2}
		want := strings.Join(pairs, "; ")
		if holds(want, name) {
			return
		}
		line := strings.Join(slices.Insert(pairs, int(at)%3, name+"="+golden), "; ")
		if got := stripped(line); len(got) != 1 || got[0] != want {
			t.Errorf("%q became %q, want %q", line, got, want)
		}
	})
}

func BenchmarkStrip(b *testing.B) {
	absent := http.Header{"Cookie": {"session=0123456789abcdef0123456789abcdef; theme=dark; _ga=GA1.2.1234567890.1234567890; csrftoken=abcdefghijklmnopqrstuvwxyz"}}
	for b.Loop() {
		Strip(absent, name)
	}
}
