// Command gateway runs authgate, and answers questions about its configuration and its state.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// version is set by the linker.
var version string

// command is one word of the command line.
type command struct {
	name  string
	about string
	run   func(c *call) error
}

// call is one run of a command: its arguments and the world it may touch.
type call struct {
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
}

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // the command line or the configuration is wrong
)

// usageError is a mistake on the command line, or in the configuration.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// errShown ends a command whose problems have been printed already.
var errShown = usageError{}

func commands() []command {
	return []command{
		{"run", "serve by a configuration file, or in front of --upstream URL alone", runGateway},
		{"demo", "serve in front of a built-in legacy login page, and say what to try", runDemo},
		{"check", "validate a configuration file", runCheck},
		{"explain", "say who a request is from, whom it is about, and every bucket it is counted in", runExplain},
		{"locks", "list, release or clear what failures have locked", runLocks},
		{"realm", "print one realm of a configuration file, or put one into it", runRealm},
		{"known", "tell the gateway which mailboxes exist", runKnown},
		{"preset", "list the shipped presets, or show one", runPreset},
		{"hash-secret", "read a secret from standard input, print its hash", runHashSecret},
		{"healthcheck", "ask a running gateway whether it is well", runHealthcheck},
		{"version", "print the version", runVersion},
	}
}

func main() {
	c := &call{args: os.Args[1:], stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(dispatch(c))
}

// dispatch runs the command that is asked for, and turns what becomes of it into an exit status.
func dispatch(c *call) int {
	if len(c.args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, c.args[0]) {
		usage(c.stdout)
		if len(c.args) == 0 {
			return exitUsage
		}
		return exitDone
	}
	name := c.args[0]
	c.args = c.args[1:]
	for _, cmd := range commands() {
		if cmd.name == name {
			return status(c, name, cmd.run(c))
		}
	}
	fmt.Fprintf(c.stderr, "gateway: there is no command %q; `gateway help` lists them\n", name)
	return exitUsage
}

func status(c *call, name string, err error) int {
	var usage usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitDone
	case errors.As(err, &usage):
		if usage.text != "" {
			fmt.Fprintf(c.stderr, "gateway %s: %s\n", name, usage.text)
		}
		return exitUsage
	}
	fmt.Fprintf(c.stderr, "gateway %s: %s\n", name, strings.ReplaceAll(err.Error(), "\n", "; "))
	return exitFailed
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Usage: gateway COMMAND [flags]\n\n")
	for _, cmd := range commands() {
		fmt.Fprintf(w, "  %-12s %s\n", cmd.name, cmd.about)
	}
	fmt.Fprint(w, "\n`gateway COMMAND -h` shows the flags of one. Exit status: 0 done, 1 it failed, 2 the command line or the\nconfiguration is wrong.\n")
}

// parse reads the flags of a command, which may stand before and after its other arguments. What is left over is an
// error unless rest allows it.
func (c *call) parse(f *flag.FlagSet, rest int) error {
	f.SetOutput(c.stderr)
	var others []string
	for args := c.args; ; {
		if err := f.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return err
			}
			return errShown // the flag package has said what is wrong
		}
		if read := len(args) - f.NArg(); f.NArg() == 0 || (read > 0 && args[read-1] == "--") {
			others = append(others, f.Args()...)
			break
		}
		others = append(others, f.Arg(0))
		args = f.Args()[1:]
	}
	_ = f.Parse(append([]string{"--"}, others...)) // so that f has them as its arguments; there is no flag left to be wrong
	if f.NArg() > rest {
		return usagef("%q is one argument too many; `gateway %s -h` shows what it takes", f.Arg(rest), f.Name())
	}
	return nil
}

func flags(name string) *flag.FlagSet { return flag.NewFlagSet(name, flag.ContinueOnError) }
