package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authgate/limits"
)

// fileOf writes a configuration that names a backend and the text.
func fileOf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

const manyRealms = `# The gateway of three tenants.
upstream: {url: http://127.0.0.1:9000}   # the backend

presets: [modgud]

realms:
  # The first tenant.
  acme:                # since 2019
    hosts: [auth.acme.test]
    mode: log-only
    policies:
      magic-link: {requests: {target: {limit: 3, window: 60m}}}   # they asked for it
    # and that was all

  # The second tenant.
  bell:
    hosts:
      - auth.bell.test
    allowlist: "env:BELL"

# Who may look.
admin:
  listen: 127.0.0.1:9901
# The end.
`

func TestExportRealm(t *testing.T) {
	t.Setenv("BELL", "192.0.2.0/24")
	path := fileOf(t, manyRealms)
	for _, c := range []struct{ realm, want string }{
		{"acme", `realms:
  acme:
    hosts: [auth.acme.test]
    mode: log-only
    policies:
      magic-link: {requests: {target: {limit: 3, window: 60m}}} # they asked for it
`},
		{"bell", `realms:
  bell:
    hosts:
      - auth.bell.test
    allowlist: "env:BELL"
`},
	} {
		t.Run(c.realm, func(t *testing.T) {
			got, _, err := ExportRealm(path, c.realm)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("got:\n%swant:\n%s", got, c.want)
			}
			back, _, err := ImportRealm(path, "fragment", got)
			if err != nil {
				t.Fatal(err)
			}
			if len(back.Changes) > 0 || back.Added || !bytes.Equal(back.before, back.after) {
				t.Errorf("importing what was exported changes %v", back.Changes)
			}
		})
	}
	for _, c := range []struct{ name, text, want string }{
		{"no such realm", manyRealms, `has no realm "nobody"; it has acme, bell`},
		{"no realms", backend, "it has none"},
		{"a bad file", backend + "mod: x\n", "mod: is no key; did you mean mode?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, err := ExportRealm(fileOf(t, c.text), "nobody"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestImportRealm(t *testing.T) {
	t.Setenv("BELL", "192.0.2.0/24")
	const head = "upstream: {url: http://127.0.0.1:9000}\npresets: [modgud]\n"
	for _, c := range []struct{ name, before, fragment, after string }{
		{
			"replaces, in the middle", manyRealms, "realms: {acme: {hosts: [new.acme.test]}}",
			strings.Replace(manyRealms, manyRealms[strings.Index(manyRealms, "  acme:"):strings.Index(manyRealms, "\n  # The second")],
				"  acme: {hosts: [new.acme.test]}\n", 1),
		},
		{
			"replaces, at the end of the section", manyRealms, "realms:\n  bell:\n    mode: enforce\n    # why not\n    hosts: []\n",
			strings.Replace(manyRealms, manyRealms[strings.Index(manyRealms, "  bell:"):strings.Index(manyRealms, "\n# Who may look")],
				"  bell:\n    mode: enforce\n    # why not\n    hosts: []\n", 1),
		},
		{
			"adds", manyRealms, "realms: {cole: {mode: enforce}}",
			strings.Replace(manyRealms, "\"env:BELL\"\n", "\"env:BELL\"\n  cole: {mode: enforce}\n", 1),
		},
		{"adds the first, no section", head + "# end", "realms: {cole: }", head + "# end\nrealms:\n  cole: {}\n"},
		{"adds the first, empty section", head + "realms:\n# end\n", "realms: {cole: {}}", head + "realms:\n  cole: {}\n# end\n"},
		{"adds the first, braces", head + "realms: {} # none\nmode: enforce\n", "realms: {cole: {}}", head + "realms:\n  cole: {}\nmode: enforce\n"},
		{
			"a section on one line", head + "realms: {acme: {mode: enforce}, bell: {}}\nmode: enforce\n", "realms: {acme: {mode: log-only}}",
			head + "realms:\n  acme: {mode: log-only}\n  bell: {}\nmode: enforce\n",
		},
		{"deeper indentation", head + "realms:\n      acme:\n", "realms: {bell: {mode: enforce}}", head + "realms:\n      acme:\n      bell: {mode: enforce}\n"},
		{"no newline at the end", head + "realms:\n  acme: {}", "realms: {acme: {mode: enforce}}", head + "realms:\n  acme: {mode: enforce}\n"},
		{
			"carriage returns", strings.ReplaceAll(head+"realms:\n  acme:\n    mode: enforce\nmode: enforce\n", "\n", "\r\n"), "realms: {acme: {hosts: [a.test]}}\n",
			strings.ReplaceAll(head+"realms:\n  acme: {hosts: [a.test]}\nmode: enforce\n", "\n", "\r\n"),
		},
		{"an end mark", "---\n" + head + "...\n", "realms: {acme: {}}", "---\n" + head + "realms:\n  acme: {}\n...\n"},
		{"an indented document", "  upstream: {url: http://127.0.0.1:9000}\n  mode: enforce\n", "realms: {acme: {}}", "  upstream: {url: http://127.0.0.1:9000}\n  mode: enforce\n  realms:\n    acme: {}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := fileOf(t, c.before)
			got, _, err := ImportRealm(path, "fragment", []byte(c.fragment))
			if err != nil {
				t.Fatal(err)
			}
			if now := read(t, path); now != c.before {
				t.Errorf("the file was written before Save:\n%s", now)
			}
			if err := got.Save(); err != nil {
				t.Fatal(err)
			}
			if now := read(t, path); now != c.after {
				t.Errorf("got:\n%s\nwant:\n%s", now, c.after)
			}
			if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
				t.Errorf("got mode %v %v, want 0640", info.Mode(), err)
			}
			if names, _ := filepath.Glob(filepath.Dir(path) + "/.*"); len(names) > 0 {
				t.Errorf("%v is left behind", names)
			}
		})
	}
}

