package hostile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"authgate/limits"
	"authgate/limits/memstore"
)

// hasty are the gateway's limits of time against those who dawdle. Honest requests here are whole at once.
const hasty = "read_header_timeout: 2s, read_body_timeout: 2s, idle_timeout: 2s, max_header_bytes: 64KiB"

const abusePolicies = `
policies:
  login:
    match: [{methods: [POST], path: /login}]
    target: {from: ["json:/username", "form:username", "multipart:username", "xml://username"], on_missing: share}
    requests: {target: {limit: 5, window: 24h}}
`

// crowd is how many connections an attack opens.
const crowd = 200

// TestAbuse: whatever a crowd of clients does, memory and goroutines stay bounded, others are answered meanwhile, and
// afterwards nothing of it is left.
func TestAbuse(t *testing.T) {
	count := class("abuse of resources")
	for _, a := range []struct {
		name   string
		limits string
		attack func(t *testing.T, tally *tally, s *abused)
	}{
		{"dawdlers", hasty, dawdlers},
		{"slow bodies that nobody reads", hasty, slowStreams},
		{"slow readers", hasty, slowReaders},
		{"more connections than allowed", hasty + ", max_connections: 50", overcrowded},
		{"large headers", hasty, largeHeaders},
		{"bombs", patient, bombs},
		{"long names", patient, longNames},
		{"chunks of nothing", patient, tinyChunks},
		{"pipelines", patient, pipelines},
		{"costly bodies", patient, costlyBodies},
		{"floods of HTTP/2", hasty, floods2},
	} {
		t.Run(a.name, func(t *testing.T) {
			b := &counting{}
			s := &abused{site: beginDirect(t, inProcess(t, b), a.limits, abusePolicies), backend: b}
			s.account.quiet = true
			s.watch(t, count, func() { a.attack(t, count, s) })
		})
	}
}

// abused is a gateway under attack.
type abused struct {
	*site
	backend *counting
}

// counting is a backend that counts logins, and has a large answer.
type counting struct {
	logins atomic.Int64
	read   atomic.Int64 // bytes of bodies
}

const largeAnswer = 16 << 20

func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body)
	c.read.Add(n)
	switch r.URL.Path {
	case "/login":
		c.logins.Add(1)
	case "/large":
		w.Header().Set("Content-Length", strconv.Itoa(largeAnswer))
		piece := make([]byte, 64<<10)
		for range largeAnswer / len(piece) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
}

// Bounds of what an attack may cost beyond what there was before, in this process, which is attacker, gateway and backend in one.
const (
	maxGrowth     = 96 << 20   // bytes in use at any time
	maxGoroutines = 12 * crowd // at any time: a server's, a gateway's and a backend's for each connection
	maxLeft       = 16 << 20   // bytes in use afterwards
	leftover      = 20         // goroutines afterwards, such as those of idle connections
	honestPause   = 5 * time.Millisecond
)

// watch runs an attack beside honest logins, and holds what it costs against the bounds.
func (s *abused) watch(t *testing.T, tally *tally, attack func()) {
	before, goroutines := inUse(true), runtime.NumGoroutine()
	over, stopped := make(chan struct{}), make(chan struct{})
	var mostBytes uint64
	mostGoroutines, answered := 0, 0
	go func() {
		defer close(stopped)
		conn := open(t, s.addr())
		defer conn.close()
		for i := 0; ; i++ {
			mostBytes, mostGoroutines = max(mostBytes, inUse(false)), max(mostGoroutines, runtime.NumGoroutine())
			a, err := conn.ask(signIn("/login", fmt.Sprint("honest", i)))
			if err == nil && a.status == 200 {
				answered++
			} else if err == nil || i == 0 || conn.refusedTwice(err) {
				tally.evasion(t, "%s: an honest login got %d, %v", t.Name(), a.status, err)
				return
			}
			select {
			case <-over:
				return
			case <-time.After(honestPause):
			}
		}
	}()
	attack()
	close(over)
	<-stopped
	if growth := int64(mostBytes) - int64(before); growth > maxGrowth {
		tally.evasion(t, "%s: %d MiB of memory", t.Name(), growth>>20)
	}
	if grown := mostGoroutines - goroutines; grown > maxGoroutines {
		tally.evasion(t, "%s: %d goroutines", t.Name(), grown)
	}
	if answered == 0 {
		t.Error("no honest login was answered")
	}
	tally.also("honest logins meanwhile", answered)
	if !eventually(func() bool { return runtime.NumGoroutine() <= goroutines+leftover }) {
		tally.evasion(t, "%s: left %d goroutines", t.Name(), runtime.NumGoroutine()-goroutines)
	}
	if left := int64(inUse(true)) - int64(before); left > maxLeft {
		tally.evasion(t, "%s: left %d MiB of memory", t.Name(), left>>20)
	}
}

