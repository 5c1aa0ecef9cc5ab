// Package preset holds the fragments of the configuration file that are shipped with the program. A fragment is the file's own
// language: it is laid between the defaults and the file, key by key.
package preset

import (
	"embed"
	"path"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Names lists the presets in alphabetical order.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil // never: the folder is part of the program
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
	}
	return names
}

// Load gives the text of a preset; ok is false if there is none of that name. The caller may keep and change the
// text.
func Load(name string) (text []byte, ok bool) {
	text, err := files.ReadFile(name + ".yaml")
	return text, err == nil
}
