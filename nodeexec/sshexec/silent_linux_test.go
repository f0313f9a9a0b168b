package sshexec

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/corral-exec/corral"
)

// startSilentServer starts a server that answers keepalives. It answers no session, or,
// with opens, opens them and answers nothing there.
func startSilentServer(t *testing.T, opens bool) *sshd {
	return startOwnServer(t, func(owned *sync.WaitGroup, nc net.Conn, cfg *ssh.ServerConfig) {
		conn, channels, requests, err := ssh.NewServerConn(nc, cfg)
		if err != nil {
			return
		}
		defer conn.Close()
		owned.Go(func() { ssh.DiscardRequests(requests) })
		for c := range channels {
			if !opens {
				continue
			}
			_, requests, err := c.Accept()
			if err != nil {
				return
			}
			owned.Go(func() {
				for range requests { //nolint:revive // no answer
				}
			})
		}
	})
}

// asking has the host asked for its PATH first.
var asking = corral.Command{Shell: "true", Env: map[string]string{"PATH": "/bin"}}

// A server that answers keepalives and nothing else delays no call beyond its context,
// and not the end of this program.
func TestSilentServer(t *testing.T) {
	for _, test := range []struct {
		name  string
		opens bool
		cmd   corral.Command
	}{
		{"no session for a question", false, asking},
		{"no session for a command", false, corral.Command{Shell: "true"}},
		{"no answer to a question", true, asking},
		{"no answer to a command", true, corral.Command{Shell: "true"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := startSilentServer(t, test.opens)
			cfg := d.config(t.TempDir())
			cfg.leave = 100 * time.Millisecond
			hosts, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			x := box(t, hosts)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			from := time.Now()
			if _, err := x.Start(ctx, test.cmd); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Start: %v", err)
			}
			if took := time.Since(from); took > 5*time.Second {
				t.Errorf("Start took %v", took)
			}
			closesSoon(t, hosts)
		})
	}
}

// closesSoon fails if Close waits for a server.
func closesSoon(t *testing.T, hosts *Hosts) {
	t.Helper()
	from := time.Now()
	if err := hosts.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(from); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
}

// Close ends also a call that has no end of its own.
func TestCloseEndsSilence(t *testing.T) {
	for _, opens := range []bool{false, true} {
		cfg := startSilentServer(t, opens).config(t.TempDir())
		cfg.leave = 100 * time.Millisecond
		hosts, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		x := box(t, hosts)
		done := make(chan error, 1)
		go func() {
			_, err := x.Start(context.Background(), asking)
			done <- err
		}()
		for end := time.Now().Add(5 * time.Second); !hosts.List()[0].Connected; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it does not connect")
			}
		}
		closesSoon(t, hosts)
		if err := <-done; !errors.Is(err, corral.ErrUnavailable) {
			t.Errorf("Start: %v", err)
		}
	}
}

// A server that never says whether it opens a session loses the connection, and the
// caller hears of it.
func TestNoAnswerToASession(t *testing.T) {
	d := startSilentServer(t, false)
	cfg := d.config(t.TempDir())
	cfg.keepalive = 100 * time.Millisecond
	hosts := d.hosts(t, cfg)
	_, err := box(t, hosts).Start(t.Context(), asking)
	if !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "does not say whether it opens a session") {
		t.Errorf("Start: %v", err)
	}
	if l := hosts.List(); l[0].Connected {
		t.Error("the connection is kept")
	}
}

// A server that cuts each connection when a session is asked for, as one that shuts down
// may do, is not connected to without end.
func TestServerCutsConnections(t *testing.T) {
	var logins atomic.Int32
	d := startOwnServer(t, func(owned *sync.WaitGroup, nc net.Conn, cfg *ssh.ServerConfig) {
		conn, channels, requests, err := ssh.NewServerConn(nc, cfg)
		if err != nil {
			return
		}
		defer conn.Close()
		logins.Add(1)
		owned.Go(func() { ssh.DiscardRequests(requests) })
		<-channels
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	x := box(t, d.open(t))
	_, err := x.Start(ctx, corral.Command{Shell: "true"})
	if !errors.Is(err, corral.ErrUnavailable) || ctx.Err() != nil || logins.Load() > 3 {
		t.Errorf("after %d logins: %v", logins.Load(), err)
	}
}

// Commands that wait for one connection to a host all hear why there is none: they do not
// try it one after the other.
func TestManyWaitForOneConnection(t *testing.T) {
	const commands = 8
	var accepted atomic.Int32
	d := startOwnServer(t, func(_ *sync.WaitGroup, nc net.Conn, _ *ssh.ServerConfig) {
		accepted.Add(1)
		_, _ = nc.Read(make([]byte, 1)) // the client's first word; it gets no answer
		time.Sleep(500 * time.Millisecond)
	})
	x := box(t, d.open(t))
	var all sync.WaitGroup
	for range commands {
		all.Go(func() {
			if _, err := x.Start(t.Context(), corral.Command{Shell: "true"}); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "EOF") && !strings.Contains(err.Error(), "reset") {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := accepted.Load(); n > commands/2 {
		t.Errorf("%d connections for %d commands", n, commands)
	}
}
