//go:build e2e && linux

package sandbox_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox"
)

// fetched is what a web server inside a sandbox answers.
func fetched(ctx context.Context, e *sandbox.Executor, port int) (string, error) {
	return fetchedFile(ctx, e, port, "file")
}

func fetchedFile(ctx context.Context, e *sandbox.Executor, port int, name string) (string, error) {
	conn, err := e.DialPort(ctx, port)
	if err != nil {
		return "", err
	}
	return fetchedOver(conn, name)
}

func fetchedOver(conn net.Conn, name string) (string, error) {
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /"+name+" HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}

// awaitPort waits until a web server answers.
func awaitPort(t *testing.T, e *sandbox.Executor, port int, want string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		text, err := fetched(t.Context(), e, port)
		if err == nil && strings.HasSuffix(text, want) {
			return
		}
		if err != nil && !errors.Is(err, corral.ErrNotListening) || time.Now().After(end) {
			t.Fatalf("%q, %v", text, err)
		}
	}
}

// A port is found in whichever container has what listens there, also by another life,
// and no container is made for it.
func TestDialPort(t *testing.T) {
	b := newBench(t)
	e := b.open(nil)
	if _, err := fetched(t.Context(), e, 8080); !errors.Is(err, corral.ErrNotListening) || len(b.containers()) != 0 {
		t.Errorf("%v; containers %v", err, b.containers())
	}
	begin(t, e, "server", "echo served >file; exec httpd -f -p 127.0.0.1:8080")
	awaitPort(t, e, 8080, "served\n")
	if _, err := fetched(t.Context(), e, 8081); !errors.Is(err, corral.ErrNotListening) || !strings.Contains(err.Error(), "8081") {
		t.Errorf("%v", err)
	}
	// The next commands are in another container.
	if err := e.Configure(b.like(limit(101))); err != nil {
		t.Fatal(err)
	}
	awaitPort(t, e, 8080, "served\n")
	ended(t, begin(t, e, "", "true"), 0)
	b.await(2)
	awaitPort(t, e, 8080, "served\n")
	begin(t, e, "newer", "exec httpd -f -p 127.0.0.1:8081")
	awaitPort(t, e, 8081, "served\n")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.DialPort(t.Context(), 8080); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("of what is closed: %v", err)
	}

	again, err := sandbox.New(b.like(limit(101)))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	awaitPort(t, again, 8080, "served\n")
	awaitPort(t, again, 8081, "served\n")
	if err := again.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := fetched(t.Context(), again, 8080); !errors.Is(err, corral.ErrNotListening) || len(b.containers()) != 0 {
		t.Errorf("after its removal: %v; containers %v", err, b.containers())
	}
}

// Where no descriptor can come out of a sandbox, the bytes travel in messages. Without a
// warden there is no way.
func TestDialPortInMessages(t *testing.T) {
	for name, change := range map[string]func(*sandbox.Config){
		"frames":      func(c *sandbox.Config) { c.Driver = sandbox.DriverFrames },
		"gvisor":      func(c *sandbox.Config) { c.Runtime = "runsc" },
		"gvisor, fds": func(c *sandbox.Config) { c.Runtime = "runsc-uds" },
	} {
		t.Run(name, func(t *testing.T) {
			e := newBench(t).open(change)
			ended(t, begin(t, e, "", "dd if=/dev/urandom of=file bs=1M count=16; sha256sum <file >sum"), 0)
			sum := strings.Fields(output(t, e, "cat sum"))[0]
			begin(t, e, "server", "exec httpd -f -p 127.0.0.1:8080")
			awaitPort(t, e, 8080, "")
			start := time.Now()
			text, err := fetched(t.Context(), e, 8080)
			_, body, _ := strings.Cut(text, "\r\n\r\n")
			if got := fmt.Sprintf("%x", sha256.Sum256([]byte(body))); err != nil || got != sum {
				t.Errorf("%d bytes with the sum %s, want %s, %v", len(body), got, sum, err)
			}
			t.Logf("16 MiB took %v", time.Since(start))
			if _, err := e.DialPort(t.Context(), 8081); !errors.Is(err, corral.ErrNotListening) {
				t.Errorf("nothing listens: %v", err)
			}
			// Many at a time take no thread of the warden's, which may get no more. They are
			// opened one after another: what listens has a short queue.
			threads := func() string { return output(t, e, "grep Threads /proc/1/status") }
			before := threads()
			var wg sync.WaitGroup
			begun := make(chan struct{})
			for i := range 50 {
				conn, err := e.DialPort(t.Context(), 8080)
				if err != nil {
					t.Errorf("connection %d of many: %v", i+1, err)
					continue
				}
				wg.Go(func() {
					<-begun
					if text, err := fetchedOver(conn, "sum"); err != nil || !strings.Contains(text, sum) {
						t.Errorf("one of many: %q, %v", text, err)
					}
				})
			}
			close(begun)
			wg.Wait()
			if now := threads(); now != before {
				t.Errorf("the warden has %s, and had %s", now, before)
			}
		})
	}
	e := newBench(t).open(func(c *sandbox.Config) { c.Driver = sandbox.DriverExec })
	ended(t, begin(t, e, "", "true"), 0)
	if _, err := e.DialPort(t.Context(), 8080); !errors.Is(err, errors.ErrUnsupported) || corral.Hint(err) == "" {
		t.Errorf("%v", err)
	}
}
