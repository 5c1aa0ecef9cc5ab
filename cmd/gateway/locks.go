package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// runLocks is /meta/login-rate-limit from a shell.
func runLocks(c *call) error {
	if len(c.args) == 0 {
		return usagef("use `gateway locks list`, `gateway locks release ID` or `gateway locks clear`")
	}
	if c.args[0] == "-h" || c.args[0] == "--help" || c.args[0] == "-help" {
		c.args = append([]string{"list"}, c.args...)
	}
	action := c.args[0]
	c.args = c.args[1:]
	f := flags("locks " + action)
	admin := f.String("admin", "http://127.0.0.1:9901", "`URL` of the admin listener")
	token := f.String("token", os.Getenv("AUTHGATE_TOKEN"), "bearer `token`; better in the environment as AUTHGATE_TOKEN, where no process list shows it")
	all := f.Bool("all", false, "list: open entries too, not only locked ones")
	scope := f.String("scope", "", "list: only this `scope`: user_ip, ip, subnet, user, device, client")
	q := f.String("q", "", "list: only identifiers that contain this `text`")
	policy := f.String("policy", "", "list: only this `policy`")
	asJSON := f.Bool("json", false, "list: print JSON")
	if err := c.parse(f, 1); err != nil {
		return err
	}
	m := meta{base: strings.TrimSuffix(*admin, "/"), token: *token}
	switch {
	case action == "list" && f.NArg() == 0:
		query := url.Values{}
		for name, value := range map[string]string{"scope": *scope, "q": *q, "policy": *policy} {
			if value != "" {
				query.Set(name, value)
			}
		}
		if *all {
			query.Set("include", "all")
		}
		return c.listLocks(m, query, *asJSON)
	case action == "release" && f.NArg() == 1:
		if _, err := m.do(http.MethodDelete, "/meta/login-rate-limit/"+url.PathEscape(f.Arg(0))); err != nil {
			return err
		}
		fmt.Fprintln(c.stdout, "released")
		return nil
	case action == "clear" && f.NArg() == 0:
		b, err := m.do(http.MethodDelete, "/meta/login-rate-limit")
		if err != nil {
			return err
		}
		var out struct{ Cleared int }
		if err := json.Unmarshal(b, &out); err != nil {
			return fmt.Errorf("reading the answer: %w", err)
		}
		fmt.Fprintf(c.stdout, "cleared %d\n", out.Cleared)
		return nil
	}
	return usagef("use `gateway locks list`, `gateway locks release ID` or `gateway locks clear`")
}

// lockEntry is an entry of /meta/login-rate-limit.
type lockEntry struct {
	ID         string `json:"id"`
	Scope      string `json:"scope"`
	Identifier string `json:"identifier"`
	Attempts   int64  `json:"attempts"`
	Locked     bool   `json:"locked"`
	LockedFor  *int64 `json:"locked_for_seconds"`
	Level      int64  `json:"lockout_level"`
	Policy     string `json:"policy"`
	Realm      string `json:"realm"`
}

// lockPage is an answer of /meta/login-rate-limit.
type lockPage struct {
	Entries   []lockEntry `json:"entries"`
	Next      string      `json:"next_cursor"`
	Truncated bool        `json:"truncated"`
}

func (c *call) listLocks(m meta, query url.Values, asJSON bool) error {
	var all []lockEntry
	for {
		b, err := m.do(http.MethodGet, "/meta/login-rate-limit?"+query.Encode())
		if err != nil {
			return err
		}
		if asJSON {
			_, err := c.stdout.Write(b)
			return err
		}
		var page lockPage
		if err := json.Unmarshal(b, &page); err != nil {
			return fmt.Errorf("reading the answer: %w", err)
		}
		all = append(all, page.Entries...)
		if page.Next == "" {
			break
		}
		query.Set("cursor", page.Next)
	}
	if len(all) == 0 {
		fmt.Fprintln(c.stdout, "nothing is locked")
		return nil
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SCOPE\tIDENTIFIER\tATTEMPTS\tLOCKED FOR\tLEVEL\tPOLICY\tREALM\tID")
	for _, e := range all {
		locked := "-"
		if e.LockedFor != nil {
			locked = (time.Duration(*e.LockedFor) * time.Second).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s\n", e.Scope, printable(e.Identifier), e.Attempts, locked, e.Level, e.Policy, e.Realm, e.ID)
	}
	return w.Flush()
}

// printable keeps control characters, which a name may hold, off the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069) {
			return '?'
		}
		return r
	}, s)
}

// meta talks to an admin listener.
type meta struct{ base, token string }

const maxMetaAnswer = 64 << 20

func (m meta) do(method, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, m.base+path, nil)
	if err != nil {
		return nil, usagef("%s", err)
	}
	r.Header.Set("Authorization", "Bearer "+m.token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxMetaAnswer))
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		return b, nil
	}
	var f struct{ Error, Message string }
	if json.Unmarshal(b, &f) != nil || f.Error == "" {
		return nil, fmt.Errorf("%s answered %s", m.base, res.Status)
	}
	if f.Message != "" {
		f.Error += ": " + f.Message
	}
	return nil, errors.New(f.Error)
}
