package main

import (
	"context"
	"fmt"
	"log/slog"

	"authgate/internal/gateway"
)

// runKnown tells the shared store which targets exist [M6].
func runKnown(c *call) error {
	f := flags("known")
	file := f.String("config", "", "configuration `file`")
	realm := f.String("realm", "", "`name` of the realm; not needed where there is only one")
	if err := c.parse(f, 2); err != nil {
		return err
	}
	if f.NArg() != 2 || f.Arg(0) != "import" || *file == "" {
		return usagef("use `gateway known import FILE --config FILE`; FILE has one mailbox a line, - is standard input")
	}
	cfg, err := c.load(*file, "")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	known, err := gateway.NewKnownImport(cfg, *realm, log)
	if err != nil {
		return usagef("%s", err)
	}
	list, err := c.open(f.Arg(1))
	if err != nil {
		return usagef("%s", err)
	}
	defer list.Close()
	n, err := known.Run(context.Background(), list)
	switch {
	case err != nil && n > 0:
		return fmt.Errorf("importing %s: %w; import the whole list again, no rule relies on it yet", f.Arg(1), err)
	case err != nil:
		return fmt.Errorf("importing %s: %w", f.Arg(1), err)
	}
	fmt.Fprintf(c.stdout, "%d targets are known in realm %s\n", n, known.Realm())
	return nil
}
