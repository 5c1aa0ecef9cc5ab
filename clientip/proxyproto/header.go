// Package proxyproto receives the PROXY protocol, versions 1 and 2, from listed balancers [C4]: a parser of the header, and a
// listener whose connections carry the address that the header names. What the protocol leaves to the receiver is decided
// on the strict side, since the header replaces the address that every later check is about.
package proxyproto

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"
	"strconv"
	"strings"
)

// Header is what a PROXY header says.
type Header struct {
	// Source is the sender's address and port, folded and without zone. The zero value says that the header names none
	// (LOCAL, UNKNOWN, UNSPEC, a unix socket, a datagram): the address of the socket stands.
	Source netip.AddrPort
}

const (
	signature1 = "PROXY "
	signature2 = "\r\n\r\n\x00\r\nQUIT\n"

	maxLine    = 107  // of version 1, CRLF included; from the protocol's text
	prefixSize = 16   // of version 2: signature, command, family, length
	maxPayload = 4096 // of version 2; the protocol allows 65535, real senders stay below 2 KiB
)

var (
	errSignature   = errors.New("no PROXY signature")
	errLine        = errors.New("version 1: not a line of the protocol")
	errLineEnd     = errors.New("version 1: no CRLF within 107 bytes")
	errVersion     = errors.New("version 2: unknown version or command")
	errFamily      = errors.New("version 2: unknown address family or transport")
	errLength      = errors.New("version 2: more than 4096 bytes")
	errShort       = errors.New("version 2: too short for its address family")
	errTLV         = errors.New("version 2: a TLV does not fit")
	errChecksum    = errors.New("version 2: wrong CRC32C checksum")
	errUnspecified = errors.New("unspecified source address")
)

// Parse reads exactly one header from the start of r and leaves r right behind it. It waits for as much as it needs and no
// more, holds at most twice the 4112 bytes of the longest header, and fails at the first byte that no header begins with.
// After an error the position of r is undefined.
func Parse(r *bufio.Reader) (Header, error) {
	first, err := r.Peek(1)
	if err != nil {
		return Header{}, fmt.Errorf("reading PROXY header: %w", err)
	}
	parse := parseVersion1
	if first[0] == signature2[0] {
		parse = parseVersion2
	}
	header, err := parse(r)
	switch {
	case errors.Is(err, io.EOF): // the header had begun
		err = io.ErrUnexpectedEOF
	case err == nil && header.Source.IsValid() && header.Source.Addr().IsUnspecified():
		err = errUnspecified
	}
	if err != nil {
		return Header{}, fmt.Errorf("reading PROXY header: %w", err)
	}
	return header, nil
}

// parseVersion1 reads "PROXY TCP4 source destination port port" or "PROXY UNKNOWN anything", ended by CRLF.
func parseVersion1(r *bufio.Reader) (Header, error) {
	line, err := readLine(r)
	if err != nil {
		return Header{}, err
	}
	fields := strings.Split(line, " ")
	if fields[0] == "UNKNOWN" {
		return Header{}, nil
	}
	if len(fields) != 5 {
		return Header{}, errLine
	}
	source, ok1 := parseAddress1(fields[0], fields[1])
	_, ok2 := parseAddress1(fields[0], fields[2])
	port, ok3 := parsePort1(fields[3])
	_, ok4 := parsePort1(fields[4])
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return Header{}, errLine
	}
	return Header{Source: netip.AddrPortFrom(source, port)}, nil
}

// readLine reads a line that begins with the signature, and returns what stands between that and the CRLF.
func readLine(r *bufio.Reader) (string, error) {
	var line [maxLine]byte
	for n := range line {
		b, err := r.ReadByte()
		if err != nil {
			return "", err
		}
		line[n] = b
		switch {
		case n < len(signature1):
			if b != signature1[n] {
				return "", errSignature
			}
		case line[n-1] == '\r' && b == '\n':
			return string(line[len(signature1) : n-1]), nil
		case line[n-1] == '\r' || b == '\n':
			return "", errLine
		}
	}
	return "", errLineEnd
}

