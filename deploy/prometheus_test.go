package deploy_test

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authgate/internal/metrics"
	"authgate/limits"
)

type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []alert
	}
}

type alert struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var out []alert
	for _, f := range decode[ruleFile](t, "prometheus/alerts.yaml") {
		for _, g := range f.Groups {
			out = append(out, g.Rules...)
		}
	}
	if len(out) < 15 {
		t.Fatalf("got %d alerts", len(out))
	}
	return out
}

// labelled are the labels that each metric has, by its name as Prometheus stores it.
type labelled map[string][]string

// known reads the gateway's own metrics from the code that declares them, and Go's and the process's from a registry.
func known(t *testing.T) labelled {
	t.Helper()
	out := labelled{"up": nil}
	paths, err := filepath.Glob("../internal/metrics/*.go")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`"(gateway_[a-z_]+)"`)
	histogram := regexp.MustCompile(`histogram\("(gateway_[a-z_]+)"`)
	labels := regexp.MustCompile(`(?:counter|NewDesc)\("(gateway_[a-z_]+)", "[^"]*"((?:, (?:\[\]string\{)?"[a-z_]+"\}?)*)`)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text := read(t, path)
		for _, m := range name.FindAllStringSubmatch(text, -1) {
			out[m[1]] = nil
		}
		for _, m := range labels.FindAllStringSubmatch(text, -1) {
			for _, l := range regexp.MustCompile(`"([a-z_]+)"`).FindAllStringSubmatch(m[2], -1) {
				out[m[1]] = append(out[m[1]], l[1])
			}
		}
		for _, m := range histogram.FindAllStringSubmatch(text, -1) {
			out[m[1]+"_bucket"], out[m[1]+"_sum"], out[m[1]+"_count"] = []string{"le"}, nil, nil
			delete(out, m[1])
		}
	}
	w := httptest.NewRecorder()
	metrics.New(nil).Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, m := range regexp.MustCompile(`(?m)^((?:go|process)_[a-z_]+)`).FindAllStringSubmatch(w.Body.String(), -1) {
		out[m[1]] = nil
	}
	if !slices.Equal(out["gateway_verdicts_total"], []string{"policy", "verdict"}) || out["process_max_fds"] != nil || len(out) < 40 {
		t.Fatalf("got %v, so the test looks in the wrong place", out)
	}
	return out
}

var (
	quoted   = regexp.MustCompile(`"[^"]*"`)
	selector = regexp.MustCompile(`\b(up|(?:gateway|go|process)_[a-z_]+)\b(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|on|without|ignoring)\s*\(([^)]*)\)`)
	used     = regexp.MustCompile(`\$labels\.(\w+)|\{\{(\w+)\}\}`)
)

// wrong tells what an expression, and the texts that show its result, name and there is not.
func (k labelled) wrong(t *testing.T, expr string, shown ...string) (problems []string) {
	t.Helper()
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	every := []string{"job", "instance"} // which Prometheus adds
	found := selector.FindAllStringSubmatch(expr, -1)
	for _, m := range found {
		labels, ok := k[m[1]]
		if !ok {
			problem("there is no metric %s", m[1])
		}
		every = append(every, labels...)
		for _, pair := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labels, pair[1]) && pair[1] != "job" && pair[1] != "instance" {
				problem("%s has no label %s", m[1], pair[1])
			}
			for _, value := range strings.Split(pair[2], "|") {
				if words := values(t, pair[1]); len(words) > 0 && !strings.HasPrefix(value, "$") && !slices.Contains(words, value) {
					problem("%s is never %q", pair[1], value)
				}
			}
		}
	}
	if len(found) == 0 {
		problem("there is no metric in it")
	}
	for _, m := range grouping.FindAllStringSubmatch(quoted.ReplaceAllString(expr, ""), -1) {
		for _, l := range strings.Split(m[1], ",") {
			if l = strings.TrimSpace(l); !slices.Contains(every, l) {
				problem("nothing has the label %s", l)
			}
		}
	}
	for _, m := range used.FindAllStringSubmatch(strings.Join(shown, "\n"), -1) {
		if l := m[1] + m[2]; !slices.Contains(every, l) {
			problem("shows the label %s, which nothing has", l)
		}
	}
	return problems
}

// check reports what is wrong with an expression.
func (k labelled) check(t *testing.T, where, expr string, shown ...string) {
	t.Helper()
	for _, problem := range k.wrong(t, expr, shown...) {
		t.Errorf("%s: %s: %s", where, problem, expr)
	}
}

