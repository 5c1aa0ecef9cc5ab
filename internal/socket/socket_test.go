//go:build unix

package socket

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pair is a connection of this package and its other end.
func pair(t *testing.T, network, address string) (*Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, ok := Wrap(near).(*Conn)
	if !ok {
		t.Fatalf("%T is not wrapped", near)
	}
	t.Cleanup(func() { _, _ = c.Close(), far.Close() })
	limit := time.Now().Add(20 * time.Second)
	_, _ = c.SetDeadline(limit), far.SetDeadline(limit)
	return c, far
}

func tcp(t *testing.T) (*Conn, net.Conn) {
	t.Helper()
	return pair(t, "tcp", "127.0.0.1:0")
}

// TestConversation: bytes arrive as they were written, in both directions at once, and much more of them than any buffer holds.
func TestConversation(t *testing.T) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) {
			c, far := pair(t, network, address)
			what := make([]byte, 16<<20)
			for i := range what {
				what[i] = byte(rand.Uint32())
			}
			var wg sync.WaitGroup
			for _, end := range []net.Conn{c, far} {
				wg.Go(func() {
					n, err := end.Write(what)
					if n != len(what) || err != nil {
						t.Errorf("%T: wrote %d, %v", end, n, err)
					}
					_ = end.(interface{ CloseWrite() error }).CloseWrite()
				})
				wg.Go(func() {
					got, err := io.ReadAll(end)
					if !bytes.Equal(got, what) || err != nil {
						t.Errorf("%T: read %d bytes, %v, that are not what was written", end, len(got), err)
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestReadWaits: what is not there yet is waited for, and nothing more than what is there.
func TestReadWaits(t *testing.T) {
	c, far := tcp(t)
	time.AfterFunc(20*time.Millisecond, func() { _, _ = far.Write([]byte("abc")) })
	b := make([]byte, 100)
	if n, err := c.Read(b); string(b[:n]) != "abc" || err != nil {
		t.Errorf("got %q, %v", b[:n], err)
	}
	if n, err := c.Read(nil); n != 0 || err != nil {
		t.Errorf("got %d, %v for no room", n, err)
	}
	_ = far.Close()
	for range 2 {
		if n, err := c.Read(b); n != 0 || err != io.EOF {
			t.Errorf("got %d, %v at the end", n, err)
		}
	}
}

// TestSameErrors: what goes wrong is told as package net does, by every call and again.
func TestSameErrors(t *testing.T) {
	many := make([]byte, 32<<20) // more than the system holds
	for name, spoil := range map[string]func(c, far net.Conn){
		"too late":     func(c, _ net.Conn) { _ = c.SetDeadline(time.Unix(1, 0)) },
		"out of time":  func(c, _ net.Conn) { _ = c.SetDeadline(time.Now().Add(20 * time.Millisecond)) },
		"closed":       func(c, _ net.Conn) { _ = c.Close() },
		"closed later": func(c, _ net.Conn) { time.AfterFunc(20*time.Millisecond, func() { _ = c.Close() }) },
		"reset": func(_, far net.Conn) {
			_ = far.(*net.TCPConn).SetLinger(0)
			_ = far.Close()
			time.Sleep(20 * time.Millisecond)
		},
	} {
		for call, do := range map[string]func(net.Conn) (int, error){
			"read":  func(c net.Conn) (int, error) { return c.Read(make([]byte, 10)) },
			"write": func(c net.Conn) (int, error) { return c.Write(many) },
		} {
			t.Run(name+", "+call, func(t *testing.T) {
				var told [2][2]string
				for i, of := range []func(*Conn) net.Conn{func(c *Conn) net.Conn { return c }, func(c *Conn) net.Conn { return c.stream }} {
					c, far := tcp(t)
					spoil(c, far)
					for again := range 2 {
						_, err := do(of(c))
						told[i][again] = describe(c, err)
					}
				}
				if told[0] != told[1] {
					t.Errorf("got %q, package net tells %q", told[0], told[1])
				}
			})
		}
	}
}

// describe is what programs look at of an error.
func describe(c net.Conn, err error) string {
	text := ""
	if op, ok := err.(*net.OpError); ok {
		text = fmt.Sprint(op.Op, op.Net, op.Source == c.LocalAddr(), op.Addr == c.RemoteAddr(), op.Err, op.Timeout())
	}
	for _, known := range []error{io.EOF, net.ErrClosed, os.ErrDeadlineExceeded, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, known) {
			text += known.Error() + "; "
		}
	}
	return text
}

// TestWriteReady writes what there is room for, and waits for none.
func TestWriteReady(t *testing.T) {
	c, far := tcp(t)
	total := 0
	for {
		n, err := c.WriteReady(make([]byte, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		if total += n; n < 1<<20 {
			break
		}
	}
	if n, err := c.WriteReady([]byte("x")); n != 0 || err != nil {
		t.Errorf("wrote %d, %v without room", n, err)
	}
	done := make(chan error)
	go func() {
		_, err := io.CopyN(io.Discard, far, int64(total))
		done <- err
	}()
	if n, err := c.Write([]byte("the end")); n != 7 || err != nil { // which waits
		t.Errorf("wrote %d, %v", n, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = c.CloseWrite()
	if rest, err := io.ReadAll(far); string(rest) != "the end" || err != nil {
		t.Errorf("got %q, %v", rest, err)
	}
	_ = c.SetWriteDeadline(time.Unix(1, 0))
	if n, err := c.WriteReady([]byte("x")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("wrote %d, %v after the deadline", n, err)
	}
}

// TestAtOnce: several goroutines may read and write the same connection, and no write comes between the bytes of another.
func TestAtOnce(t *testing.T) {
	const writers, writes, size = 4, 50, 100_000
	c, far := tcp(t)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range writes {
				if n, err := c.Write(bytes.Repeat([]byte{byte(w)}, size)); n != size || err != nil {
					t.Errorf("wrote %d, %v", n, err)
				}
			}
		})
	}
	go func() { wg.Wait(); _ = c.CloseWrite() }()
	for block := make([]byte, size); ; {
		if _, err := io.ReadFull(far, block); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(block, block[:1]) != size {
			t.Fatal("two writes are mixed")
		}
	}
	var read sync.Map
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for b := make([]byte, 1); ; {
				if _, err := c.Read(b); err != nil {
					return
				}
				if _, twice := read.LoadOrStore(b[0], true); twice {
					t.Errorf("%d was read twice", b[0])
				}
			}
		})
	}
	for i := range 256 {
		_, _ = far.Write([]byte{byte(i)})
	}
	_ = far.Close()
	readers.Wait()
	n := 0
	read.Range(func(any, any) bool { n++; return true })
	if n != 256 {
		t.Errorf("%d of 256 bytes were read", n)
	}
}

// TestOthers: what is no socket of package net stays what it is.
func TestOthers(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if Wrap(a) != a {
		t.Error("a pipe was wrapped")
	}
}

// BenchmarkEcho is a write and a read on each side.
func BenchmarkEcho(b *testing.B) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{"own": Wrap, "net": func(c net.Conn) net.Conn { return c }} {
		b.Run(name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			far, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer far.Close()
			near, err := l.Accept()
			if err != nil {
				b.Fatal(err)
			}
			defer near.Close()
			near, far = wrap(near), wrap(far)
			go func() { _, _ = io.Copy(struct{ io.Writer }{near}, struct{ io.Reader }{near}) }()
			b.ReportAllocs()
			for p := make([]byte, 200); b.Loop(); {
				_, _ = far.Write(p)
				_, _ = io.ReadFull(far, p)
			}
		})
	}
}
