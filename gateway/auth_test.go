package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/internal/test/damagetest"
	"github.com/corral-exec/corral/internal/test/testdir"
)

func TestAuthorization(t *testing.T) {
	g := newRig(t, func(c *Config) {
		c.Hosts, c.Origins = []string{"build.example"}, []string{"https://console.example"}
	})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[string]int{ // status
		"": 401, "Bearer " + testToken: 200, "bearer " + testToken: 200, "Bearer " + testToken + "0": 401, "Bearer": 401,
		"Bearer " + testToken[1:]: 401, "Basic " + testToken: 401, testToken: 401,
	}
	hosts := map[string]bool{
		"127.0.0.1:" + port: true, "localhost:" + port: true, "LOCALHOST": true, "[::1]:" + port: true, "127.8.9.1": true, "build.example": true, "build.example:" + port: true,
		"evil.example:" + port: false, "localhost.evil.example": false, "10.0.0.1": false, "127.0.0.1.evil.example": false,
	}
	origins := map[string]bool{"": true, "own": true, "https://console.example": true, "http://console.example": false, "http://127.0.0.1:1": false, "https://127.0.0.1:" + port: false, "null": false, "https://console.example.evil": false}
	for token, status := range tokens {
		for host, hostOK := range hosts {
			for origin, originOK := range origins {
				want, wantOpen := status, 200
				if !hostOK || !originOK {
					want, wantOpen = 403, 403
				}
				if origin == "own" { // the console's
					origin = "http://" + host
				}
				header := []string{"Host", host}
				if token != "" {
					header = append(header, "Authorization", token)
				}
				if origin != "" {
					header = append(header, "Origin", origin)
				}
				name := fmt.Sprintf("token %q, host %q, origin %q", token, host, origin)
				if a := g.send(g.tcp, g.url+"/v1/sessions", "GET", "", header...); a.status != want {
					t.Errorf("%s: %d, want %d", name, a.status, want)
				} else if want == 401 && a.header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s: the answer does not say how to authenticate", name)
				}
				if a := g.send(g.tcp, g.url+"/v1/health", "GET", "", header...); a.status != wantOpen {
					t.Errorf("health, %s: %d, want %d", name, a.status, wantOpen)
				}
				if a := g.do("GET", "/v1/sessions", "", header...); a.status != 200 {
					t.Errorf("on the Unix socket, %s: %d", name, a.status)
				}
			}
		}
	}
	if strings.Contains(g.log.String(), testToken[1:]) {
		t.Error("a token is in the log")
	}
	for _, rt := range g.server.table() {
		method, path, _ := strings.Cut(rt.pattern, " ")
		if path == "" { // whatever the method
			method, path = "PUT", rt.pattern
		}
		path = strings.NewReplacer("{id}", "x", "{write}", "w", "{name}", "n", "{port}", "80", "{path...}", "a/b", "{$}", "").Replace(path)
		want, accept := 401, "*/*"
		if rt.right == access.Public {
			want = 200
		}
		if path == "/" { // it is for browsers
			accept = "text/html"
		}
		if a := g.send(g.tcp, g.url+path, method, "", "Accept", accept); a.status != want {
			t.Errorf("%s without a token: %d, want %d", rt.pattern, a.status, want)
		}
	}
	g.send(&http.Client{Transport: g.tcp.Transport.(validating).next}, g.url+"/elsewhere", "GET", "").is(401)
}

// A browser lets the pages of a configured origin send what clients send, and read
// the answer; to others it says nothing.
func TestCrossOrigin(t *testing.T) {
	const ours = "https://console.example"
	g := newRig(t, func(c *Config) { c.Origins = []string{ours} })
	plain := &http.Client{Transport: g.tcp.Transport.(validating).next}
	for origin, allowed := range map[string]string{ours: ours, "https://evil.example": ""} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			a := g.send(plain, g.url+"/v1/sessions", "OPTIONS", "", "Origin", origin,
				"Access-Control-Request-Method", method, "Access-Control-Request-Headers", "authorization,content-type,corral-agent")
			if got := a.header.Get("Access-Control-Allow-Origin"); got != allowed || a.status != http.StatusNoContent {
				t.Errorf("a preflight of %s for %s: %d, allows %q, want %q", origin, method, a.status, got, allowed)
			}
		}
		a := g.send(g.tcp, g.url+"/v1/sessions", "GET", "", "Origin", origin, "Authorization", "Bearer "+testToken)
		if got := a.header.Get("Access-Control-Allow-Origin"); got != allowed {
			t.Errorf("an answer to a page of %s: allows %q, want %q", origin, got, allowed)
		}
	}
}

func TestNoTokenNoTCP(t *testing.T) {
	g := newRig(t, nil)
	s, err := New(Config{Sessions: g.sessions})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("Serve on TCP without a token: %v", err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the listener is open")
	}
}

func TestToken(t *testing.T) {
	path := filepath.Join(testdir.New(t), "token")
	first, err := Token(path, quiet)
	if err != nil || len(first) != tokenSize {
		t.Fatalf("Token: %q, %v", first, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if again, err := Token(path, quiet); err != nil || again != first {
		t.Errorf("Token again: %q, %v", again, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Token(path, quiet); corral.Hint(err) == "" {
		t.Errorf("a token that others may read: %v", err)
	}
	for _, text := range []string{"\n", "short\n", strings.Repeat("x", maxToken+1)} {
		other := filepath.Join(testdir.New(t), "token")
		if err := os.WriteFile(other, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Token(other, quiet); corral.Hint(err) == "" {
			t.Errorf("a token of %d characters: %q, %v", len(text), got, err)
		}
	}
	if _, err := Token(filepath.Join(path, "none"), quiet); err == nil {
		t.Error("a token in a directory that is none")
	}
	empty := filepath.Join(testdir.New(t), "token") // as a loss of power can leave it
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if got, err := Token(empty, slog.New(slog.NewTextHandler(&said, nil))); err != nil || len(got) != tokenSize || !strings.Contains(said.String(), "level=ERROR") || !strings.Contains(said.String(), empty) {
		t.Errorf("of an empty file: %q, %v, %q", got, err, said.String())
	}
}

// A token that was made here is what it was, or not used: no client would have another.
func TestTokenDamaged(t *testing.T) {
	path := filepath.Join(testdir.New(t), "token")
	if _, err := Token(path, quiet); err != nil {
		t.Fatal(err)
	}
	damagetest.File(t, path, path, func(a, b string) bool { return a == b }, func() (string, error) {
		var said bytes.Buffer
		token, err := Token(path, slog.New(slog.NewTextHandler(&said, nil)))
		if err == nil && said.Len() > 0 { // of an empty file
			err = errors.New(said.String())
		}
		return token, err
	})
}

// A file of zeros, as a power cut may leave, is no token that anyone could know.
func TestTokenZeros(t *testing.T) {
	path := filepath.Join(testdir.New(t), "token")
	if err := os.WriteFile(path, make([]byte, tokenSize), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Token(path, quiet); err == nil || !strings.Contains(corral.Hint(err), "put back a copy") {
		t.Errorf("%v", err)
	}
}

// Tokens of earlier versions have no checksum, nor have tokens that an operator chose.
func TestTokenPlain(t *testing.T) {
	for _, token := range []string{strings.Repeat("0123456789abcdef", 4), "chosen.by-somebody.with-dots.c0ffee00"} {
		path := filepath.Join(testdir.New(t), "token")
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Token(path, quiet); err != nil || got != token {
			t.Errorf("%q, %v, want %q", got, err, token)
		}
	}
}

var quiet = slog.New(slog.DiscardHandler)
