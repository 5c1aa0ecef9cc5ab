package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// Options change where a configuration may read from. The zero value reads the process's environment and files.
type Options struct {
	// LookupEnv finds the value of env:NAME; nil: os.LookupEnv.
	LookupEnv func(name string) (string, bool)

	// ReadFile finds the value of file:PATH and checks certificates; nil: the file system, relative paths
	// from the working directory. It is asked for small files only.
	ReadFile func(path string) ([]byte, error)

	later bool // accept what this version does not support, to test that it decodes

	refs *[]string // collects the files that values are read from; nil: nobody asks
}

// maxReferenced bounds a file that a value or a certificate is read from.
const maxReferenced = 1 << 20

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func isReference(s string) bool {
	return strings.HasPrefix(s, "env:") || strings.HasPrefix(s, "file:")
}

// resolve gives what env:NAME or file:PATH stands for; any other text stands for itself. Line ends at its end are
// dropped, since editors and secret stores add them. No error quotes what was read.
func (o *Options) resolve(s string) (text string, isRef bool, err error) {
	if name, ok := strings.CutPrefix(s, "env:"); ok {
		if !envName.MatchString(name) {
			return "", true, fmt.Errorf("%s names no environment variable; use env:NAME", quote(s))
		}
		lookup := o.LookupEnv
		if lookup == nil {
			lookup = os.LookupEnv
		}
		value, found := lookup(name)
		if !found {
			return "", true, fmt.Errorf("the environment variable %s is not set; set it, or write the value here", name)
		}
		return trimEnd(value), true, nil
	}
	if path, ok := strings.CutPrefix(s, "file:"); ok {
		if o.refs != nil {
			*o.refs = append(*o.refs, path)
		}
		data, err := o.readFile(path)
		if err != nil {
			return "", true, fmt.Errorf("the file cannot be read; make it readable, or write the value here: %w", err)
		}
		return trimEnd(string(data)), true, nil
	}
	return s, false, nil
}

func trimEnd(s string) string { return strings.TrimRight(s, "\r\n") }

func (o *Options) readFile(path string) ([]byte, error) {
	if o.ReadFile != nil {
		return o.ReadFile(path)
	}
	return readBounded(path, maxReferenced)
}

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	if path == "" {
		return nil, errors.New("the path is empty")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %s", path, Size(limit))
	}
	return data, err
}
