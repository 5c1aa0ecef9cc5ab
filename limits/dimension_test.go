package limits

import (
	"slices"
	"testing"
)

func TestDimensionNames(t *testing.T) {
	names := []string{"source", "subnet", "target", "target_source", "client", "app", "device", "signups"} // in tie order [L10]
	for i, name := range names {
		d, err := ParseDimension(name)
		if err != nil || int(d) != i || d.String() != name {
			t.Errorf("%s: got %d %v, printed %s", name, d, err, d)
		}
	}
	if len(names) != int(numDimensions) {
		t.Errorf("got %d dimensions, want %d", numDimensions, len(names))
	}
	for _, bad := range []string{"", "Source", "ip", "dimension(9)"} {
		if d, err := ParseDimension(bad); err == nil {
			t.Errorf("%q: got %s, want an error", bad, d)
		}
	}
	if got, want := Dimension(200).String(), "dimension(200)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDimensionsOfClasses(t *testing.T) {
	for class, want := range map[Class][]Dimension{
		Requests:  {Source, Subnet, Target, TargetSource, Client, App, Signups},
		Failures:  {Source, Subnet, Target, TargetSource, Client, Device},
		Factors:   {Source, Subnet, Target, TargetSource},
		Class(77): nil,
	} {
		if got := Dimensions(class); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", class, got, want)
		}
	}
}

func TestClassNames(t *testing.T) {
	for class, want := range map[Class]string{Requests: "requests", Failures: "failures", Factors: "factors", Class(9): "class(9)"} {
		if got := class.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRefuseNames(t *testing.T) {
	for form, name := range map[Refuse]string{Loud: "429", Uniform: "uniform", Silent: "silent"} {
		got, err := ParseRefuse(name)
		if err != nil || got != form || form.String() != name {
			t.Errorf("%s: got %d %v, printed %s", name, got, err, form)
		}
	}
	for _, bad := range []string{"", "loud", "refuse(3)", "503"} {
		if f, err := ParseRefuse(bad); err == nil {
			t.Errorf("%q: got %s, want an error", bad, f)
		}
	}
	if got, want := Refuse(9).String(), "refuse(9)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNamesInLogs(t *testing.T) {
	for cause, want := range map[Cause]string{Room: "room", Full: "full", Locked: "locked", Held: "held"} {
		if got := cause.String(); got != want {
			t.Errorf("cause %d: got %q, want %q", cause, got, want)
		}
	}
	for outage, want := range map[Outage]string{OutageLocal: "local", OutageAllow: "allow", OutageDeny: "deny", Outage(3): "?"} {
		if got := outage.String(); got != want {
			t.Errorf("outage %d: got %q, want %q", outage, got, want)
		}
	}
}
