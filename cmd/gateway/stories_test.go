package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"authgate/internal/acmetest"
	"authgate/internal/valkeytest"
)

// TestMain lets the scripts run this very binary as the command "gateway".
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gateway": main})
}

// TestStories runs testdata/stories: a configuration, a backend, requests, and what they get. Beside the usual commands of
// testscript there are
//
//	valkey start | kill | restart     a real server at $VALKEY
//	ready URL                         waits until it answers 200
//	to URL                            the gateway that requests go to from now on
//	browser NAME                      whose cookies requests carry from now on, each with a jar of its own; at first nobody's
//	cookie NAME [VALUE]               changes a cookie of the browser; alone: deletes it; flip: turns a bit of it; of:OTHER: takes
//	                                  that of another browser
//	header [NAME VALUE]               sent with every request from now on; alone: none
//	POST PATH [NAME=VALUE...]         a form; one argument that begins with { is sent as JSON
//	GET PATH, DELETE PATH
//	repeat N COMMAND...               COMMAND N times; every %d in it is the number
//	parallel N URL[,URL] PATH BODY    N requests at once, spread over the gateways
//	want STATUS [REGEXP]              of the last answer
//	wantheader NAME VALUE             "" is none
//	wantbody TEXT                     exactly
//	wantcount STATUS N                how many of the last repeat or parallel got it
//	within DURATION                   the last request, repeat or parallel took no longer
//	logged FILE N REGEXP              waits until FILE has N lines that match, and no more
//
// and those of authority_test.go. $A, $B and $C are free addresses, $AA, $BB and $CC more of them, $A_PORT and so on their ports.
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/stories",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Values["story"] = &story{t: t, client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
			for _, name := range []string{"A", "B", "C", "AA", "BB", "CC"} {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					return err
				}
				defer l.Close() // after all are taken, so that none comes twice
				e.Setenv(name, l.Addr().String())
				e.Setenv(name+"_PORT", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
			}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"valkey": on((*story).valkey), "ready": on((*story).ready), "to": on((*story).to), "header": on((*story).header),
			"browser": on((*story).browser), "cookie": on((*story).cookie),
			"POST": on((*story).post), "GET": on((*story).get), "DELETE": on((*story).del),
			"repeat": on((*story).repeat), "parallel": on((*story).parallel),
			"want": on((*story).want), "wantheader": on((*story).wantHeader), "wantbody": on((*story).wantBody),
			"authority": on((*story).runAuthority), "pair": on((*story).makePair),
			"wantcount": on((*story).wantCount), "within": on((*story).within), "logged": on((*story).logged),
		},
	})
}

// story is what one script has set up, and what it got last.
type story struct {
	t      *testing.T
	client *http.Client
	server *valkeytest.Server

	authority *acmetest.Authority

	base  string
	extra http.Header
	jar   map[string]string            // the cookies of the browser, by name; nil: none are kept
	jars  map[string]map[string]string // those of all browsers

	status int
	answer http.Header
	body   string
	took   time.Duration
	counts map[int]int
}

func on(f func(*story, *testscript.TestScript, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg {
			ts.Fatalf("this command has no negation")
		}
		f(ts.Value("story").(*story), ts, args)
	}
}

func (s *story) valkey(ts *testscript.TestScript, args []string) {
	switch {
	case len(args) == 1 && args[0] == "start":
		s.server = valkeytest.Start(s.t)
		ts.Setenv("VALKEY", s.server.Addr())
	case len(args) == 1 && args[0] == "kill":
		s.server.Kill()
	case len(args) == 1 && args[0] == "restart":
		s.server.Restart()
	default:
		ts.Fatalf("usage: valkey start | kill | restart")
	}
}

// patience is how long a condition may take on a busy machine.
const patience = 20 * time.Second

func (s *story) ready(ts *testscript.TestScript, args []string) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		res, err := http.Get(args[0])
		if err != nil {
			continue
		}
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return
		}
	}
	ts.Fatalf("%s does not answer", args[0])
}

func (s *story) to(_ *testscript.TestScript, args []string) { s.base = args[0] }

func (s *story) header(_ *testscript.TestScript, args []string) {
	if len(args) < 2 {
		s.extra = nil
		return
	}
	if s.extra == nil {
		s.extra = http.Header{}
	}
	s.extra.Set(args[0], args[1])
}

// browser keeps cookies by name alone: a story has one site.
func (s *story) browser(_ *testscript.TestScript, args []string) {
	if s.jars == nil {
		s.jars = make(map[string]map[string]string)
	}
	if s.jars[args[0]] == nil {
		s.jars[args[0]] = make(map[string]string)
	}
	s.jar = s.jars[args[0]]
}

func (s *story) cookie(ts *testscript.TestScript, args []string) {
	old, ok := s.jar[args[0]]
	switch {
	case len(args) == 1:
		delete(s.jar, args[0])
	case args[1] == "flip" && !ok:
		ts.Fatalf("the browser has no cookie %s", args[0])
	case args[1] == "flip":
		b := []byte(old)
		b[len(b)/2] ^= 1
		s.jar[args[0]] = string(b)
	default:
		s.jar[args[0]] = strings.TrimPrefix(args[1], "=")
		if from, theft := strings.CutPrefix(args[1], "of:"); theft {
			s.jar[args[0]] = s.jars[from][args[0]]
		}
	}
}

