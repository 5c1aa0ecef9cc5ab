package proxyproto

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

type vector struct {
	ID, Want, Note string
	InputASCII     string   `json:"input_ascii"`
	InputHex       string   `json:"input_hex"`
	WantSource     string   `json:"want_source"`
	WantClient     string   `json:"want_client"`
	SocketPeer     string   `json:"socket_peer"`
	PPTrusted      []string `json:"pp_trusted"`
	ListenerLevel  bool     `json:"listener_level"`
	Consumed       *int
	Config         *struct {
		TrustHeaders   bool     `json:"trust_headers"`
		TrustedProxies []string `json:"trusted_proxies"`
		Hops           int
		Header         string
	}
}

func loadVectors(t *testing.T) []vector {
	t.Helper()
	text, err := os.ReadFile("../testdata/clientip.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []vector `json:"proxy_protocol"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) == 0 {
		t.Fatal("no vectors")
	}
	return file.Vectors
}

func (v vector) input(t *testing.T) []byte {
	t.Helper()
	if v.InputHex == "" {
		return []byte(v.InputASCII)
	}
	input, err := hex.DecodeString(v.InputHex)
	if err != nil {
		t.Fatal(err)
	}
	return input
}

// read parses input and tells what it decided, in the words of the vectors, and how many bytes it took.
func read(input io.Reader, size int) (decision, source string, consumed int, err error) {
	r := bufio.NewReader(input)
	header, err := Parse(r)
	rest, _ := io.ReadAll(r)
	consumed = size - len(rest)
	switch {
	case err != nil:
		return "reject", "", consumed, err
	case header.Source.IsValid():
		return "proxy", header.Source.String(), consumed, nil
	}
	return "socket", "", consumed, nil
}

func TestVectors(t *testing.T) {
	for _, v := range loadVectors(t) {
		if v.ListenerLevel {
			continue
		}
		t.Run(v.ID, func(t *testing.T) {
			input := v.input(t)
			decision, source, consumed, err := read(bytes.NewReader(input), len(input))
			if decision != v.Want || source != v.WantSource {
				t.Errorf("got %s %q (%v), want %s %q: %s", decision, source, err, v.Want, v.WantSource, v.Note)
			}
			if v.Consumed != nil && consumed != *v.Consumed {
				t.Errorf("consumed %d bytes, want %d: %s", consumed, *v.Consumed, v.Note)
			}
			slow, slowSource, slowConsumed, _ := read(iotest.OneByteReader(bytes.NewReader(input)), len(input))
			if slow != decision || slowSource != source || err == nil && slowConsumed != consumed {
				t.Errorf("byte by byte: got %s %q after %d bytes", slow, slowSource, slowConsumed)
			}
		})
	}
}

// v2 builds a header of the second version with the right length.
func v2(command, family byte, payload string) string {
	header := signature2 + string([]byte{command, family})
	return string(binary.BigEndian.AppendUint16([]byte(header), uint16(len(payload)))) + payload
}

// sealed adds a checksum record to a payload and fills it in.
func sealed(command, family byte, payload string) string {
	header := []byte(v2(command, family, payload+"\x03\x00\x04\x00\x00\x00\x00"))
	sum := crc32.Checksum(header, crc32.MakeTable(crc32.Castagnoli))
	binary.BigEndian.PutUint32(header[len(header)-4:], sum)
	return string(header)
}

const (
	inet  = "\xc6\x33\x64\x09\xcb\x00\x71\x01\xdc\x04\x01\xbb"
	inet6 = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\xdc\x04\x01\xbb"
)

