package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"authgate/internal/config"
	"authgate/internal/gateway"
)

// runGateway serves until it is told to stop.
func runGateway(c *call) error {
	f := flags("run")
	file := f.String("config", "", "configuration `file`")
	upstream := f.String("upstream", "", "`URL` of the backend; enough alone: memory store, built-in login policy, loopback listeners")
	if err := c.parse(f, 0); err != nil {
		return err
	}
	files := follow(*file)
	cfg, err := c.load(*file, *upstream)
	if err != nil {
		return err
	}
	files.uses(cfg)
	ctx, stop := untilSignal()
	defer stop()
	return c.serve(ctx, cfg, files, nil)
}

// untilSignal is done when the program is asked to end. A second signal ends it at once: whoever asks again does not want to wait.
func untilSignal() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// load reads the configuration, and prints what is wrong with it.
func (c *call) load(file, upstream string) (*config.Config, error) {
	var cfg *config.Config
	var warnings config.Warnings
	var err error
	switch {
	case file != "" && upstream != "":
		return nil, usagef("--config and --upstream exclude each other")
	case file != "":
		cfg, warnings, err = config.Load(file)
	case upstream != "":
		cfg, warnings, err = config.Builtin(upstream)
	default:
		return nil, usagef("say what to serve by: --config FILE, or --upstream URL")
	}
	if err := c.told(warnings, err); err != nil {
		return nil, err
	}
	return cfg, nil
}

// told prints what is wrong with a configuration, and makes a mistake in it one that ends the command.
func (c *call) told(warnings config.Warnings, err error) error {
	if err == nil { // what is missing for a mistake's sake is no matter for a warning
		for _, w := range warnings {
			fmt.Fprintf(c.stderr, "warning: %s\n", w)
		}
	}
	var problems config.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			fmt.Fprintln(c.stderr, p)
		}
		return errShown
	}
	if err != nil {
		return usagef("%s", err)
	}
	return nil
}

// serve runs a gateway until ctx is done, and reloads it when it is told to or when files change. started, if not nil, is called
// once it listens.
func (c *call) serve(ctx context.Context, cfg *config.Config, files *follower, started func(g *gateway.Gateway, token string)) error {
	defer runtime.KeepAlive(reserveHeap())
	log := newLogger(cfg, c.stderr)
	token := ""
	if len(cfg.Admin.Tokens) == 0 {
		token = newToken()
	}
	sockets, err := inherited()
	if err != nil {
		return err
	}
	g, err := gateway.New(cfg, gateway.Options{Log: log, Build: build(), AdminToken: token, Listeners: sockets})
	if err != nil {
		return err
	}
	if err := g.Start(); err != nil {
		_ = g.Stop(context.Background())
		return err
	}
	for _, a := range g.Addrs() {
		log.Info("listening", "address", a.String())
	}
	if a := g.RedirectAddr(); a != nil {
		log.Info("redirect listening", "address", a.String())
	}
	log.Info("admin listening", "address", g.AdminAddr().String())
	if started != nil {
		started(g, token)
	} else if token != "" && isTerminal(os.Stderr) {
		// Only on a terminal: a token in a log file would be one for everybody who reads it.
		fmt.Fprintf(c.stderr, "admin token of this run: %s\n", token)
	}
	stopReloads := reloads(g, log, files)
	select {
	case err = <-g.Failed():
	case <-ctx.Done():
	}
	stopReloads()
	log.Info("stopping")
	end, cancel := context.WithTimeout(context.Background(), cfg.Server.ShutdownGrace+time.Second)
	defer cancel()
	if serr := g.Stop(end); serr != nil {
		log.Warn("stopped", "error", serr)
	} else {
		log.Info("stopped")
	}
	return err
}

// reloads reloads the gateway when it is told to, or when files change, until stop is called. It has a goroutine of its own, so that
// a file that cannot be read to its end, on a disk that does not answer, keeps nobody from stopping the gateway.
func reloads(g *gateway.Gateway, log *slog.Logger, files *follower) (stop func()) {
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-hangUps:
				if err := g.ReopenFiles(); err != nil {
					log.Error("reopening files failed", "error", err)
				}
			case <-files.changed:
			case <-end:
				files.stop()
				return
			}
			reload(g, log, files)
		}
	}()
	return func() {
		signal.Stop(hangUps)
		close(end)
		select {
		case <-ended:
		case <-time.After(reloadGrace):
		}
	}
}

// reloadGrace is how long a stop waits for a reload under way.
const reloadGrace = 2 * time.Second

// reload reads the file again and makes the gateway follow it; a bad one changes nothing and is told.
func reload(g *gateway.Gateway, log *slog.Logger, files *follower) {
	if files.file == "" {
		return
	}
	files.begin()
	cfg, warnings, err := config.Load(files.file)
	for _, w := range warnings {
		log.Warn("configuration", "warning", w.String())
	}
	if err != nil {
		g.ReloadFailed()
	} else {
		err = g.Reload(cfg)
	}
	if err != nil {
		log.Error("configuration not reloaded; the old one stays in force", "error", err)
		return
	}
	files.uses(cfg)
	log.Info("configuration reloaded")
}

func newLogger(cfg *config.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Log.Level)) // the configuration allows only what this reads
	o := &slog.HandlerOptions{Level: level}
	if cfg.Log.Format == "text" {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

// newToken makes a token of 192 bits.
func newToken() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// isTerminal reports whether a person may sit at the other end.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull) // a character device as well
	return err != nil || !os.SameFile(info, null)
}

// build is what the program knows of its own making.
func build() map[string]string {
	b := map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
	if version == "" {
		b["version"] = "unreleased"
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b["commit"] = s.Value
			}
		}
	}
	return b
}

func runVersion(c *call) error {
	if err := c.parse(flags("version"), 0); err != nil {
		return err
	}
	b := build()
	fmt.Fprintf(c.stdout, "authgate %s %s %s\n", b["version"], b["go"], b["platform"])
	return nil
}
