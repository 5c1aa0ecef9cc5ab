package demo

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
)

// fields are the named values in a body.
type fields struct {
	form url.Values
	// json says that they came as JSON.
	json bool
}

// get returns the first value of a name, or "".
func (f fields) get(name string) string { return f.form.Get(name) }

// maxFields bounds the body that is read for its fields, in bytes.
const maxFields = 64 << 10

// readFields reads the body, or answers the request and reports false.
func readFields(w http.ResponseWriter, r *http.Request) (fields, bool) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" && kind != "application/x-www-form-urlencoded" {
		writeJSON(w, http.StatusUnsupportedMediaType, map[string]string{"error": "unsupported_media_type"})
		return fields{}, false
	}
	body, ok := readBody(w, r, maxFields)
	if !ok {
		return fields{}, false
	}
	in := fields{form: url.Values{}, json: kind == "application/json"}
	if in.json {
		var members map[string]any
		if err = json.Unmarshal(body, &members); err == nil {
			for name, value := range members {
				if text, ok := value.(string); ok {
					in.form.Set(name, text)
				}
			}
		}
	} else {
		in.form, err = url.ParseQuery(string(body))
	}
	if err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "invalid_request"})
		return fields{}, false
	}
	return in, true
}

// readBody reads a body of at most so many bytes, or answers the request and reports false.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		writeBodyError(w, err)
		return nil, false
	}
	return body, true
}

func writeBodyError(w http.ResponseWriter, err error) {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		writeJSON(w, http.StatusRequestEntityTooLarge, map[string]string{"error": "body_too_large"})
		return
	}
	writeJSON(w, http.StatusBadRequest, map[string]string{"error": "incomplete_body"})
}

// writeJSON answers with a value that always encodes.
func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		http.Error(w, "encoding the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}
