package valkeytest

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// answerWithin bounds one command of Do.
const answerWithin = 10 * time.Second

// Stat is what the server counted of one command since it started or CONFIG RESETSTAT.
type Stat struct {
	Calls    int64         // executed
	Rejected int64         // refused before they were executed, as without memory or permission
	Failed   int64         // executed with an error
	Time     time.Duration // of the server's processor, all calls together, in whole microseconds
}

// Do sends one command on a connection of its own and returns the reply: nil, string, int64, float64, bool, []any or
// map[string]any. An error reply, or none within 10 s, ends the test.
func (s *Server) Do(args ...string) any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	reply, err := s.ask(ctx, args...)
	if err != nil {
		s.t.Fatalf("valkey %s: %v", strings.Join(args, " "), err)
	}
	return reply
}

// Config changes a setting of the running server (CONFIG SET). A Restart forgets it.
func (s *Server) Config(key, value string) {
	s.t.Helper()
	s.Do("CONFIG", "SET", key, value)
}

// Stats returns what the server counted, by lower-case command name, as "evalsha" or "config|set". A command that was never
// sent is missing. The HELLO and INFO of Do are among them.
func (s *Server) Stats() map[string]Stat {
	s.t.Helper()
	text, _ := s.Do("INFO", "commandstats").(string)
	stats := map[string]Stat{}
	for key, value := range parseInfo(text) {
		stats[strings.TrimPrefix(key, "cmdstat_")] = parseStat(value)
	}
	return stats
}

// info returns the server section of INFO.
func (s *Server) info(ctx context.Context) (map[string]string, error) {
	reply, err := s.ask(ctx, "INFO", "server")
	if err != nil {
		return nil, err
	}
	text, _ := reply.(string)
	return parseInfo(text), nil
}

// ask sends one command on a connection of its own, so that no state of an earlier run of the server is left.
func (s *Server) ask(ctx context.Context, args ...string) (any, error) {
	client, err := valkey.NewClient(s.clientOption())
	if client != nil {
		defer client.Close()
	}
	if err != nil {
		return nil, err
	}
	reply, err := client.Do(ctx, client.B().Arbitrary(args...).Build()).ToAny()
	if valkey.IsValkeyNil(err) {
		return nil, nil
	}
	return reply, err
}

func (s *Server) clientOption() valkey.ClientOption {
	option := valkey.ClientOption{
		InitAddress:       []string{s.Addr()},
		ForceSingleClient: true,
		DisableCache:      true,
		DisableRetry:      true,
		ClientSetInfo:     valkey.DisableClientSetInfo,
		TLSConfig:         s.tls.client,
	}
	for _, flag := range s.settings.flags {
		if flag[0] == "--requirepass" && len(flag) == 2 {
			option.Password = flag[1]
		}
	}
	if s.settings.socket {
		option.DialCtxFn = func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		}
	}
	return option
}

// parseInfo reads the key:value lines of an INFO reply.
func parseInfo(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[key] = value
		}
	}
	return fields
}

// parseStat reads the value of one commandstats line, as calls=1,usec=5,usec_per_call=5.00,rejected_calls=0,failed_calls=0.
func parseStat(value string) Stat {
	numbers := map[string]int64{}
	for field := range strings.SplitSeq(value, ",") {
		name, digits, _ := strings.Cut(field, "=")
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil { // usec_per_call is a fraction, and not wanted
			numbers[name] = n
		}
	}
	return Stat{
		Calls:    numbers["calls"],
		Rejected: numbers["rejected_calls"],
		Failed:   numbers["failed_calls"],
		Time:     time.Duration(numbers["usec"]) * time.Microsecond,
	}
}
