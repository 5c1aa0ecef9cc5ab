package config

import (
	"reflect"
	"strconv"
	"strings"
)

// field is what the tags of a struct field say about its key in the file:
//
//	yaml:"name"          the key
//	required:"true"      has no default
//	later:"true"         the key is declared, but this version does not support it
//	later:"a|b"          the same for these values of an enum
//	enum:"a|b|c"         the words that are allowed; a leading | allows the empty one
//	min:"1" max:"9"      bounds of a number, duration or size, written as in the file
//	ref:"true"           env:NAME and file:PATH are read from there (always so for a Secret)
//	everyone:"true"      * is allowed among addresses
//	items:"9"            bound of the length of a list
type field struct {
	name        string
	index       int
	required    bool
	later       bool
	laterValues []string
	enum        []string
	min, max    string
	ref         bool
	everyone    bool
	items       int  // 0: no bound
	spelled     bool // not from a tag: a number or truth value is taken for a text, by its spelling
}

// fieldsOf lists the keys of a struct type in the order of their declaration.
func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name := tag.Get("yaml")
		if name == "" {
			continue
		}
		f := field{
			name: name, index: i,
			required: tag.Get("required") == "true",
			min:      tag.Get("min"), max: tag.Get("max"),
			ref: tag.Get("ref") == "true", everyone: tag.Get("everyone") == "true",
		}
		f.items, _ = strconv.Atoi(tag.Get("items"))
		if words, ok := tag.Lookup("enum"); ok {
			f.enum = strings.Split(words, "|")
		}
		switch later := tag.Get("later"); later {
		case "":
		case "true":
			f.later = true
		default:
			f.laterValues = strings.Split(later, "|")
		}
		out = append(out, f)
	}
	return out
}

// join is the path of a key inside a mapping.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
