//go:build e2e && linux

package daemon

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/built"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/sandbox/engines"
	"github.com/corral-exec/corral/sandbox/files"
)

// servePorts starts a gateway with two agents, each with a sandbox without network, and
// in that of the agent main what listens there.
func servePorts(t *testing.T, more string) (*serving, *client.Client) {
	t.Helper()
	enginetest.New(t)
	state := ""
	t.Cleanup(func() { // after the gateway has ended
		ctx := context.WithoutCancel(t.Context())
		eng, err := OpenEngine(ctx, engines.Docker)
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close()
		for _, name := range []string{"main", "other"} {
			if err := eng.RemoveSandbox(ctx, state, name, false); err != nil && !errors.Is(err, corral.ErrNotFound) {
				t.Error(err)
			}
		}
	})
	box := `sandbox: { mode: "all", image: "` + images.Busybox + `", network: "none"` + more + ` }`
	g := serveWith(t, `{ gateway: { domain: "http://boxes.test" }, agents: { list: [{ id: "main", `+box+` }, { id: "other", `+box+` }] } }`)
	state = g.s.dir
	return g, g.client("main")
}

// listen starts the program that listens.
func listenInside(t *testing.T, c *client.Client) {
	t.Helper()
	f, err := os.Open(built.Program(t, "internal/test/portserver"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := c.Files("main").Write(t.Context(), "portserver", f, files.WriteOptions{Mode: 0o755}); err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), corral.Command{Shell: "./portserver"})
	if err != nil {
		t.Fatal(err)
	}
	chunk, err := p.Log().Read(t.Context(), 0, make([]byte, 4096))
	if err != nil || string(chunk.Data) != "ready\n" {
		t.Fatalf("%q, %v", chunk.Data, err)
	}
}

// through is an HTTP client that speaks to the gateway.
func through(g *serving) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(g.s.dir, api.SocketFile))
	}}}
}

const portsURL = "http://localhost/v1/sandboxes/main/ports/"