func (s *story) post(ts *testscript.TestScript, args []string) {
	s.do(ts, http.MethodPost, args[0], args[1:])
}

func (s *story) get(ts *testscript.TestScript, args []string) { s.do(ts, http.MethodGet, args[0], nil) }

func (s *story) del(ts *testscript.TestScript, args []string) {
	s.do(ts, http.MethodDelete, args[0], nil)
}

func (s *story) do(ts *testscript.TestScript, method, path string, fields []string) {
	began := time.Now()
	status, answer, body, err := s.request(s.base, method, path, fields)
	if err != nil {
		ts.Fatalf("%s %s: %v", method, path, err)
	}
	s.status, s.answer, s.body, s.took = status, answer, body, time.Since(began)
}

func (s *story) request(base, method, path string, fields []string) (int, http.Header, string, error) {
	body, kind := strings.Join(fields, "&"), "application/x-www-form-urlencoded"
	if strings.HasPrefix(body, "{") {
		kind = "application/json"
	}
	r, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	if body != "" {
		r.Header.Set("Content-Type", kind)
	}
	for name, values := range s.extra {
		r.Header[name] = values
	}
	for name, value := range s.jar {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	res, err := s.client.Do(r)
	if err != nil {
		return 0, nil, "", err
	}
	defer res.Body.Close()
	for _, c := range res.Cookies() {
		switch {
		case s.jar == nil:
		case c.MaxAge < 0:
			delete(s.jar, c.Name)
		default:
			s.jar[c.Name] = c.Value
		}
	}
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, string(b), err
}

func (s *story) repeat(ts *testscript.TestScript, args []string) {
	n := number(ts, args[0])
	s.counts = map[int]int{}
	began, slowest := time.Now(), time.Duration(0)
	for i := 1; i <= n; i++ {
		var fields []string
		for _, a := range args[3:] {
			fields = append(fields, strings.ReplaceAll(a, "%d", strconv.Itoa(i)))
		}
		s.do(ts, args[1], strings.ReplaceAll(args[2], "%d", strconv.Itoa(i)), fields)
		s.counts[s.status]++
		slowest = max(slowest, s.took)
	}
	_ = began
	s.took = slowest // of one request
}

func (s *story) parallel(ts *testscript.TestScript, args []string) {
	n, bases := number(ts, args[0]), strings.Split(args[1], ",")
	s.counts = map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	var failed error
	began := time.Now()
	for i := range n {
		all.Add(1)
		go func() {
			defer all.Done()
			status, _, _, err := s.request(bases[i%len(bases)], http.MethodPost, args[2], args[3:])
			mu.Lock()
			defer mu.Unlock()
			s.counts[status]++
			if err != nil {
				failed = err
			}
		}()
	}
	all.Wait()
	s.took = time.Since(began)
	if failed != nil {
		ts.Fatalf("parallel: %v", failed)
	}
}

func (s *story) want(ts *testscript.TestScript, args []string) {
	if want := number(ts, args[0]); s.status != want {
		ts.Fatalf("got %d %s, want %d", s.status, s.body, want)
	}
	if len(args) > 1 && !regexp.MustCompile(args[1]).MatchString(s.body) {
		ts.Fatalf("got %q, want it to match %q", s.body, args[1])
	}
}

func (s *story) wantHeader(ts *testscript.TestScript, args []string) {
	if got := s.answer.Get(args[0]); got != args[1] {
		ts.Fatalf("got %s %q, want %q", args[0], got, args[1])
	}
}

func (s *story) wantBody(ts *testscript.TestScript, args []string) {
	if s.body != args[0] {
		ts.Fatalf("got %s\nwant %s", s.body, args[0])
	}
}

func (s *story) wantCount(ts *testscript.TestScript, args []string) {
	if got, want := s.counts[number(ts, args[0])], number(ts, args[1]); got != want {
		ts.Fatalf("got %d answers %s, want %d; all: %v", got, args[0], want, s.counts)
	}
}

func (s *story) within(ts *testscript.TestScript, args []string) {
	most, err := time.ParseDuration(args[0])
	if err != nil {
		ts.Fatalf("%v", err)
	}
	if s.took > most {
		ts.Fatalf("took %s, want at most %s", s.took, most)
	}
}

func (s *story) logged(ts *testscript.TestScript, args []string) {
	want, line := number(ts, args[1]), regexp.MustCompile("(?m)^.*"+args[2]+".*$")
	got := 0
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		if err != nil {
			ts.Fatalf("%v", err)
		}
		if got = len(line.FindAll(bytes.TrimSpace(b), -1)); got >= want {
			break
		}
	}
	if got != want {
		ts.Fatalf("%d lines of %s match %q, want %d", got, args[0], args[2], want)
	}
}

func number(ts *testscript.TestScript, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		ts.Fatalf("%v", fmt.Errorf("a number was expected: %w", err))
	}
	return n
}
