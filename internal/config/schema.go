package config

import (
	"net/url"
	"reflect"
	"slices"
	"time"

	"authgate/clientip"
)

// Schema is the JSON schema of the file (draft 2020-12), to be marshalled as JSON. It knows keys, words, types and bounds;
// what only Parse can tell, such as whether a selector is one, it leaves alone.
func Schema() any {
	rule := object(reflect.ValueOf(ruleNode{}))
	root := object(reflect.ValueOf(*newDocument()))
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "gateway configuration"
	root["required"] = []string{"upstream"}
	root["$defs"] = map[string]any{
		"cell": map[string]any{"oneOf": []any{
			map[string]any{"const": "off"},
			map[string]any{"$ref": "#/$defs/rule"},
			map[string]any{"type": "array", "minItems": 1, "items": map[string]any{"$ref": "#/$defs/rule"}},
		}},
		"rule": rule,
	}
	return root
}

// object is the schema of a struct whose present values are its defaults.
func object(v reflect.Value) map[string]any {
	properties := map[string]any{}
	var required []string
	for _, f := range fieldsOf(v.Type()) {
		if f.later {
			continue
		}
		if f.required {
			required = append(required, f.name)
		}
		properties[f.name] = schemaOf(v.Field(f.index), f)
	}
	out := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		out["required"] = required
	}
	return out
}

func schemaOf(v reflect.Value, f field) map[string]any {
	out := typeSchema(v, f)
	if v.Kind() != reflect.Struct && v.Kind() != reflect.Pointer && !v.IsZero() {
		w := viewer{report: newReport("")}
		out["default"] = w.value(v, "", true)
	}
	return out
}

func typeSchema(v reflect.Value, f field) map[string]any {
	text := map[string]any{"type": "string"}
	switch x := v.Interface().(type) {
	case cell:
		return map[string]any{"$ref": "#/$defs/cell"}
	case time.Duration:
		text["pattern"] = `^([0-9]+d|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+|0)$`
		return text
	case Size:
		return map[string]any{"type": []string{"string", "integer"}, "pattern": `^[0-9]+ ?([KMG]iB)?$`}
	case Secret, *url.URL:
		return text
	case clientip.PrefixSet, clientip.TrustList:
		return listSchema(text)
	case viewable:
		return map[string]any{
			"type":                 "object",
			"propertyNames":        map[string]any{"pattern": "^[a-z0-9-]{1,64}$"},
			"additionalProperties": schemaOf(x.sample(), field{}),
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		elem := schemaOf(reflect.New(v.Type().Elem()).Elem(), f)
		return map[string]any{"anyOf": []any{elem, map[string]any{"const": ""}}}
	case reflect.Struct:
		return object(v)
	case reflect.Slice:
		return listSchema(schemaOf(sample(v.Type().Elem()), f))
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": []string{"string", "number", "boolean"}}}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return bounds(map[string]any{"type": "integer"}, f)
	}
	if f.enum != nil {
		words := allowedWords(f)
		text["enum"] = words
		if slices.ContainsFunc(words, func(w any) bool { _, isNumber := w.(int); return isNumber }) {
			text["type"] = []string{"string", "integer"}
		}
	}
	return text
}

// sample is a new value of the type, with the defaults that the decoder would give it.
func sample(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	if d, ok := v.Interface().(defaulter); ok {
		d.setDefaults()
	}
	return v.Elem()
}

// listSchema allows a list, and where its items are scalars also one of them without brackets.
func listSchema(item map[string]any) map[string]any {
	list := map[string]any{"type": "array", "items": item}
	if item["type"] == "object" {
		return list
	}
	if item["type"] == "string" && item["enum"] == nil {
		item["type"] = []string{"string", "number", "boolean"}
	}
	return map[string]any{"anyOf": []any{list, item}}
}

// bounds adds those that the field's tags state.
func bounds(schema map[string]any, f field) map[string]any {
	if low, err := parseInt(f.min); err == nil {
		schema["minimum"] = low
	}
	if high, err := parseInt(f.max); err == nil {
		schema["maximum"] = high
	}
	return schema
}

// allowedWords are those of an enum that this version supports; one that looks like a number may also be written so.
func allowedWords(f field) []any {
	var out []any
	for _, w := range f.enum {
		if slices.Contains(f.laterValues, w) {
			continue
		}
		out = append(out, w)
		if n, err := parseInt(w); err == nil {
			out = append(out, n)
		}
	}
	return out
}