func fetch(t *testing.T, c *http.Client, method, path string, body io.Reader, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, portsURL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// A port has a host name of its own, which is not another sandbox's, nor the API's.
func TestPortHosts(t *testing.T) {
	g, c := servePorts(t, "")
	listenInside(t, c)
	at, err := c.SandboxAddress(t.Context(), "main", 8080)
	if err != nil || at.URL != "http://8080-main.boxes.test/" || at.Token == "" || at.Public {
		t.Fatalf("%+v, %v", at, err)
	}
	get := func(url string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := through(g).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	for url, want := range map[string]string{
		at.URL + "v1/sessions":           "200 GET /v1/sessions, key",
		"http://8082-main.boxes.test/a":  "200 GET /a",
		"http://8083-main.boxes.test/":   "502",
		"http://8080-other.boxes.test/":  "404", // it has none
		"http://8080-nobody.boxes.test/": "404",
	} {
		if status, text := get(url); !strings.HasPrefix(fmt.Sprint(status, " ", text), want) {
			t.Errorf("%s: %d %s, want %s", url, status, text, want)
		}
	}
	// A sandbox that is made later is found.
	other := g.client("other")
	if p, err := other.Start(t.Context(), corral.Command{Shell: "true"}); err != nil {
		t.Error(err)
	} else if _, err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	time.Sleep(lookedLongAgo)
	if status, text := get("http://8080-other.boxes.test/"); status != 502 {
		t.Errorf("a sandbox that was made later: %d %s", status, text)
	}
}

// lookedLongAgo is after how long sandboxes are listed again for an unknown name.
const lookedLongAgo = 1100 * time.Millisecond

// What listens in a sandbox without network is reached by HTTP and TCP.
func TestPorts(t *testing.T) {
	g, c := servePorts(t, "")
	web := through(g)

	// No container is made for it.
	if status, text := fetch(t, web, "GET", "8080/", nil); status != 502 || !strings.Contains(text, "does not run") {
		t.Errorf("without a container: %d %s", status, text)
	}
	listenInside(t, c)

	status, text := fetch(t, web, "DELETE", "8080/a/b?c", nil, "Authorization", "Bearer secret", api.HeaderAgent, "main")
	if status != 200 || text != "DELETE /a/b?c, key \"\", agent \"\"\n" {
		t.Errorf("%d %s", status, text)
	}
	if status, text := fetch(t, web, "GET", "8082/six", nil); status != 200 || !strings.HasPrefix(text, "GET /six") {
		t.Errorf("IPv6: %d %s", status, text)
	}
	if status, text := fetch(t, web, "GET", "8083/", nil); status != 502 || !strings.Contains(text, `"not-listening"`) || !strings.Contains(text, "8083") {
		t.Errorf("nothing listens: %d %s", status, text)
	}
	if status, text := fetch(t, web, "GET", "8083/", nil, "Accept", "text/html"); status != 502 || !strings.Contains(text, "<h1>502") {
		t.Errorf("nothing listens, as a page: %d %s", status, text)
	}
	for _, agent := range []string{"other", "nobody"} { // it is another agent's
		if status, text := fetch(t, web, "GET", "8080/", nil, api.HeaderAgent, agent); status != 404 {
			t.Errorf("the agent %s: %d %s", agent, status, text)
		}
		if _, err := g.client(agent).DialPort(t.Context(), "main", 8081); !errors.Is(err, corral.ErrNotFound) {
			t.Errorf("the agent %s: %v", agent, err)
		}
	}
	const size = 64 << 20
	h := sha256.New()
	status, text = fetch(t, web, "POST", "8080/sum", io.TeeReader(io.LimitReader(rand.Reader, size), h))
	if want := fmt.Sprintf("%x", h.Sum(nil)); status != 200 || text != want {
		t.Errorf("64 MiB by HTTP: %d %s, want %s", status, text, want)
	}
	begin := time.Now()
	h.Reset()
	if got, want := sumThrough(t, c, io.TeeReader(io.LimitReader(rand.Reader, size), h)), h; got != fmt.Sprintf("%x", want.Sum(nil)) {
		t.Errorf("64 MiB by a tunnel: %s, want %x", got, want.Sum(nil))
	}
	t.Logf("64 MiB through a tunnel, and back its sum: %v", time.Since(begin))

	ticks(t, web)
	talk(t, web)
	manyDials(t, c)
}

// sumThrough sends all of r through a tunnel, ends it, and returns the answer.
func sumThrough(t *testing.T, c *client.Client, r io.Reader) string {
	t.Helper()
	conn, err := c.DialPort(t.Context(), "main", 8081)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer conn.Close()
	if _, err := io.Copy(conn, r); err != nil {
		t.Error(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Error(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Error(err)
	}
	return string(got)
}

// ticks reads some events of a stream that has no end.
func ticks(t *testing.T, web *http.Client) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", portsURL+"8080/ticks", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := web.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for i := range 3 {
		if !lines.Scan() || lines.Text() != fmt.Sprint("data: ", i) || !lines.Scan() {
			t.Fatalf("%q, %v", lines.Text(), lines.Err())
		}
	}
}

// talk speaks over a WebSocket.
func talk(t *testing.T, web *http.Client) {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), portsURL+"8080/ws", &websocket.DialOptions{HTTPClient: web})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	for _, text := range []string{"one", strings.Repeat("x", 20000)} {
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, data, err := conn.Read(t.Context()); err != nil || string(data) != text {
			t.Errorf("%d bytes, %v", len(data), err)
		}
	}
	if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
}

// manyDials makes many connections at a time. The warden is there afterwards, with the
// threads that it had.
func manyDials(t *testing.T, c *client.Client) {
	t.Helper()
	threads := func() string {
		p, err := c.Start(t.Context(), corral.Command{Shell: "grep Threads /proc/1/status"})
		if err != nil {
			t.Fatal(err)
		}
		if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 0 {
			t.Fatalf("%+v, %v", exit, err)
		}
		chunk, err := p.Log().Read(t.Context(), 0, make([]byte, 4096))
		if err != nil {
			t.Fatal(err)
		}
		return string(chunk.Data)
	}
	before := threads()
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if got, want := sumThrough(t, c, strings.NewReader("x")), fmt.Sprintf("%x", sha256.Sum256([]byte("x"))); got != want {
				t.Errorf("one of many: %s, want %s", got, want)
			}
		})
	}
	wg.Wait()
	if now := threads(); now != before {
		t.Errorf("the warden has %s, and had %s", now, before)
	}
}