func parseAddress1(protocol, text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, false
	}
	switch protocol {
	case "TCP4":
		return addr, addr.Is4()
	case "TCP6":
		return addr.Unmap(), addr.Is6()
	}
	return netip.Addr{}, false
}

func parsePort1(text string) (uint16, bool) {
	port, err := strconv.ParseUint(text, 10, 16)
	return uint16(port), err == nil && (text == "0" || text[0] != '0')
}

// The nibbles of the second version.
const (
	version2     = 0x2
	commandLocal = 0x0
	commandProxy = 0x1

	familyInet  = 0x1
	familyInet6 = 0x2
	familyUnix  = 0x3

	transportStream   = 0x1
	transportDatagram = 0x2
)

// parseVersion2 reads the binary header.
func parseVersion2(r *bufio.Reader) (Header, error) {
	header := make([]byte, prefixSize)
	if _, err := io.ReadFull(r, header); err != nil {
		return Header{}, err
	}
	if string(header[:len(signature2)]) != signature2 {
		return Header{}, errSignature
	}
	version, command := header[12]>>4, header[12]&0xf
	family, transport := header[13]>>4, header[13]&0xf
	length := int(binary.BigEndian.Uint16(header[14:]))
	switch {
	case version != version2 || command > commandProxy:
		return Header{}, errVersion
	case length > maxPayload:
		return Header{}, errLength
	case command == commandLocal: // the balancer itself; what else it says does not matter
		_, err := r.Discard(length)
		return Header{}, err
	case family > familyUnix || transport > transportDatagram:
		return Header{}, errFamily
	case length < addressSize(family):
		return Header{}, errShort
	case family != familyInet && family != familyInet6 || transport != transportStream: // no address that we could use
		_, err := r.Discard(length)
		return Header{}, err
	}
	header = append(header, make([]byte, length)...)
	if _, err := io.ReadFull(r, header[prefixSize:]); err != nil {
		return Header{}, err
	}
	if err := checkTLVs(header, prefixSize+addressSize(family)); err != nil {
		return Header{}, err
	}
	return Header{Source: source2(family, header[prefixSize:])}, nil
}

// addressSize returns how many bytes the addresses of a family take.
func addressSize(family byte) int {
	switch family {
	case familyInet:
		return 12
	case familyInet6:
		return 36
	case familyUnix:
		return 216
	}
	return 0
}

// source2 reads the source from the addresses block: both addresses come first, then both ports.
func source2(family byte, block []byte) netip.AddrPort {
	size := 4
	if family == familyInet6 {
		size = 16
	}
	addr, _ := netip.AddrFromSlice(block[:size])
	return netip.AddrPortFrom(addr.Unmap(), binary.BigEndian.Uint16(block[2*size:]))
}

// checkTLVs checks that the records behind the addresses fill the header exactly, and that its checksum, if it
// carries one, is right. Records of other types are passed over.
func checkTLVs(header []byte, start int) error {
	const typeCRC32C, recordPrefix, checksumSize = 0x03, 3, 4
	for rest := header[start:]; len(rest) > 0; {
		if len(rest) < recordPrefix {
			return errTLV
		}
		size := int(binary.BigEndian.Uint16(rest[1:]))
		if len(rest) < recordPrefix+size {
			return errTLV
		}
		value := rest[recordPrefix : recordPrefix+size]
		if rest[0] == typeCRC32C {
			if size != checksumSize {
				return errTLV
			}
			stated := binary.BigEndian.Uint32(value)
			summed := bytes.Clone(header)
			clear(summed[len(header)-len(rest)+recordPrefix:][:checksumSize]) // the sum is over a header with zeros there
			if crc32.Checksum(summed, crc32.MakeTable(crc32.Castagnoli)) != stated {
				return errChecksum
			}
		}
		rest = rest[recordPrefix+size:]
	}
	return nil
}
