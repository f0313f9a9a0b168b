//go:build e2e

package clients_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/sandbox/files"
)

func testFiles(t *testing.T, p *place) {
	c := p.boxed.client(client.Options{})
	output(t, c, corral.Command{Shell: "true"}) // there is a sandbox
	f := c.Files("main")
	data := make([]byte, 64<<20)
	_, _ = rand.Read(data)
	info, err := f.Write(t.Context(), "d/é g", bytes.NewReader(data), files.WriteOptions{Parents: true, Mode: 0o600, Limit: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, info.Size, 64<<20)
	sum, _ := output(t, c, corral.Command{Shell: "sha256sum <'d/é g'"})
	equal(t, strings.Fields(sum)[0], fmt.Sprintf("%x", sha256.Sum256(data)))
	var got bytes.Buffer
	if err := f.Read(t.Context(), "d/é g", files.ReadOptions{}, func(files.Info) (io.Writer, error) { return &got, nil }); err != nil || !bytes.Equal(got.Bytes(), data) {
		t.Fatalf("%d bytes, %v", got.Len(), err)
	}
	if err := f.Remove(t.Context(), "d", true); err != nil {
		t.Fatal(err)
	}
	_, err = f.Stat(t.Context(), "d/é g")
	is(t, err, fs.ErrNotExist)
}

func testSandboxes(t *testing.T, p *place) {
	c := p.boxed.client(client.Options{})
	output(t, c, corral.Command{Shell: "echo kept >kept"})
	list, err := c.Sandboxes(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "main" {
		t.Fatalf("%+v, %v", list, err)
	}
	if box, err := c.Sandbox(t.Context(), "main"); err != nil || box.State != api.SandboxRunning {
		t.Fatalf("%+v, %v", box, err)
	}
	if stats, err := c.SandboxStats(t.Context(), "main"); err != nil || stats.Memory <= 0 {
		t.Fatalf("%+v, %v", stats, err)
	}
	if made, err := c.RecreateSandbox(t.Context(), "main"); err != nil || made.Container == "" {
		t.Fatalf("%+v, %v", made, err)
	}
	text, _ := output(t, c, corral.Command{Shell: "cat kept"})
	equal(t, text, "kept\n")
}

func testPort(t *testing.T, p *place) {
	c := p.boxed.client(client.Options{})
	server := begin(t, c, corral.Command{Shell: "mkdir -p www; echo hello from inside >www/hello; exec busybox httpd -f -p 127.0.0.1:8080 -h www"})
	inside := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return c.DialPort(ctx, "main", 8080)
	}}}
	get := func(url string) (int, string, error) {
		resp, err := inside.Get(url)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body), err
	}
	status, body, err := get("http://inside/hello?x=1")
	for i := 0; i < 100 && errors.Is(err, corral.ErrNotListening); i++ {
		time.Sleep(100 * time.Millisecond)
		status, body, err = get("http://inside/hello?x=1")
	}
	if err != nil || status != 200 || body != "hello from inside\n" {
		t.Fatalf("%d, %q, %v", status, body, err)
	}
	if status, _, err = get("http://inside/none"); err != nil || status != 404 {
		t.Fatalf("%d, %v", status, err)
	}
	_, err = c.DialPort(t.Context(), "main", 8081)
	is(t, err, corral.ErrNotListening)
	_, err = c.SandboxAddress(t.Context(), "main", 8080) // no domain
	is(t, err, corral.ErrNotFound)
	if _, err := server.(*client.Process).Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A gateway's kill -9 ends the connections to ports, also one that was handed to it, and
// nothing else: what listens goes on, and the same program leads there again.
func testPortsKilled(t *testing.T, p *place) {
	c := p.boxed.client(client.Options{})
	server := begin(t, c, corral.Command{Shell: "exec busybox nc -ll -p 8090 -e busybox cat"})
	defer func() {
		if _, err := server.(*client.Process).Kill(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	forward := exec.Command(p.program, "sandbox", "forward", "--state-dir", p.boxed.state, "--json", "main", "8090:0")
	out, err := forward.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = forward.Process.Kill()
		_ = forward.Wait() // it was killed
	}()
	var leads struct{ Address string }
	if err := json.NewDecoder(out).Decode(&leads); err != nil {
		t.Fatal(err)
	}
	dials := map[string]func() (net.Conn, error){
		"dial":    func() (net.Conn, error) { return c.DialPort(t.Context(), "main", 8090) },
		"forward": func() (net.Conn, error) { return net.Dial("tcp", leads.Address) },
	}
	open := map[string]net.Conn{}
	echo := func(name string) error {
		conn, err := dials[name]()
		if err != nil {
			return err
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			return err
		}
		got := make([]byte, 5)
		if _, err := io.WriteString(conn, "hello"); err != nil {
			return err
		}
		_, err = io.ReadFull(conn, got)
		open[name] = conn
		return err
	}
	answers := func() {
		t.Helper()
		for name := range dials {
			err := echo(name)
			for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); err = echo(name) {
				time.Sleep(50 * time.Millisecond)
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	answers()
	p.boxed.kill()
	for name, conn := range open {
		if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection is still there: %d, %v", name, n, err)
		}
	}
	p.boxed.start()
	answers()
	if st, err := server.(*client.Process).Status(t.Context()); err != nil || st.Ended() {
		t.Errorf("what listens: %+v, %v", st, err)
	}
}