func TestImportRealmTellsWhatChanged(t *testing.T) {
	t.Setenv("BELL", "192.0.2.0/24")
	got, _, err := ImportRealm(fileOf(t, manyRealms), "fragment", []byte(`
realms:
  acme:
    hosts: [auth.acme.test, "b.acme.test"]
    policies: {magic-link: {requests: {target: {limit: 4, window: 60m}}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []LeafChange{
		{"realms.acme.hosts", "[auth.acme.test]", "[auth.acme.test, b.acme.test]"},
		{"realms.acme.policies.magic-link.requests.target.limit", "3", "4"},
		{"realms.acme.mode", "log-only", ""},
	}
	if got.Added || len(got.Changes) != len(want) {
		t.Fatalf("got %+v", got.Changes)
	}
	for i := range want {
		if got.Changes[i] != want[i] {
			t.Errorf("got %+v, want %+v", got.Changes[i], want[i])
		}
	}
}

func TestImportRealmRefuses(t *testing.T) {
	const head = "upstream: {url: http://127.0.0.1:9000}\n"
	for _, c := range []struct{ name, file, fragment, want string }{
		{"an empty fragment", head, "", "fragment:1: is empty; use what `gateway realm export` prints"},
		{"an empty mapping", head, "{}", "is empty"},
		{"more than a realm", head, "realms: {a: {}}\nmode: enforce\n", "fragment:2: mode: is no part of a realm"},
		{"two realms", head, "realms: {a: {}, b: {}}", "fragment:1: realms: holds 2 realms; a fragment is one"},
		{"no realm", head, "realms: {}", "holds 0 realms"},
		{"realms that are a list", head, "realms: [a]", "a fragment is one"},
		{"realms twice", head, "realms: {a: {}}\nrealms: {b: {}}", "fragment:2: realms: is no part of a realm"},
		{"a realm that is a word", head, "realms: {a: b}", `realms.a: is the text "b"; use a mapping`},
		{"a bad name", head, "realms: {A: {}}", `"A" is no name`},
		{"no YAML", head, "realms: {", "is no YAML"},
		{"two documents", head, "realms: {a: {}}\n---\n", "a second document"},
		{"a key that is none", head, "realms: {a: {hostes: []}}", "realms.a.hostes: is no key; did you mean hosts?"},
		{"a policy that is none", head, "realms: {a: {policies: {nope: {}}}}", "is no policy"},
		{"an alias", head, "realms: {a: {hosts: &x [a.test], mode: *x}}", "is an alias"},
		{"a duplicate key", head, "realms: {a: {mode: enforce, mode: enforce}}", "is there twice"},
		{"a file with another fault", head + "mod: x\n", "realms: {a: {}}", "mod: is no key"},
		{"an empty file", "# nothing\n", "realms: {a: {}}", "is empty"},
		{"a file on one line", "{upstream: {url: http://127.0.0.1:9000}}", "realms: {a: {}}", "not laid out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := fileOf(t, c.file)
			_, _, err := ImportRealm(path, "fragment", []byte(c.fragment))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if now := read(t, path); now != c.file {
				t.Errorf("the file was written:\n%s", now)
			}
		})
	}
}

func TestSaveKeepsForeignChanges(t *testing.T) {
	path := fileOf(t, backend)
	change, _, err := ImportRealm(path, "fragment", []byte("realms: {a: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	edited := backend + "mode: log-only\n"
	if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := change.Save(); !errors.Is(err, errChanged) {
		t.Errorf("got %v, want %v", err, errChanged)
	}
	if got := read(t, path); got != edited {
		t.Errorf("got:\n%s", got)
	}
}

func TestSaveKeepsTheOwner(t *testing.T) {
	path := fileOf(t, backend)
	const somebody = 12345
	if err := os.Chown(path, somebody, somebody); err != nil {
		t.Skip("only root can give files away")
	}
	change, _, err := ImportRealm(path, "fragment", []byte("realms: {a: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := change.Save(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%+v", info.Sys()); !strings.Contains(got, "Uid:12345 Gid:12345") {
		t.Errorf("got %s", got)
	}
}

func TestSaveFollowsLinks(t *testing.T) {
	path := fileOf(t, backend)
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err)
	}
	change, _, err := ImportRealm(link, "fragment", []byte("realms: {a: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := change.Save(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v %v", info, err)
	}
	if got := read(t, path); !strings.Contains(got, "a: {}") {
		t.Errorf("got:\n%s", got)
	}
}

// FuzzImportRealm: nothing panics, and what would be written is valid, has the realm, and imports again without a change.
func FuzzImportRealm(f *testing.F) {
	f.Add([]byte(strings.ReplaceAll(manyRealms, "\"env:BELL\"", "192.0.2.7")), []byte("realms: {acme: {mode: enforce}}"))
	f.Add([]byte(backend+"realms: {a: {}}"), []byte("realms:\n  b:\n    # c\n    hosts: [a.test]\n"))
	f.Add([]byte("  "+backend+"  realms:\n   a:\n    mode: >-\n     enforce\n\n#x\n"), []byte("realms: {a: }"))
	f.Fuzz(func(t *testing.T, file, fragment []byte) {
		change, _, err := importRealm("file", file, "fragment", fragment)
		if err != nil {
			return
		}
		again, _, err := importRealm("file", change.after, "fragment", fragment)
		if err != nil || len(again.Changes) > 0 {
			t.Fatalf("importing again: %v %v\n%s", err, again, change.after)
		}
		if _, err := exportRealm("file", change.after, change.Realm); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRuleOrigin(t *testing.T) {
	cfg, _ := parse(t, backend+`presets: [modgud]
policies:
  own:
    match: [{path: /own}]
    target: {from: "form:user"}
    requests:
      target:
        - {limit: 1, window: 1m}
        - {limit: 9, window: 1h}
realms:
  acme:
    policies:
      own: {requests: {target: {limit: 2, window: 1m}}}
    apps:
      shop:
        policies:
          own: {requests: {target: off}}
`, Options{})
	for _, c := range []struct {
		name, realm, app, policy string
		index                    int
		path, origin             string
	}{
		{"a preset's", "", "", "magic-link", 0, "policies.magic-link.requests.target", "preset modgud"},
		{"inherited from a preset", "acme", "shop", "magic-link", 0, "policies.magic-link.requests.target", "preset modgud"},
		{"the second of a list", "", "", "own", 1, "policies.own.requests.target[1]", "test.yaml:10"},
		{"in a realm without overrides", "default", "", "own", 0, "policies.own.requests.target[0]", "test.yaml:9"},
		{"a realm's", "acme", "", "own", 0, "realms.acme.policies.own.requests.target", "test.yaml:14"},
		{"an app's", "acme", "shop", "own", 0, "realms.acme.apps.shop.policies.own.requests.target", "test.yaml:18"},
		{"the realm's in another app", "acme", "other", "own", 0, "realms.acme.policies.own.requests.target", "test.yaml:14"},
		{"nobody's", "", "", "none", 0, "policies.none.requests.target", "default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := limits.Rule{Policy: c.policy, Class: limits.Requests, Dimension: limits.Target, Index: c.index}
			path, origin := cfg.RuleOrigin(c.realm, c.app, &r)
			if path != c.path || origin.String() != c.origin {
				t.Errorf("got %s %s, want %s %s", path, origin, c.path, c.origin)
			}
		})
	}
}
