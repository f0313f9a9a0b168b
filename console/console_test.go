package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, path, encoding string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Header.Set("Accept-Encoding", encoding)
	Handler("/console/").ServeHTTP(w, r)
	return w
}

func TestAssets(t *testing.T) {
	b := load()
	for name, want := range map[string]string{"app.js": "javascript", "app.css": "text/css", "icon.svg": "image/svg+xml", "licenses.txt": "text/plain"} {
		path := "/console/assets/" + b.hash + "/" + name
		plain, small := get(t, path, ""), get(t, path, "br, gzip")
		if plain.Code != 200 || !strings.Contains(plain.Header().Get("Content-Type"), want) || plain.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %d %v", name, plain.Code, plain.Header())
		}
		z, err := gzip.NewReader(small.Body)
		if err != nil || small.Header().Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: %v, %v", name, small.Header(), err)
		}
		if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, plain.Body.Bytes()) {
			t.Errorf("%s: %v, or it is another one when it is compressed", name, err)
		}
	}
}

// Nothing in the bundle is loaded from elsewhere.
func TestBundle(t *testing.T) {
	elsewhere := regexp.MustCompile(`https?://[^\s"'` + "`" + `)]+`)
	for name, a := range load().assets {
		if name == "licenses.txt" || strings.HasPrefix(name, "xterm-") { // it has links in its texts
			continue
		}
		for _, url := range elsewhere.FindAll(a.plain, -1) {
			if !bytes.Contains(url, []byte("www.w3.org/")) {
				t.Errorf("%s refers to %s", name, url)
			}
		}
	}
}

// No page makes markup, or code, of a text.
func TestSources(t *testing.T) {
	files, err := os.ReadDir("src")
	if err != nil {
		t.Fatal(err)
	}
	makes := regexp.MustCompile(`(?i)innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|createContextualFragment`)
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join("src", f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if found := makes.Find(data); found != nil {
			t.Errorf("%s has %s", f.Name(), found)
		}
		if n := bytes.Count(data, []byte("\n")); n > 600 {
			t.Errorf("%s has %d lines", f.Name(), n)
		}
	}
}