func TestParse(t *testing.T) {
	mapped := "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc6\x33\x64\x09" + inet6[16:]
	flipped := []byte(sealed(0x21, 0x11, inet))
	flipped[16] ^= 1
	cases := []struct {
		name, input, want string // want is a source, "socket", or a part of the error
	}{
		{"mapped source under TCP6", "PROXY TCP6 ::ffff:198.51.100.9 2001:db8::1 1 2\r\n", "198.51.100.9:1"},
		{"longest line", "PROXY UNKNOWN " + strings.Repeat("x", 107-16) + "\r\n", "socket"},
		{"line one byte longer", "PROXY UNKNOWN " + strings.Repeat("x", 107-15) + "\r\n", errLineEnd.Error()},
		{"unknown run together", "PROXY UNKNOWNx\r\n", errLine.Error()},
		{"no protocol", "PROXY \r\n", errLine.Error()},
		{"lower case", "PROXY tcp4 198.51.100.9 203.0.113.1 1 2\r\n", errLine.Error()},
		{"lower case signature", "proxy TCP4 198.51.100.9 203.0.113.1 1 2\r\n", errSignature.Error()},
		{"signature without blank", "PROXYTCP4 198.51.100.9 203.0.113.1 1 2\r\n", errSignature.Error()},
		{"IPv6 under TCP4", "PROXY TCP4 2001:db8::1 203.0.113.1 1 2\r\n", errLine.Error()},
		{"mapped under TCP4", "PROXY TCP4 ::ffff:198.51.100.9 203.0.113.1 1 2\r\n", errLine.Error()},
		{"IPv4 destination under TCP6", "PROXY TCP6 2001:db8::1 203.0.113.1 1 2\r\n", errLine.Error()},
		{"leading zero", "PROXY TCP4 198.51.100.09 203.0.113.1 1 2\r\n", errLine.Error()},
		{"zone", "PROXY TCP6 fe80::1%eth0 2001:db8::1 1 2\r\n", errLine.Error()},
		{"signed port", "PROXY TCP4 198.51.100.9 203.0.113.1 +1 2\r\n", errLine.Error()},
		{"bad destination port", "PROXY TCP4 198.51.100.9 203.0.113.1 1 x\r\n", errLine.Error()},
		{"port missing", "PROXY TCP4 198.51.100.9 203.0.113.1 1\r\n", errLine.Error()},
		{"blank at the end", "PROXY TCP4 198.51.100.9 203.0.113.1 1 2 \r\n", errLine.Error()},
		{"CR in the line", "PROXY UNKNOWN a\rb\r\n", errLine.Error()},
		{"mapped unspecified source", "PROXY TCP6 ::ffff:0.0.0.0 2001:db8::1 1 2\r\n", errUnspecified.Error()},
		{"unspecified destination", "PROXY TCP4 198.51.100.9 0.0.0.0 1 2\r\n", "198.51.100.9:1"},
		{"line ends early", "PROXY TCP4 198.51", io.ErrUnexpectedEOF.Error()},
		{"nothing", "", io.EOF.Error()},

		{"v2 IPv4", v2(0x21, 0x11, inet), "198.51.100.9:56324"},
		{"v2 mapped", v2(0x21, 0x21, mapped), "198.51.100.9:56324"},
		{"v2 records", v2(0x21, 0x11, inet+"\x04\x00\x00"+"\x20\x00\x02ab"), "198.51.100.9:56324"},
		{"v2 largest", v2(0x21, 0x11, inet+"\x04\x0f\xf1"+strings.Repeat("x", 4096-15)), "198.51.100.9:56324"},
		{"v2 too large", v2(0x21, 0x11, inet+"\x04\x0f\xf2"+strings.Repeat("x", 4096-14)), errLength.Error()},
		{"v2 LOCAL too large", v2(0x20, 0x00, strings.Repeat("x", 4097)), errLength.Error()},
		{"v2 record without length", v2(0x21, 0x11, inet+"\x04\x00"), errTLV.Error()},
		{"v2 checksum", sealed(0x21, 0x21, inet6), "[2001:db8::9]:56324"},
		{"v2 checksum of an altered header", string(flipped), errChecksum.Error()},
		{"v2 checksum of three bytes", v2(0x21, 0x11, inet+"\x03\x00\x03abc"), errTLV.Error()},
		{"v2 LOCAL of an unknown family", v2(0x20, 0xff, "junk"), "socket"},
		{"v2 UNSPEC with bytes", v2(0x21, 0x00, "junk"), "socket"},
		{"v2 UNIX too short", v2(0x21, 0x31, strings.Repeat("x", 215)), errShort.Error()},
		{"v2 IPv6 too short", v2(0x21, 0x21, inet6[:35]), errShort.Error()},
		{"v2 PROXY of zero length", v2(0x21, 0x11, ""), errShort.Error()},
		{"v2 datagram too short", v2(0x21, 0x12, inet[:11]), errShort.Error()},
		{"v2 unknown family", v2(0x21, 0x41, inet), errFamily.Error()},
		{"v2 unknown command", v2(0x22, 0x11, inet), errVersion.Error()},
		{"v2 unspecified IPv6", v2(0x21, 0x21, strings.Repeat("\x00", 16)+inet6[16:]), errUnspecified.Error()},
		{"v2 ends in the prefix", signature2 + "\x21", io.ErrUnexpectedEOF.Error()},
		{"v2 ends in the addresses", v2(0x21, 0x11, inet)[:20], io.ErrUnexpectedEOF.Error()},
		{"v2 LOCAL ends early", v2(0x20, 0x00, "junk")[:18], io.ErrUnexpectedEOF.Error()},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			const request = "GET / HTTP/1.1\r\n"
			input := c.input
			ends := strings.HasSuffix(c.want, "EOF")
			if !ends {
				input += request
			}
			decision, source, consumed, err := read(strings.NewReader(input), len(input))
			got := source
			switch decision {
			case "reject":
				got = strings.TrimPrefix(err.Error(), "reading PROXY header: ")
			case "socket":
				got = decision
			}
			if got != c.want {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			if err == nil && consumed != len(c.input) {
				t.Errorf("consumed %d bytes, want %d", consumed, len(c.input))
			}
		})
	}
}

