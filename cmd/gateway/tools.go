package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"authgate/internal/clients"
	"authgate/internal/config"
	"authgate/internal/preset"
)

// runCheck validates a configuration file.
func runCheck(c *call) error {
	f := flags("check")
	file := f.String("config", "", "configuration `file`")
	show := f.Bool("print", false, "print the effective configuration with the origin of every value")
	schema := f.Bool("schema", false, "print the JSON schema of the file, for editors")
	if err := c.parse(f, 0); err != nil {
		return err
	}
	if *schema {
		e := json.NewEncoder(c.stdout)
		e.SetIndent("", "  ")
		return e.Encode(config.Schema())
	}
	cfg, err := c.load(*file, "")
	if err != nil {
		return err
	}
	if *show {
		return cfg.Print(c.stdout)
	}
	fmt.Fprintf(c.stdout, "%s: ok, %d policies\n", *file, len(cfg.Policies))
	return nil
}

// runPreset lists or shows the shipped presets.
func runPreset(c *call) error {
	f := flags("preset")
	if err := c.parse(f, 2); err != nil {
		return err
	}
	switch {
	case f.NArg() == 1 && f.Arg(0) == "list":
		for _, name := range preset.Names() {
			fmt.Fprintln(c.stdout, name)
		}
		return nil
	case f.NArg() == 2 && f.Arg(0) == "show":
		text, ok := preset.Load(f.Arg(1))
		if !ok {
			return usagef("there is no preset %q; use one of %s", f.Arg(1), strings.Join(preset.Names(), ", "))
		}
		_, err := c.stdout.Write(text)
		return err
	}
	return usagef("use `gateway preset list` or `gateway preset show NAME`")
}

// maxSecret bounds a secret that is read, in bytes.
const maxSecret = 4 << 10

// runHashSecret prints the hash of a secret, as admin.tokens takes it, or clients.
func runHashSecret(c *call) error {
	f := flags("hash-secret")
	client := f.Bool("client", false, "print an argon2id hash for the secret_hash of a client; default: sha256 for the hash of an admin token")
	if err := c.parse(f, 0); err != nil {
		return err
	}
	secret, err := c.readSecret()
	if err != nil {
		return err
	}
	if *client {
		var salt [16]byte
		_, _ = rand.Read(salt[:]) // never fails
		fmt.Fprintln(c.stdout, clients.NewHash(secret, salt))
		return nil
	}
	sum := sha256.Sum256([]byte(secret))
	fmt.Fprintf(c.stdout, "sha256:%s\n", hex.EncodeToString(sum[:]))
	return nil
}

// readSecret reads a secret from standard input, and asks for it where a person is to type it.
func (c *call) readSecret() (string, error) {
	if f, ok := c.stdin.(*os.File); ok && isTerminal(f) {
		fmt.Fprint(c.stderr, "secret, then Enter and Ctrl-D: ")
	}
	b, err := io.ReadAll(io.LimitReader(c.stdin, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("reading the secret: %w", err)
	}
	secret := strings.TrimRight(string(b), "\r\n")
	switch {
	case secret == "":
		return "", usagef("there was no secret on standard input")
	case len(b) > maxSecret:
		return "", usagef("the secret is longer than %d bytes", maxSecret)
	}
	return secret, nil
}

// defaultAdmin is where the admin listener is unless the configuration says otherwise.
const defaultAdmin = "127.0.0.1:9901"

// runHealthcheck asks the admin listener of a gateway on this machine.
func runHealthcheck(c *call) error {
	f := flags("healthcheck")
	file := f.String("config", "", "configuration `file` that says where the admin listener is")
	url := f.String("url", "", "`URL` to ask; default: /readyz of the admin listener")
	if err := c.parse(f, 0); err != nil {
		return err
	}
	target, client := *url, http.DefaultClient
	if target == "" {
		address, scheme := defaultAdmin, "http"
		if *file != "" {
			cfg, err := c.load(*file, "")
			if err != nil {
				return err
			}
			address = cfg.Admin.Listen
			if cfg.Admin.TLS.Cert != "" {
				// The certificate names the host that people use, hardly this machine's loopback; and nothing secret is sent.
				scheme, client = "https", &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			}
		}
		target = scheme + "://" + reachable(address) + "/readyz"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return usagef("%s", err)
	}
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", target, res.Status)
	}
	return nil
}

// reachable turns a listen address into one to dial.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
