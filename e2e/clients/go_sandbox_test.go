//go:build e2e

package clients_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
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