// TestParseStopsEarly feeds beginnings that can be refused at once to a reader that must not be asked for more.
func TestParseStopsEarly(t *testing.T) {
	for _, input := range []string{"G", "\x16", "PROXY TCP4\n", "PX", v2(0x21, 0x11, strings.Repeat("x", 5000))[:16]} {
		asked := fmt.Errorf("asked for more")
		if _, err := Parse(bufio.NewReader(io.MultiReader(strings.NewReader(input), iotest.ErrReader(asked)))); err == nil ||
			strings.Contains(err.Error(), asked.Error()) {
			t.Errorf("%q: error %v", input, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("PROXY TCP4 198.51.100.9 203.0.113.1 56324 443\r\nGET /"))
	f.Add([]byte("PROXY UNKNOWN x\r\n"))
	f.Add([]byte(v2(0x21, 0x11, inet+"\x04\x00\x01x")))
	f.Add([]byte(sealed(0x21, 0x21, inet6)))
	f.Add([]byte(v2(0x20, 0x00, "")))
	f.Fuzz(func(t *testing.T, input []byte) {
		decision, source, consumed, err := read(bytes.NewReader(input), len(input))
		if err != nil {
			return
		}
		if consumed < len("PROXY UNKNOWN\r\n") || consumed > prefixSize+maxPayload {
			t.Fatalf("consumed %d bytes", consumed)
		}
		// What follows the header must not change it, and what it takes must be the whole header.
		again, sameSource, _, err := read(bytes.NewReader(input[:consumed]), consumed)
		if err != nil || again != decision || sameSource != source {
			t.Errorf("alone: %s %q %v, want %s %q", again, sameSource, err, decision, source)
		}
		if _, _, _, err := read(bytes.NewReader(input[:consumed-1]), consumed-1); err == nil {
			t.Error("a header without its last byte was accepted")
		}
	})
}
