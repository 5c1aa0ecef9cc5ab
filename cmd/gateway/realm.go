package main

import (
	"fmt"
	"io"
	"os"

	"authgate/internal/config"
)

const realmUsage = "use `gateway realm export NAME --config FILE` or `gateway realm import FRAGMENT --config FILE`"

// maxFragment bounds what is read as a realm, in bytes: more than a whole configuration file may have.
const maxFragment = 8 << 20

// runRealm prints one realm of a configuration file, or puts one into it [M2].
func runRealm(c *call) error {
	f := flags("realm")
	file := f.String("config", "", "configuration `file`")
	if err := c.parse(f, 2); err != nil {
		return err
	}
	if f.NArg() != 2 || *file == "" {
		return usagef("%s", realmUsage)
	}
	switch name := f.Arg(1); f.Arg(0) {
	case "export":
		text, warnings, err := config.ExportRealm(*file, name)
		if err := c.told(warnings, err); err != nil {
			return err
		}
		_, err = c.stdout.Write(text)
		return err
	case "import":
		return c.importRealm(*file, name)
	}
	return usagef("%s", realmUsage)
}

func (c *call) importRealm(file, source string) error {
	in, err := c.open(source)
	if err != nil {
		return usagef("%s", err)
	}
	defer in.Close()
	fragment, err := io.ReadAll(io.LimitReader(in, maxFragment))
	if err != nil {
		return fmt.Errorf("reading %s: %w", source, err)
	}
	change, warnings, err := config.ImportRealm(file, source, fragment)
	if err := c.told(warnings, err); err != nil {
		return err
	}
	if err := change.Save(); err != nil {
		return err
	}
	what := "replaced"
	switch {
	case change.Added:
		what = "added"
	case len(change.Changes) == 0:
		what = "unchanged"
	}
	fmt.Fprintf(c.stdout, "%s: realm %s %s\n", file, change.Realm, what)
	for _, l := range change.Changes {
		if l.Before != "" {
			fmt.Fprintf(c.stdout, "- %s: %s\n", l.Path, l.Before)
		}
		if l.After != "" {
			fmt.Fprintf(c.stdout, "+ %s: %s\n", l.Path, l.After)
		}
	}
	return nil
}

// open opens a file that the command line names; - is standard input.
func (c *call) open(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(c.stdin), nil
	}
	return os.Open(name)
}
