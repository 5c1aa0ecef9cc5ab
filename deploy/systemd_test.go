package deploy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"authgate/internal/config"
)

// unit are the settings of a unit, by section and name; a setting that is there twice has its values in lines.
func unit(t *testing.T, path string) map[string]string {
	t.Helper()
	out := map[string]string{}
	section := ""
	for _, line := range lines(read(t, path)) {
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]") + "."
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			t.Errorf("%s: %q is no setting", path, line)
		}
		if was, again := out[section+name]; again {
			value = was + "\n" + value
		}
		out[section+name] = value
	}
	return out
}

// TestUnit holds the unit against the program: its commands, its time to stop, its secrets.
func TestUnit(t *testing.T) {
	u := unit(t, "systemd/authgate.service")
	for name, want := range map[string]string{
		"Service.ExecStart":                "/usr/local/bin/gateway run --config /etc/authgate/config.yaml",
		"Service.RestartPreventExitStatus": "2",
		"Service.DynamicUser":              "yes",
		"Service.ProtectSystem":            "strict",
		"Service.NoNewPrivileges":          "yes",
		"Service.CapabilityBoundingSet":    "",
		"Service.SystemCallFilter":         "@system-service\n~@privileged @resources",
		"Service.StateDirectory":           "authgate",
	} {
		if got, ok := u[name]; !ok || got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	cfg, _, err := config.Builtin("http://127.0.0.1:3000")
	if err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.Atoi(u["Service.TimeoutStopSec"])
	if err != nil || time.Duration(seconds)*time.Second <= settling(cfg) {
		t.Errorf("a stop may take %q seconds, but needs %s", u["Service.TimeoutStopSec"], settling(cfg))
	}
	if files, err := strconv.Atoi(u["Service.LimitNOFILE"]); err != nil || files < 2*cfg.Server.MaxConnections {
		t.Errorf("LimitNOFILE is %q, but a client and its call to the backend take two, and there may be %d", u["Service.LimitNOFILE"], cfg.Server.MaxConnections)
	}
	reload := strings.Split(u["Service.ExecReload"], "\n")
	if len(reload) != 2 || reload[0] != "/usr/local/bin/gateway check --config /etc/authgate/config.yaml" || !strings.Contains(reload[1], "-HUP $MAINPID") {
		t.Errorf("it is reloaded by %q", reload)
	}
}

// TestSocket holds the socket against the configuration that README.md has installed with it: the gateway takes over no socket at an
// address that its file does not name.
func TestSocket(t *testing.T) {
	u := unit(t, "systemd/authgate.socket")
	cfg, _, err := config.Load("../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range strings.Split(u["Socket.ListenStream"], "\n") {
		if !slices.Contains(cfg.Server.Listen, address) {
			t.Errorf("it listens on %s, but the gateway on %q", address, cfg.Server.Listen)
		}
	}
	if u["Install.WantedBy"] != "sockets.target" {
		t.Errorf("it is wanted by %q", u["Install.WantedBy"])
	}
}

// TestSystemdAnalyze has systemd read the units, and say how exposed the service is: from 0, not at all, to 10.
func TestSystemdAnalyze(t *testing.T) {
	folder := t.TempDir()
	program, err := os.Executable() // something that is there, in place of what is to be installed
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, name := range []string{"authgate.service", "authgate.socket"} {
		path := filepath.Join(folder, name)
		text := strings.ReplaceAll(read(t, filepath.Join("systemd", name)), "/usr/local/bin/gateway", program)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	const install = "it is a part of systemd"
	if out := tool(t, install, "systemd-analyze", append([]string{"verify"}, paths...)...); strings.Contains(out, folder) {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	tool(t, install, "systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager", paths[0])
}
