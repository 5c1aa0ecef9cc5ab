// Package config reads the configuration file: it lays defaults, presets and the file over each other, checks the whole, and
// hands out plain typed values. Everything that is wrong is reported at once, with its position. Nothing
// outside this package knows that the file is YAML.
package config

import (
	"bytes"
	"fmt"
	"slices"

	"authgate/clientip"
	"authgate/limits"
)

// Config is a valid configuration. It is never changed after it was made, so any number of goroutines may read it.
type Config struct {
	Server    Server
	Upstream  Upstream
	ClientIP  ClientIP
	Store     Store
	Mode      Mode               // where neither policy nor realm says otherwise
	Allowlist clientip.PrefixSet // exempt from source, subnet, signups and source signals [L15]
	Presets   []string           // in the order in which they were merged
	Policies  []Policy           // in the order that decides ties [L10]: those of presets first, then file order
	Admin     Admin
	Log       Log
	Audit     Audit

	RejectUnknownHost bool    // a Host that no realm names is refused
	Realms            []Realm // in file order; empty: every host belongs to one realm
	Clients           []Client
	Forwarder         Forwarder
	Signups           Signups
	Device            Device
	Unlock            Unlock
	Telemetry         Telemetry

	files   []string // those of values written as file:PATH
	shown   *view    // the whole document without its secrets, which must not be where the fmt package finds them
	origins map[string]Origin
}

// Files are the files besides the main one that the configuration depends on: those that values were read from, written as
// file:PATH, and those of certificates. A change of one is a reason to load it again.
func (c *Config) Files() []string { return slices.Clone(c.files) }

// Mode says whether refusals are real.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	LogOnly Mode = "log-only" // evaluate, count and report, refuse nothing [L11]
)

// maxFile bounds a configuration file. A thousand realms with a dozen overrides each need less than half of it.
const maxFile = 4 << 20

// Load reads and checks the file. An error about its content is of type [Problems]; warnings are there in either case.
func Load(path string) (*Config, Warnings, error) {
	data, err := readBounded(path, maxFile)
	if err != nil {
		return nil, nil, fmt.Errorf("reading configuration: %w", err)
	}
	return Parse(path, data, Options{})
}

// Parse checks the text of a configuration file; name stands for the file in messages. It never panics, and
// its time is bounded by the size of the text. An error is of type [Problems].
func Parse(name string, data []byte, opts Options) (*Config, Warnings, error) {
	r := newReport(name)
	if len(data) > maxFile {
		r.errorf("", "the file is larger than %s; make it smaller", Size(maxFile))
		return nil, nil, r.err()
	}
	root := parseYAML(r, Origin{File: name}, bytes.NewReader(data))
	if err := r.err(); err != nil {
		return nil, nil, err // what a torn file lacks says nothing
	}
	var files []string
	opts.refs = &files
	doc := newDocument()
	for _, layer := range presetLayers(r, root) {
		layer.decode(r, doc, opts)
	}
	doc.seal(r)
	fileLayer := layer{source: Origin{File: name}, root: root}
	fileLayer.decode(r, doc, opts)

	b := &builder{report: r, doc: doc, options: opts}
	cfg := b.build()
	warnings := Warnings(r.sorted(r.warnings))
	if err := r.err(); err != nil {
		return nil, warnings, err
	}
	files = append(files, certificateFiles(cfg)...)
	slices.Sort(files)
	cfg.files = slices.Compact(files)
	cfg.shown = showDocument(r, doc, opts.later)
	return cfg, warnings, nil
}

// Builtin is the configuration of `gateway run --upstream URL` alone: the defaults with the preset "generic", a policy for the
// usual login paths.
func Builtin(upstreamURL string) (*Config, Warnings, error) {
	text, err := builtinText(upstreamURL)
	if err != nil {
		return nil, nil, fmt.Errorf("making the built-in configuration: %w", err)
	}
	return Parse("--upstream", text, Options{})
}

// Origin says where the value at a path of the file was written, such as policies.login.requests.target.
func (c *Config) Origin(path string) Origin { return c.origins[path] }

// RuleOrigin says where a rule was written that holds in an app of a realm: by the app, the realm, or the policy itself,
// whichever is the innermost that has the rule's dimension. Leave app empty for the realm itself, and realm as well for the
// policy. path is the place within the file, such as realms.acme.policies.login.requests.target.
func (c *Config) RuleOrigin(realm, app string, r *limits.Rule) (path string, o Origin) {
	cell := "policies." + r.Policy + "." + r.Class.String() + "." + r.Dimension.String()
	layers := []string{""}
	if realm != "" {
		layers = append(layers, "realms."+realm+".")
	}
	if app != "" {
		layers = append(layers, "realms."+realm+".apps."+app+".")
	}
	for _, layer := range slices.Backward(layers) {
		path = layer + cell
		o, ok := c.origins[path]
		if !ok {
			continue
		}
		item := fmt.Sprintf("%s[%d]", path, r.Index) // of a list of rules
		if at, ok := c.origins[item]; ok {
			return item, at
		}
		return path, o
	}
	return path, Origin{}
}
