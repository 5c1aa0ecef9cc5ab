package hostile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"log"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// startGo starts a login server as people write them in Go.
func startGo() (*backend, error) {
	b, _, err := newGo(false)
	return b, err
}

func newGo(behind bool) (*backend, string, error) {
	b := &backend{names: true, whole: true}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	g := &goServer{b: b, mux: http.NewServeMux(), behind: behind}
	for _, pattern := range []string{"/login", "/login/{$}", "/login.php", "/in/{kind}", "auth.test/hosted"} {
		g.mux.Handle(pattern, http.NotFoundHandler())
	}
	s := &http.Server{Handler: g, MaxHeaderBytes: 1 << 20, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = s.Serve(l) }()
	b.dial, b.end = dialer("tcp", l.Addr().String()), func() { _ = s.Close() }
	return b, l.Addr().String(), nil
}

// goServer tells what it makes of a request. Its mux only says where a request goes, also where the mux would first have
// the client ask again by a cleaner path.
type goServer struct {
	b   *backend
	mux *http.ServeMux
	// behind is set where nginx has decided already, and says so.
	behind bool
}

func (g *goServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // a body that broke off is no request
	}
	sum := sha256.Sum256(body)
	_, pattern := g.mux.Handler(r)
	if name, ok := strings.CutPrefix(r.URL.Path, "/user/"); ok && !strings.Contains(name, "/") {
		r.SetPathValue("name", name) // as the mux does for a handler that it runs
	}
	s := seen{
		ID: r.Header.Get("X-Request-Id"), Login: pattern != "" || g.behind && r.Header.Get("X-Routed") == "login" || goRoutes(r),
		Method: goMethod(r, body), Target: r.RequestURI, Length: len(body), Sum: hex.EncodeToString(sum[:]), Names: goNames(r, body),
	}
	line, _ := json.Marshal(s)
	g.b.note(line)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Seen", s.ID)
	w.Header().Set("Content-Length", strconv.Itoa(len(line)))
	_, _ = w.Write(line)
}

var loginPath = regexp.MustCompile(`^/(login|login\.php|in/[a-z]+)/?$`)

// goRoutes is how handlers route that do without the mux.
func goRoutes(r *http.Request) bool {
	return loginPath.MatchString(r.URL.Path) || loginPath.MatchString(path.Clean(r.URL.Path)) || loginPath.MatchString(strings.ToLower(r.URL.EscapedPath()))
}

func goMethod(r *http.Request, body []byte) string {
	for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		if m := r.Header.Get(name); m != "" {
			return strings.ToUpper(m)
		}
	}
	if m := r.URL.Query().Get("_method"); m != "" {
		return strings.ToUpper(m)
	}
	if values, _ := url.ParseQuery(string(body)); r.Method == http.MethodPost && values.Get("_method") != "" {
		return strings.ToUpper(values.Get("_method"))
	}
	return r.Method
}

// goNames is what the parsers of the standard library, and those of encodings, read as the username.
func goNames(r *http.Request, body []byte) map[string]string {
	names := map[string]string{}
	put := func(reader string, value any) {
		switch v := value.(type) {
		case string:
			if v != "" {
				names[reader] = strings.ToValidUTF8(v, "\ufffd")
			}
		case json.Number, bool:
			names[reader] = fmt.Sprint(v)
		}
	}
	goTexts(body, put)
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	put("form value", again.FormValue("username"))
	put("post form value", again.PostFormValue("username"))
	put("query", r.URL.Query().Get("username"))
	put("parts", goParts(r.Header.Get("Content-Type"), body))
	put("header", r.Header.Get("X-User"))
	if lines := r.Header.Values("X-User"); len(lines) > 1 {
		put("header last", lines[len(lines)-1])
	}
	if c, err := r.Cookie("who"); err == nil {
		put("cookie", c.Value)
	}
	put("path", r.PathValue("name"))
	if user, _, ok := r.BasicAuth(); ok {
		put("basic", user)
	}
	if plain := goInflate(r.Header.Get("Content-Encoding"), body); plain != nil {
		goTexts(plain, func(reader string, value any) { put("inflated "+reader, value) })
	}
	return names
}

func goTexts(body []byte, put func(reader string, value any)) {
	var login struct {
		Username any `json:"username"`
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if dec.Decode(&login) == nil {
		put("json first value", login.Username)
	}
	var object map[string]any
	if json.Unmarshal(body, &object) == nil {
		put("json map", object["username"])
	}
	values, _ := url.ParseQuery(string(body))
	put("form", values.Get("username"))
	var document struct {
		Username string `xml:"username"`
	}
	if xml.Unmarshal(body, &document) == nil {
		put("xml", strings.TrimSpace(document.Username))
	}
}

func goParts(contentType string, body []byte) string {
	essence, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" || !strings.HasPrefix(essence, "multipart/") {
		return ""
	}
	found := ""
	for r := multipart.NewReader(bytes.NewReader(body), params["boundary"]); ; {
		part, err := r.NextPart()
		if err != nil {
			return found
		}
		value, err := io.ReadAll(part)
		if part.FormName() == "username" && part.FileName() == "" && (err == nil || found == "") {
			found = string(bytes.TrimSpace(value))
		}
	}
}

// goInflate undoes one encoding, of at most a megabyte.
func goInflate(coding string, body []byte) []byte {
	var r io.Reader
	var err error
	switch strings.ToLower(strings.TrimSpace(coding)) {
	case "gzip", "x-gzip":
		r, err = gzip.NewReader(bytes.NewReader(body))
	case "zstd":
		r, err = zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderMaxMemory(1<<24), zstd.WithDecoderConcurrency(1))
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	plain, _ := io.ReadAll(io.LimitReader(r, 1<<20))
	return plain
}
