package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/corral-exec/corral/api"
)

// document is openapi.json, checked.
var document = sync.OnceValues(func() (routers.Router, error) {
	doc, err := openapi3.NewLoader().LoadFromData(openAPIDocument)
	if err != nil {
		return nil, err
	}
	doc.Servers = nil // tests are addressed by any name
	if err := doc.Validate(openapi3.NewLoader().Context); err != nil {
		return nil, err
	}
	for _, raw := range []string{api.TypeLog, api.TypeEvents, api.TypeLines, "text/plain", api.TypeBytes, api.TypeTar} {
		openapi3filter.RegisterBodyDecoder(raw, func(r io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
			data, err := io.ReadAll(r)
			return string(data), err
		})
	}
	return gorillamux.NewRouter(doc)
})

// validating holds traffic against the document.
type validating struct {
	t    testing.TB
	next http.RoundTripper
	// careless: what is sent need not be as the document has it.
	careless bool
}

func (v validating) RoundTrip(r *http.Request) (*http.Response, error) {
	router, err := document()
	if err != nil {
		v.t.Errorf("the document: %v", err)
		return v.next.RoundTrip(r)
	}
	var sent []byte
	if r.Body != nil && r.ContentLength >= 0 {
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	resp, err := v.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	route, params, findErr := router.FindRoute(r)
	if findErr != nil {
		if resp.StatusCode < 400 && !strings.HasPrefix(r.URL.Path, "/console/") { // pages: the router has no word for a path of several parts
			v.t.Errorf("%s %s: %d, but the document does not have it: %v", r.Method, r.URL.Path, resp.StatusCode, findErr)
		}
		return resp, nil
	}
	if ct := resp.Header.Get("Content-Type"); ct == api.TypeLog || ct == api.TypeEvents || ct == api.TypeLines || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, nil // may have no end
	}
	r.Body = io.NopCloser(bytes.NewReader(sent))
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, SkipSettingDefaults: true,
		ExcludeRequestBody: v.careless || r.ContentLength < 0,
	}}
	if resp.StatusCode < 400 && !v.careless {
		if err := openapi3filter.ValidateRequest(r.Context(), input); err != nil {
			v.t.Errorf("%s %s was accepted, but not by the document: %v", r.Method, r.URL, err)
		}
	}
	got, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(got), errReader{err}))
	if err == nil {
		output := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header, Options: input.Options}
		output.SetBodyBytes(got)
		if err := openapi3filter.ValidateResponse(r.Context(), output); err != nil {
			v.t.Errorf("%s %s: the answer %d %s is not as in the document: %v", r.Method, r.URL, resp.StatusCode, got, err)
		}
	}
	return resp, nil
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) {
	if e.err == nil {
		return 0, io.EOF
	}
	return 0, e.err
}

// Every route is in the document, and nothing else is.
func TestDocumentHasRoutes(t *testing.T) {
	var doc struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(openAPIDocument, &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Errorf("it is OpenAPI %s", doc.OpenAPI)
	}
	var documented, served []string
	for path, item := range doc.Paths {
		for method := range item {
			if method != "parameters" {
				documented = append(documented, strings.ToUpper(method)+" "+path)
			}
		}
	}
	for _, rt := range new(Server).tableFor(t) {
		pattern := strings.NewReplacer("...}", "}", "{$}", "").Replace(rt.pattern)
		if strings.HasPrefix(pattern, "/") { // whatever the method; the document has no word for that
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
				served = append(served, method+" "+pattern)
			}
			continue
		}
		served = append(served, pattern)
	}
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("documented: %q\nserved: %q", documented, served)
	}
}

// A document that says something else is noticed.
func TestDocumentIsHeldAgainst(t *testing.T) {
	g := newRig(t, nil)
	fake := &fakeT{TB: t}
	lie := roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {api.TypeJSON}}, Request: r,
			Body: io.NopCloser(strings.NewReader(`{"status":"splendid"}`))}, nil
	})
	r, err := http.NewRequest("GET", g.url+"/v1/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (validating{t: fake, next: lie}).RoundTrip(r); err != nil {
		t.Fatal(err)
	}
	if fake.errors != 1 {
		t.Errorf("%d errors for an answer that is not as documented", fake.errors)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type fakeT struct {
	testing.TB
	errors int
}

func (f *fakeT) Errorf(string, ...any) { f.errors++ }
