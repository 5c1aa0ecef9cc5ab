package deploy_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard is what is looked at of Grafana's format.
type dashboard struct {
	UID         string
	Panels      []panel
	Templating  struct{ List []variable }
	Annotations struct {
		List []struct{ Name, Expr, TextFormat string }
	}
}

type panel struct {
	ID          int
	Type, Title string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ RefID, Expr, LegendFormat string }
}

type variable struct{ Name, Type, Definition string }

// TestDashboard holds the dashboard against the metrics of the program, and its panels against each other.
func TestDashboard(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "grafana/authgate.json")), &d); err != nil {
		t.Fatal(err)
	}
	k := known(t)
	variables := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		if m := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(v.Definition); m != nil {
			k.check(t, "variable "+v.Name, m[1], "{{"+m[2]+"}}")
		} else if v.Type != "datasource" {
			t.Errorf("variable %s: got %q", v.Name, v.Definition)
		}
	}
	for _, a := range d.Annotations.List {
		k.check(t, "annotation "+a.Name, a.Expr, a.TextFormat)
	}
	ids, shown := map[int]bool{}, map[string]bool{}
	for i, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		for _, q := range d.Panels[:i] {
			if a, b := p.GridPos, q.GridPos; a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s covers %s", p.Title, q.Title)
			}
		}
		if p.Type != "row" && (len(p.Targets) == 0 || p.Description == "") {
			t.Errorf("%s shows nothing, or does not say what", p.Title)
		}
		for _, q := range p.Targets {
			k.check(t, p.Title, q.Expr, q.LegendFormat)
			for _, m := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(q.Expr, -1) {
				if !slices.Contains(variables, m[1]) {
					t.Errorf("%s: there is no variable %s", p.Title, m[1])
				}
			}
			for _, m := range selector.FindAllStringSubmatch(q.Expr, -1) {
				shown[m[1]] = true
			}
		}
	}
	for name := range k {
		if strings.HasPrefix(name, "gateway_") && !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_count") && !shown[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// TestProvisioning follows the paths from Compose to what Grafana and Prometheus are told to read.
func TestProvisioning(t *testing.T) {
	for _, path := range []string{"grafana/provisioning/datasources/prometheus.yaml", "grafana/provisioning/dashboards/authgate.yaml"} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if text := read(t, "grafana/provisioning/datasources/prometheus.yaml"); !strings.Contains(text, "url: http://prometheus:9090\n") {
		t.Errorf("the data source is not the Prometheus of Compose:\n%s", text)
	}
}
