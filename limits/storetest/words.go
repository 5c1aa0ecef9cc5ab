package storetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"authgate/limits"
)

// answer is a decision in words: "refused, a full 5m0s, b locked 1m0s; c left 2 whole 3s; knows bob".
func answer(a *attempt, d *limits.Decision) string {
	var b strings.Builder
	b.WriteString("refused")
	if d.Admitted {
		b.Reset()
		b.WriteString("admitted")
	}
	for _, r := range d.Refusals {
		fmt.Fprintf(&b, ", %s %s %s", a.names[r.Charge], r.Cause, span(r.Wait))
	}
	for _, q := range d.Quotas {
		fmt.Fprintf(&b, "; %s left %d whole %s", a.names[q.Charge], q.Remaining, span(q.Reset))
	}
	if d.Known != 0 {
		b.WriteString("; knows")
		for i, f := range a.Facts {
			if d.Knew(i) {
				b.WriteString(" " + string(f))
			}
		}
	}
	return b.String()
}

// effects is what a settlement did in words: "a counted, b locked 5m0s level 1; repeated".
func effects(a *attempt, out *limits.Settled) string {
	var words []string
	i := 0
	for n := range a.Charges {
		if k := a.Charges[n].Rule.Kind(); k != limits.KindFailures && k != limits.KindSignal {
			continue
		}
		words = append(words, a.names[n]+" "+effect(out.Effects[i]))
		i++
	}
	text := strings.Join(words, ", ")
	for _, again := range out.Repeated {
		if again {
			text += "; repeated"
		}
	}
	return text
}

func effect(e limits.Effect) string {
	switch e {
	case limits.Effect{}:
		return "gone"
	case limits.Effect{Done: true}:
		return "freed"
	case limits.Effect{Done: true, Counted: true}:
		return "counted"
	case limits.Effect{Done: true, Counted: true, Filled: true}:
		return "filled"
	case limits.Effect{Done: true, Counted: true, Crossed: true}:
		return "crossed"
	case limits.Effect{Done: true, Counted: true, Filled: true, Locked: e.Locked, Level: e.Level}:
		return fmt.Sprintf("locked %s level %d", span(e.Locked), e.Level)
	}
	return fmt.Sprintf("%+v", e)
}

// idle reports whether a settlement says that it did nothing.
func idle(out *limits.Settled) bool {
	return !slices.Contains(out.Repeated, true) && !slices.ContainsFunc(out.Effects, func(e limits.Effect) bool {
		return e != limits.Effect{}
	})
}

// listed is a list of failure buckets in words, in order of their names.
func listed(entries []limits.Entry, names map[string]string) string {
	if len(entries) == 0 {
		return "none"
	}
	words := make([]string, 0, len(entries))
	for _, e := range entries {
		w := fmt.Sprintf("%s %d", cmp.Or(names[e.Key], e.Key), e.Attempts)
		if e.LockedFor != 0 {
			w += " locked " + span(e.LockedFor)
		}
		if e.Level != 0 {
			w += fmt.Sprintf(" level %d", e.Level)
		}
		words = append(words, w)
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// allEntries reads the whole list, a page of the given size at a time.
func allEntries(ctx context.Context, s limits.Locks, page int) ([]limits.Entry, error) {
	var all []limits.Entry
	cursor := ""
	for range 100_000 {
		entries, next, err := s.Entries(ctx, cursor, page)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
		if next == "" {
			return all, nil
		}
		cursor = next
	}
	return nil, fmt.Errorf("the list has no end: cursor %q", cursor)
}

// difference tells two snapshots apart.
func difference(before, after map[string]string) string {
	var lines []string
	for k, v := range before {
		if w, ok := after[k]; !ok {
			lines = append(lines, fmt.Sprintf("  - %s: %q", k, v))
		} else if v != w {
			lines = append(lines, fmt.Sprintf("  ~ %s: %q became %q", k, v, w))
		}
	}
	for k, v := range after {
		if _, ok := before[k]; !ok {
			lines = append(lines, fmt.Sprintf("  + %s: %q", k, v))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func span(ms limits.Millis) string { return (time.Duration(ms) * time.Millisecond).String() }

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