// values are those that a label may have; none: any, as policies are the operator's words and codes are numbers.
func values(t *testing.T, label string) (words []string) {
	t.Helper()
	switch label {
	case "dimension", "bucket":
		for d := limits.Dimension(0); d < 64; d++ {
			words = append(words, d.String())
		}
	case "mode":
		words = []string{"enforce", "log-only"}
	case "job":
		words = []string{"authgate"}
	case "verdict", "state", "result", "reason", "operation":
		_, section, _ := strings.Cut(read(t, "../docs/reference.md"), "\n## Metrics\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(section, -1) {
			words = append(words, m[1])
		}
	}
	return words
}

// TestAlertsNameWhatExists holds the alert rules against the metrics of the program.
func TestAlertsNameWhatExists(t *testing.T) {
	k := known(t)
	for _, a := range alerts(t) {
		k.check(t, a.Alert, a.Expr, a.Annotations["summary"])
	}
}

// TestWrongNamesAreFound shows that the checks of alerts and dashboard can fail.
func TestWrongNamesAreFound(t *testing.T) {
	k := labelled{"gateway_verdicts_total": {"policy", "verdict"}, "up": nil}
	for name, c := range map[string]struct{ expr, shown string }{
		"metric":   {`gateway_verdict_total > 0`, ""},
		"matcher":  {`gateway_verdicts_total{realm="a"} > 0`, ""},
		"value":    {`gateway_verdicts_total{verdict="sucess"} > 0`, ""},
		"grouping": {`sum by (job, realm) (gateway_verdicts_total)`, ""},
		"legend":   {`gateway_verdicts_total`, "{{realm}}"},
		"summary":  {`up`, "{{ $labels.policy }}"},
		"nothing":  {`1 > 0`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if k.wrong(t, c.expr, c.shown) == nil {
				t.Error("nothing was found")
			}
		})
	}
	k.check(t, "a good one", `sum by (job, policy) (gateway_verdicts_total{verdict="success"}) > 0`, "{{policy}} {{ $labels.job }}")
}

// TestRunbook wants a paragraph for each alert, an alert for each paragraph, and a link from one to the other.
func TestRunbook(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "../docs/operations.md"), "\n## Alerts\n")
	section, _, _ = strings.Cut(section, "\n## ")
	paragraphs := map[string]string{}
	for _, part := range strings.Split(section, "\n### ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		paragraphs[heading] = text
	}
	for _, a := range alerts(t) {
		text, ok := paragraphs[a.Alert]
		delete(paragraphs, a.Alert)
		switch {
		case !ok:
			t.Errorf("%s has no paragraph in docs/operations.md", a.Alert)
		case !strings.Contains(text, "*Look*") || !strings.Contains(text, "*Do*"):
			t.Errorf("%s: the paragraph does not say what to look at, or what to do", a.Alert)
		}
		if got, want := a.Annotations["runbook_url"], "docs/operations.md#"+strings.ToLower(a.Alert); got != want {
			t.Errorf("%s: got runbook_url %q, want %q", a.Alert, got, want)
		}
		if a.Annotations["summary"] == "" || !slices.Contains([]string{"critical", "warning"}, a.Labels["severity"]) {
			t.Errorf("%s has no summary or no severity", a.Alert)
		}
	}
	for heading := range paragraphs {
		t.Errorf("docs/operations.md has a paragraph for %s, but there is no such alert", heading)
	}
}

// TestAlertsAreTested wants a case in which each alert fires, and one in which it does not.
func TestAlertsAreTested(t *testing.T) {
	type testFile struct {
		Files []string `yaml:"rule_files"`
		Every string   `yaml:"evaluation_interval"`
		Tests []struct {
			Name     string
			Interval string
			Series   []struct{ Series, Values string } `yaml:"input_series"`
			Cases    []struct {
				Alert string `yaml:"alertname"`
				At    string `yaml:"eval_time"`
				Want  []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range decode[testFile](t, "prometheus/alerts_test.yaml")[0].Tests {
		for _, c := range test.Cases {
			if len(c.Want) > 0 {
				fires[c.Alert] = true
			} else {
				silent[c.Alert] = true
			}
		}
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] || !silent[a.Alert] {
			t.Errorf("%s: is tested to fire: %v, not to: %v", a.Alert, fires[a.Alert], silent[a.Alert])
		}
	}
}

const installPromtool = "deploy/prometheus/install-promtool does it"

// TestPromtool has Prometheus's own tool read the rules and the configuration, and run the tests of the rules.
func TestPromtool(t *testing.T) {
	for _, args := range [][]string{
		{"check", "rules", "prometheus/alerts.yaml"},
		{"check", "config", "prometheus/prometheus.yaml"},
		{"test", "rules", "prometheus/alerts_test.yaml"},
	} {
		if out := tool(t, installPromtool, "promtool", args...); !strings.Contains(out, "SUCCESS") {
			t.Errorf("promtool %v: %s", args, out)
		}
	}
}
