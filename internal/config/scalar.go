package config

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Size is a number of bytes.
type Size int64

// String is the size as the file spells it: in the largest unit that divides it.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

var sizeUnits = [...]struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

const (
	durationForm = "use a duration such as 250ms, 90s, 15m, 24h or 90d"
	sizeForm     = "use a size such as 64KiB, 1MiB or a number of bytes"
)

// scalar decodes a text, number, truth value, duration or size over v.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string, f field) {
	if n.Kind != yaml.ScalarNode {
		d.badNode(n, path, "is %s; use %s", describe(n), wanted(v))
		return
	}
	var err error
	switch v.Interface().(type) {
	case Secret:
		err = d.setText(n, v, path, field{ref: true})
	case *url.URL:
		err = d.setURL(n, v, path, f)
	case time.Duration:
		err = setNumber(v, n, f, parseDuration, formatDuration)
	case Size:
		err = setNumber(v, n, f, parseSize, Size.String)
	default:
		err = d.basic(n, v, path, f)
	}
	if err != nil {
		d.badNode(n, path, "%v", err)
	}
}

// basic decodes over a string, bool or int.
func (d *decoder) basic(n *yaml.Node, v reflect.Value, path string, f field) error {
	switch {
	case v.Kind() == reflect.String && f.enum != nil:
		if slices.Contains(f.laterValues, n.Value) && !d.options.later {
			return fmt.Errorf("%s is not supported by this version; use %s", n.Value, oneOf(f.enum, f.laterValues))
		}
		if !slices.Contains(f.enum, n.Value) {
			return fmt.Errorf("is %s; use %s", describe(n), oneOf(f.enum, f.laterValues))
		}
		v.SetString(n.Value)
	case v.Kind() == reflect.String:
		return d.setText(n, v, path, f)
	case v.Kind() == reflect.Bool:
		if n.ShortTag() != "!!bool" {
			return fmt.Errorf("is %s; use true or false", describe(n))
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case v.Kind() == reflect.Int:
		return setNumber(v, n, f, parseInt, strconv.Itoa)
	default:
		return fmt.Errorf("is %s; a %s cannot be decoded", describe(n), v.Type())
	}
	return nil
}

// setNumber parses the scalar and holds it against the bounds of its field.
func setNumber[T int | time.Duration | Size](v reflect.Value, n *yaml.Node, f field, parse func(string) (T, error), format func(T) string) error {
	x, err := parse(n.Value)
	if err != nil {
		return err
	}
	if low, err := parse(f.min); f.min != "" && err == nil && x < low {
		return fmt.Errorf("%s is too small; use at least %s", n.Value, format(low))
	}
	if high, err := parse(f.max); f.max != "" && err == nil && x > high {
		return fmt.Errorf("%s is too large; use at most %s", n.Value, format(high))
	}
	v.SetInt(int64(x))
	return nil
}

func (d *decoder) setText(n *yaml.Node, v reflect.Value, path string, f field) error {
	text, err := d.text(n, path, f.ref, f.spelled)
	if err == nil {
		v.SetString(text)
	}
	return err
}

// setURL never quotes the text, which may hold a password.
func (d *decoder) setURL(n *yaml.Node, v reflect.Value, path string, f field) error {
	text, err := d.text(n, path, f.ref, false)
	if err != nil {
		return err
	}
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("is no URL; write scheme://host:port")
	}
	v.Set(reflect.ValueOf(u))
	return nil
}

// text is the text of a scalar, or what its reference leads to. In lists and predicates a number or a truth value is the
// text that was written: status: 401, form: {remember: true}.
func (d *decoder) text(n *yaml.Node, path string, ref, spelled bool) (string, error) {
	if tag := n.ShortTag(); tag != "!!str" && !(spelled && (tag == "!!int" || tag == "!!float" || tag == "!!bool" || tag == "!!timestamp")) {
		if ref {
			return "", errors.New("is no text; put it in quotes")
		}
		return "", fmt.Errorf("is %s; use a text (put it in quotes)", describe(n))
	}
	if strings.ContainsRune(n.Value, 0) {
		return "", errors.New("holds a NUL character; leave it out")
	}
	if !ref {
		return n.Value, nil
	}
	if n.Value == secretMask {
		return "", errors.New("is the mask of a printed configuration; write the secret itself, env:NAME or file:PATH")
	}
	text, is, err := d.options.resolve(n.Value)
	if err != nil || !is {
		return text, err
	}
	o := d.origins[path]
	o.Via = n.Value
	d.origins[path] = o
	return text, nil
}

// parseDuration reads a duration of the file: Go's spelling, and whole days.
func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := parseInt(days)
		if err != nil || n < 0 || n > math.MaxInt64/int(24*time.Hour) {
			return 0, fmt.Errorf("%s is no duration; %s", quote(s), durationForm)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil && s != "0" {
		return 0, fmt.Errorf("%s has no unit; %s", printable(s), durationForm)
	}
	x, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%s is no duration; %s", quote(s), durationForm)
	}
	if x < 0 {
		return 0, fmt.Errorf("%s is negative; %s", printable(s), durationForm)
	}
	return x, nil
}

// formatDuration spells a duration as the file does.
func formatDuration(x time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case x > day && x%day == 0:
		return fmt.Sprintf("%dd", x/day)
	case x >= time.Hour && x%time.Hour == 0:
		return fmt.Sprintf("%dh", x/time.Hour)
	case x >= time.Minute && x%time.Minute == 0 && x < day:
		return fmt.Sprintf("%dm", x/time.Minute)
	}
	return x.String()
}

func parseSize(s string) (Size, error) {
	number, factor := s, int64(1)
	for _, u := range sizeUnits {
		if digits, ok := strings.CutSuffix(s, u.name); ok {
			number, factor = strings.TrimSpace(digits), u.bytes
			break
		}
	}
	n, err := parseInt(number)
	if err != nil || n < 0 || int64(n) > math.MaxInt64/factor {
		return 0, fmt.Errorf("%s is no size; %s", quote(s), sizeForm)
	}
	return Size(int64(n) * factor), nil
}

// parseInt reads a decimal number; the other spellings of YAML (0x10, 1_000, 010) are not for people.
func parseInt(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || strconv.Itoa(n) != s {
		return 0, fmt.Errorf("%s is no whole number; use decimal digits", quote(s))
	}
	return n, nil
}

// wanted says what a scalar field takes.
func wanted(v reflect.Value) string {
	switch v.Interface().(type) {
	case time.Duration:
		return "one duration"
	case Size:
		return "one size"
	}
	switch v.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "one whole number"
	}
	return "one text"
}

// oneOf lists the words of an enum but for those that are not yet supported.
func oneOf(words, but []string) string {
	var out []string
	for _, w := range words {
		if w != "" && !slices.Contains(but, w) {
			out = append(out, w)
		}
	}
	if len(out) < 2 {
		return strings.Join(out, "")
	}
	return strings.Join(out[:len(out)-1], ", ") + " or " + out[len(out)-1]
}
