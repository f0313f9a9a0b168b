package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/tool"
)

// FuzzBodies sends what clients may send to every route. Whatever it is, the
// answer is one of those that there are: never a panic or a 500, and an error is
// JSON with a code and a message.
func FuzzBodies(f *testing.F) {
	g := newRig(f, func(c *Config) {
		c.Tools = func(agent string) Tools { return realTools{tool.New(tool.Config{Agent: c.Sessions.Agent(agent)})} }
	})
	g.start("cat", `,"id":"s","stdin":true,"tty":{}`)
	table := g.server.table()
	for i, rt := range table {
		_, path, _ := strings.Cut(rt.pattern, " ")
		f.Add(i, strings.NewReplacer("{id}", "s", "{write}", "w").Replace(path), "", "", []byte("{}"))
	}
	f.Add(0, "/v1/exec", "", "main", []byte(`{"command":"echo","yieldMs":"10","background":"true"}`))
	f.Add(1, "/v1/process", "", "", []byte(`{"action":"log","sessionId":"s","offset":-1}`))
	f.Add(4, "/v1/sessions", "", "x", []byte(`{"command":"echo","id":"a","log":{"head":1,"tail":1},"tty":{"rows":1,"cols":1}}`))
	f.Add(11, "/v1/sessions/s/log", "offset=1&limit=5&follow", "", []byte{})
	f.Add(14, "/v1/sessions/s/stdin", "eof=1&write=x", "", []byte("\x00\xff"))
	f.Fuzz(func(t *testing.T, n int, path, query, agent string, body []byte) {
		if n < 0 || !strings.HasPrefix(path, "/") {
			return
		}
		method, _, _ := strings.Cut(table[n%len(table)].pattern, " ")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, method, "/", strings.NewReader(string(body)))
		r.URL = &url.URL{Path: path, RawQuery: query}
		r.Host = "localhost"
		r.Header.Set("Authorization", "Bearer "+testToken)
		r.Header.Set(api.HeaderAgent, agent)
		w := httptest.NewRecorder()
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			}
		}()
		g.server.ServeHTTP(w, r)
		resp := w.Result()
		defer resp.Body.Close()
		if resp.StatusCode < 400 || ctx.Err() != nil {
			return
		}
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		var e api.Error
		if err := json.Unmarshal(data, &e); err != nil || e.Error.Code == "" && resp.StatusCode != 503 || e.Error.Message == "" && resp.StatusCode != 503 || resp.StatusCode == 500 {
			t.Errorf("%s %s?%s: %d %s (%v)", method, path, query, resp.StatusCode, data, err)
		}
	})
}

// realTools are those of package tool.
type realTools struct{ *tool.Tools }

func (t realTools) Call(ctx context.Context, name string, args json.RawMessage) (any, error) {
	return t.Tools.Call(ctx, name, args)
}

func (t realTools) List(context.Context) []Tool { return nil }

// FuzzAuthorization: nothing but the token itself is a key.
func FuzzAuthorization(f *testing.F) {
	g := newRig(f, nil)
	for _, s := range []string{"", "Bearer", "Bearer ", "bearer " + testToken, "Bearer  " + testToken + " ", "Basic " + testToken, "Bearer " + testToken + "x", "Bearer corral_x_y.00000000", testToken} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/v1/sessions", nil)
		r.Header["Authorization"] = []string{header}
		w := httptest.NewRecorder()
		g.server.ServeHTTP(w, r)
		fields := strings.Fields(header)
		right := len(fields) == 2 && strings.EqualFold(fields[0], "Bearer") && fields[1] == testToken
		if w.Code == http.StatusOK && !right || w.Code != http.StatusOK && w.Code != http.StatusUnauthorized && w.Code != http.StatusTooManyRequests {
			t.Errorf("%q: %d", header, w.Code)
		}
		if strings.Contains(w.Body.String(), testToken) {
			t.Errorf("%q: the answer has the token: %s", header, w.Body)
		}
	})
}