// refusedTwice reports whether asking failed for another reason than that the idle connection had been closed meanwhile.
func (c *client) refusedTwice(err error) bool {
	if err == nil {
		return false
	}
	_, again := c.ask(signIn("/login", fmt.Sprint("again", time.Now().UnixNano())))
	return again != nil
}

// inUse are the bytes of live objects as the last collection found them, and one is made if exact. What is dead and not collected
// yet does not count: how much that is depends on when the collector runs, and at the bound it would say nothing about who keeps it.
func inUse(exact bool) uint64 {
	if exact {
		runtime.GC()
		runtime.GC() // what pools keep lives for two
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func eventually(holds func() bool) bool {
	for end := time.Now().Add(answerTime); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// dial opens many connections, and says the same on each.
func (s *abused) dial(t *testing.T, tally *tally, n int, say string) []net.Conn {
	tally.try(n)
	conns := make([]net.Conn, n)
	for i := range conns {
		conn, err := net.DialTimeout("tcp", s.addr(), answerTime)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(answerTime))
		if _, err := io.WriteString(conn, say); err != nil {
			t.Fatal(err)
		}
		conns[i] = conn
	}
	return conns
}

// dribble says a byte on every connection now and then, until the gateway has closed all, or for so many rounds.
func dribble(conns []net.Conn, rounds int) {
	for i := range rounds {
		for _, conn := range conns {
			_, _ = conn.Write([]byte{"ab:\r\nc"[i%6]})
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// wantClosed waits until the gateway has closed every connection, with an answer or without.
func wantClosed(t *testing.T, tally *tally, conns []net.Conn) {
	for _, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(answerTime))
		if _, err := io.Copy(io.Discard, conn); err != nil {
			if e, ok := err.(net.Error); ok && e.Timeout() {
				tally.evasion(t, "%s: a connection is not closed", t.Name())
				return
			}
		}
		_ = conn.Close()
	}
}

// dawdlers never finish a header or a body that is read, never begin, or never go on. All are closed.
func dawdlers(t *testing.T, tally *tally, s *abused) {
	conns := s.dial(t, tally, crowd, "POST /login HTTP/1.1\r\nHost: a\r\nX: ")
	conns = append(conns, s.dial(t, tally, crowd, begun("/login")+"Content-Length: 60000\r\n\r\n{")...)
	idle := s.dial(t, tally, crowd, "")
	idle = append(idle, s.dial(t, tally, crowd/3, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")...)
	dribble(conns, 10)
	wantClosed(t, tally, append(conns, idle...))
}

// overcrowded are more idle connections than the gateway has places. Those who wait get theirs.
func overcrowded(t *testing.T, tally *tally, s *abused) {
	wantClosed(t, tally, s.dial(t, tally, crowd/2-10, ""))
}

// slowStreams are bodies of requests that no policy reads: the backend may have them as slowly as it likes.
func slowStreams(t *testing.T, tally *tally, s *abused) {
	conns := s.dial(t, tally, crowd, "POST /open HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
	dribble(conns, 10)
	for _, conn := range conns {
		_ = conn.Close()
	}
}

func slowReaders(t *testing.T, tally *tally, s *abused) {
	conns := s.dial(t, tally, crowd/3, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
	for _, conn := range conns {
		_, _ = conn.Read(make([]byte, 100)) // it has begun
	}
	time.Sleep(200 * time.Millisecond) // in which it fills whatever it fills
	for _, conn := range conns {
		_ = conn.Close()
	}
}

func largeHeaders(t *testing.T, tally *tally, s *abused) {
	var messages []string
	for _, header := range []string{
		"X: " + strings.Repeat("y", 1<<20), strings.Repeat("X: y\r\n", 100_000), strings.Repeat("x", 1<<20) + ": y", strings.Repeat("X\r\n", 50_000), "Cookie: " + strings.Repeat("a=b; ", 200_000), "X-Forwarded-For: " + strings.Repeat("1.1.1.1,", 100_000), "Connection: " + strings.Repeat("x,", 400_000),
		"Content-Type: " + strings.Repeat(";charset=", 100_000), "X: y\r\n" + strings.Repeat(" z\r\n", 100_000), "Authorization: Basic " + strings.Repeat("YWFh", 200_000),
		// and what is just let through
		"X: " + strings.Repeat("y", 60<<10), "Cookie: " + strings.Repeat("a=b; ", 12_000), "X-Forwarded-For: " + strings.Repeat("1.1.1.1,", 7_000), "Connection: " + strings.Repeat("x,", 30_000), strings.Repeat("X: y\r\n", 10_000), "Content-Type: " + strings.Repeat(";charset=utf-8", 4_000), "Content-Type: multipart/form-data" + strings.Repeat(";boundary=a", 5_000),
		"Transfer-Encoding: " + strings.Repeat("chunked,", 7_000), "Content-Encoding: " + strings.Repeat("identity,", 6_000), "Accept-Encoding: " + strings.Repeat("gzip;q=0.1,", 5_000), "Content-Length: " + strings.Repeat("0", 60_000), "Host: " + strings.Repeat("a", 60_000), "Trailer: " + strings.Repeat("X,", 30_000), "TE: " + strings.Repeat("trailers,", 6_000),
		"Upgrade: " + strings.Repeat("h2c,", 15_000), "X-HTTP-Method-Override: " + strings.Repeat("GET,", 15_000), "X-Original-URL: " + strings.Repeat("/../%2e%2e/;", 5_000), "Cookie: " + strings.Repeat("a", 60_000), "Range: bytes=" + strings.Repeat("0-1,", 15_000),
	} {
		for _, path := range []string{"/login", "/open"} {
			messages = append(messages, "POST "+path+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"+header+"\r\nContent-Length: 2\r\n\r\n{}")
		}
	}
	for _, target := range []string{
		"/" + strings.Repeat("a", 60_000), "/" + strings.Repeat("../", 20_000), "/" + strings.Repeat("%2e%2e%2f", 6_000) + "login", strings.Repeat("/login", 10_000), "/" + strings.Repeat(";", 60_000), "/" + strings.Repeat("%25", 20_000) + "6cogin", "/login?" + strings.Repeat("a=b&", 15_000), "/login?" + strings.Repeat("username=x&", 5_000), "/login?" + strings.Repeat("_method=GET&", 5_000),
		strings.Repeat("/..;", 15_000), "/" + strings.Repeat("\\", 60_000), strings.Repeat("/%2f", 15_000), "/login?username" + strings.Repeat("[", 30_000),
	} {
		messages = append(messages, string(post(target, "application/json", "{}", "Connection: close")))
	}
	s.throwEach(t, tally, messages)
}

// throwEach sends messages that may get any answer, if only there is an end.
func (s *abused) throwEach(t *testing.T, tally *tally, messages []string) {
	tally.try(len(messages))
	parallel(messages, 8, func(message string) {
		if _, err := throw(s.addr(), []byte(message), answerTime/2); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("reading the answer: %v", err)
		}
	})
}

// bombs are small bodies that grow when they are decoded. None may be decoded whole, nor reach the backend.
func bombs(t *testing.T, tally *tally, s *abused) {
	const size = 24 << 20
	before := s.backend.read.Load()
	honest := s.backend.logins.Load()
	for coding, bomb := range packedZeros(size) {
		for _, contentType := range []string{"application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=B", "application/xml", "text/plain", ""} {
			parallel(make([]int, 8), 8, func(int) {
				tally.try(1)
				conn := open(t, s.addr())
				defer conn.close()
				a, err := conn.ask(post("/login", contentType, string(bomb), "Content-Encoding: "+coding))
				if err == nil && a.status != 415 && a.status != 413 {
					tally.evasion(t, "%s: a bomb of %d bytes in %s got %d", t.Name(), len(bomb), coding, a.status)
				}
			})
		}
	}
	if read := s.backend.read.Load() - before; read > 200*(s.backend.logins.Load()-honest) {
		tally.evasion(t, "%s: the backend got %d bytes", t.Name(), read)
	}
}

// packedZeros are so many zeros in every coding, small enough to be read.
func packedZeros(size int) map[string][]byte {
	packed := map[string][]byte{}
	for coding, open := range map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip":              func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, gzip.BestCompression) },
		"deflate":           func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriterLevel(w, zlib.BestCompression) },
		"deflate, identity": func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) },
		"br":                func(w io.Writer) (io.WriteCloser, error) { return brotli.NewWriter(w), nil },
		"zstd":              func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) },
	} {
		var out bytes.Buffer
		w, err := open(&out)
		if err != nil {
			panic(err) // of options that are constant
		}
		piece := make([]byte, 64<<10)
		for range size / len(piece) {
			_, _ = w.Write(piece)
		}
		_ = w.Close()
		packed[coding] = out.Bytes()
	}
	return packed
}

// longNames are as long as bodies may be. What is kept of each is a digest.
func longNames(t *testing.T, tally *tally, s *abused) {
	const n = 600
	before := inUse(true)
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	tally.try(n)
	parallel(list, 8, func(i int) {
		conn := open(t, s.addr())
		defer conn.close()
		name := fmt.Sprint(i, strings.Repeat("n", 60<<10))
		if a, err := conn.ask(signIn("/login", name)); err != nil || a.status != 200 {
			tally.evasion(t, "%s: got %d, %v", t.Name(), a.status, err)
		}
	})
	if growth := int64(inUse(true)) - int64(before); growth > 8<<20 {
		tally.evasion(t, "%s: %d names take %d MiB", t.Name(), n, growth>>20)
	}
}

// tinyChunks are bodies in chunks of one byte, with as much around each as the gateway bears, and chunks without end.
func tinyChunks(t *testing.T, tally *tally, s *abused) {
	var messages []string
	for _, chunk := range []string{"1\r\n \r\n", "1;" + strings.Repeat("x", 14) + "\r\n \r\n", "1;" + strings.Repeat("x", 1000) + "\r\n \r\n", "0000000000000001\r\n \r\n"} {
		for _, path := range []string{"/login", "/open"} {
			messages = append(messages, "POST "+path+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"+strings.Repeat(chunk, 2<<20/len(chunk))+"0\r\n\r\n")
		}
	}
	s.throwEach(t, tally, messages)
}

// pipelines ask for more before they have an answer. All are answered, and counted one by one.
func pipelines(t *testing.T, tally *tally, s *abused) {
	const many = 400
	before := s.backend.logins.Load()
	var honest atomic.Int64
	parallel([]string{"a", "b", "c", "d"}, 4, func(name string) {
		tally.try(many)
		raw := bytes.Repeat(signIn("/login", "pipeline-"+name), many-1)
		raw = append(raw, signIn("/login", "pipeline-"+name, "Connection: close")...)
		answers, err := throw(s.addr(), raw, answerTime/2)
		passed := 0
		for _, a := range answers {
			if a.status == 200 {
				passed++
			}
		}
		if len(answers) != many || passed != 5 {
			tally.evasion(t, "%s: %d answers, of which %d passed, %v; want %d and 5", t.Name(), len(answers), passed, err, many)
		}
		honest.Add(int64(passed))
	})
	if s.backend.logins.Load()-before < honest.Load() {
		t.Error("the backend saw less than was answered")
	}
}

// costlyBodies are as large as they may be, and made to cost as much as they can.
func costlyBodies(t *testing.T, tally *tally, s *abused) {
	const n = 60 << 10
	fill := func(piece string) string { return strings.Repeat(piece, n/len(piece)) }
	for _, c := range []struct{ contentType, body string }{
		{"application/json", fill("[")},
		{"application/json", fill(`{"a":`)},
		{"application/json", `{"a":"` + fill(`\u0061`) + `"}`},
		{"application/json", "{" + fill(`"username":1,`) + `"a":1}`},
		{"application/json", `{"username":"` + fill("\u0130") + `"}`},
		{"application/json", "[" + fill("{},") + "{}]"},
		{"application/json", `{"a":` + fill("1") + "}"},
		{"application/json", `{"username":"` + fill("\u0390") + `"}`},
		{"application/json", `{"username":"` + fill("\ufdfa") + `"}`},
		{"application/json", `{"username":"` + fill("a\u0300") + `"}`},
		{"application/json", `{"username":"` + fill("\u0315\u0300\u05ae\u0300") + `"}`},
		{"application/json", fill(" ") + "{}"},
		{"application/json", `{"x":"` + fill("&username=") + `"}`},
		{"application/x-www-form-urlencoded", fill("username=a&")},
		{"application/x-www-form-urlencoded", fill("&")},
		{"application/x-www-form-urlencoded", fill("%")},
		{"application/x-www-form-urlencoded", fill("%25")},
		{"application/x-www-form-urlencoded", "username" + fill("[")},
		{"application/x-www-form-urlencoded", fill("a;")},
		{"application/x-www-form-urlencoded", "operations=" + fill("%5B")},
		{"multipart/form-data; boundary=B", fill("--B\r\n")},
		{"multipart/form-data; boundary=B", fill("\r\n--B")},
		{"multipart/form-data; boundary=B", "--B\r\n" + fill("A: b\r\n")},
		{"multipart/form-data; boundary=B", fill("--B\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n")},
		{"multipart/form-data; boundary=B", "--B\r\nContent-Disposition: form-data" + fill("; name=a")},
		{"multipart/form-data; boundary=-", fill("-")},
		{"application/xml", fill("<a>")},
		{"application/xml", fill("<")},
		{"application/xml", "<a>" + fill("&#118;") + "</a>"},
		{"application/xml", "<a " + fill("a='b' ") + "/>"},
		{"application/xml", "<!DOCTYPE a [" + fill("<!ENTITY a '&b;'>") + "]><a/>"},
		{"application/xml", fill("<!---->") + "<a/>"},
		{"application/xml", "<a>" + fill("<![CDATA[]]>") + "</a>"},
		{"application/xml", "<a>" + fill("<username>b</username>") + "</a>"},
		{"", fill("{")},
		{"", fill("<a>")},
		{"", fill("a=b&")},
		{"", fill("-")},
		{"text/plain", fill("\x00")},
		{"text/plain", fill("\xff\xfe")},
		{"application/json; charset=utf-16", fill("\xd8\x00")},
		{"application/json", fill("/**/")},
		{"application/json", "/*" + fill("*")},
	} {
		for range 3 {
			tally.try(1)
			conn := open(t, s.addr())
			a, err := conn.ask(post("/login", c.contentType, c.body))
			conn.close()
			if err != nil || a.status >= 500 {
				tally.evasion(t, "%s: %s %q got %d, %v", t.Name(), c.contentType, c.body[:20], a.status, err)
			}
		}
	}
}

// TestManyNames: a million names that nobody has heard of take no more memory than the store's bound allows.
func TestManyNames(t *testing.T) {
	const names, entries = 1_000_000, 50_000
	tally := class("invented names")
	store := memstore.New(memstore.Config{MaxEntries: entries})
	defer store.Close()
	limiter := limits.NewLimiter(store)
	rule := &limits.Rule{Policy: "login", Dimension: limits.Target, Limit: 5, Window: 24 * time.Hour}
	scope := limits.NewScope(rule, "default")
	before := inUse(true)
	for i := range names {
		a := &limits.Attempt{Charges: []limits.Charge{{Rule: rule, Key: scope.Key("invented-" + strconv.Itoa(i) + "@example.com")}}}
		d, _, err := limiter.Decide(context.Background(), a, 0)
		if err != nil || !d.Admitted {
			t.Fatalf("got %v, %v", d, err)
		}
	}
	tally.try(names)
	if growth := int64(inUse(true)) - int64(before); growth > 400*entries {
		tally.evasion(t, "%d names take %d KiB", names, growth>>10)
	} else {
		tally.also("KiB in use for them", int(max(growth, 0)>>10))
	}
}
