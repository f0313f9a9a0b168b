package sshexec

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/corral-exec/corral"
)

// halves finds the marks in a script: a bad server understands no shell.
var halves = regexp.MustCompile(`'(<[^']*)' '([^']*)' S\$\$" " "\$PWD" '([^']*)' '([^']*>)'`)

// talk is a session as a bad server has it.
type talk struct {
	ssh.Channel
	begin, end string
	conn       net.Conn
}

// startBadServer starts a server that answers a session as it likes; without
// session it ends each before it has read anything.
func startBadServer(t *testing.T, session func(s talk)) *sshd {
	t.Helper()
	return startOwnServer(t, func(owned *sync.WaitGroup, nc net.Conn, cfg *ssh.ServerConfig) {
		serveBadly(owned, nc, cfg, session)
	})
}

// startOwnServer starts a server that is not OpenSSH's.
func startOwnServer(t *testing.T, serve func(owned *sync.WaitGroup, nc net.Conn, cfg *ssh.ServerConfig)) *sshd {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }}
	cfg.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d := &sshd{tb: t, home: t.TempDir(), port: port, user: "me"}
	newKey(t, filepath.Join(d.home, ".ssh", "id_ed25519"), "")
	d.configure()
	d.trust(signer.PublicKey())
	var owned sync.WaitGroup
	owned.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			owned.Go(func() {
				defer nc.Close()
				serve(&owned, nc, cfg)
			})
		}
	})
	t.Cleanup(func() { l.Close(); owned.Wait() })
	return d
}

func serveBadly(owned *sync.WaitGroup, nc net.Conn, cfg *ssh.ServerConfig, session func(s talk)) {
	conn, channels, requests, err := ssh.NewServerConn(nc, cfg)
	if err != nil {
		return
	}
	defer conn.Close()
	owned.Go(func() { ssh.DiscardRequests(requests) })
	for c := range channels {
		ch, requests, err := c.Accept()
		if err != nil {
			return
		}
		owned.Go(func() {
			for r := range requests {
				_ = r.Reply(true, nil)
				if r.Type != "exec" {
					continue
				}
				if session == nil {
					_, _ = io.WriteString(ch, "go away\n")
					status(ch, 1)
					ch.Close()
					continue
				}
				owned.Go(func() {
					var script []byte
					for b := make([]byte, 1); !bytes.HasSuffix(script, []byte("\n")); script = append(script, b...) {
						if _, err := io.ReadFull(ch, b); err != nil {
							return
						}
					}
					m := halves.FindSubmatch(script)
					if m == nil {
						ch.Close()
						return
					}
					session(talk{ch, string(m[1]) + string(m[2]), string(m[3]) + string(m[4]), nc})
				})
			}
		})
	}
}

// A server that ends the session before it has read anything is heard: it said
// why.
func TestServerReadsNothing(t *testing.T) {
	d := startBadServer(t, nil)
	x := box(t, d.open(t))
	for range 50 {
		refuses(t, x, corral.ErrUnavailable, `with exit code 1; it says "go away"`, "ssh box")
	}
}

func status(ch ssh.Channel, code uint32) {
	_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{code}))
}

func TestHostileServer(t *testing.T) {
	for _, test := range []struct {
		name    string
		session func(s talk)
		start   error // of Start; nil: it starts
		wait    error
		text    string // of either error
	}{
		{"honest", func(s talk) {
			_, _ = io.WriteString(s, "noise"+s.begin+"S77 /x"+s.end)
			status(s, 3)
			s.Close()
		}, nil, nil, ""},
		{"closes without a word", func(s talk) { s.Close() }, corral.ErrLost, nil, "did not say whether"},
		{"an exit before the command", func(s talk) {
			_, _ = io.WriteString(s, "go away\n")
			status(s, 1)
			s.Close()
		}, corral.ErrUnavailable, nil, `it says "go away"`},
		{"no exit", func(s talk) {
			_, _ = io.WriteString(s, s.begin+"S77 /x"+s.end)
			s.Close()
		}, nil, corral.ErrLost, "without a word"},
		{"an exit status that there is not", func(s talk) {
			_, _ = io.WriteString(s, s.begin+"S77 /x"+s.end)
			status(s, 1<<20)
			s.Close()
		}, nil, corral.ErrLost, "makes no sense"},
		{"a cut after the exit", func(s talk) { // with output on its way, as far as anybody can tell
			_, _ = io.WriteString(s, s.begin+"S77 /x"+s.end+"half")
			status(s, 3)
			s.conn.Close()
		}, nil, corral.ErrLost, "cut off"},
		{"two exit statuses", func(s talk) {
			_, _ = io.WriteString(s, s.begin+"S77 /x"+s.end)
			status(s, 3)
			status(s, 4)
			s.Close()
		}, nil, nil, ""},
		{"a malformed exit status", func(s talk) {
			_, _ = io.WriteString(s, s.begin+"S77 /x"+s.end)
			_, _ = s.SendRequest("exit-status", false, []byte{1})
			s.Close()
		}, nil, corral.ErrLost, "makes no sense"},
		{"a signal that there is not", func(s talk) {
			_, _ = io.WriteString(s, s.begin+"S77 /x"+s.end)
			_, _ = s.SendRequest("exit-signal", false, ssh.Marshal(struct {
				Signal     string
				CoreDumped bool
				Message    string
				Language   string
			}{"NONE", false, strings.Repeat("x", 10000), ""}))
			s.Close()
		}, nil, corral.ErrLost, "does not say which"},
		{"a PID that there is not", func(s talk) { _, _ = io.WriteString(s, s.begin+"S-1 /x"+s.end) }, corral.ErrLost, nil, "it reports"},
		{"PID 1", func(s talk) { _, _ = io.WriteString(s, s.begin+"S1 /x"+s.end) }, corral.ErrLost, nil, "it reports"},
		{"an empty report", func(s talk) { _, _ = io.WriteString(s, s.begin+s.end) }, corral.ErrLost, nil, "it reports"},
		{"an unknown report", func(s talk) { _, _ = io.WriteString(s, s.begin+"Q"+s.end) }, corral.ErrLost, nil, "it reports"},
		{"no end of a report", func(s talk) {
			_, _ = s.Write(append([]byte(s.begin), make([]byte, 2*maxPreamble)...))
		}, corral.ErrLost, nil, "too much output"},
		{"a bad directory", func(s talk) {
			_, _ = io.WriteString(s, s.begin+"Dcannot \x1b[31mcd"+s.end)
			status(s, 1)
			s.Close()
		}, corral.ErrDir, nil, `cannot \x1b[31mcd`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := startBadServer(t, test.session)
			x := box(t, d.open(t))
			p, err := x.Start(t.Context(), corral.Command{Shell: "true"})
			if !errors.Is(err, test.start) || err != nil && !strings.Contains(err.Error(), test.text) {
				t.Errorf("Start: %v", err)
			}
			if err != nil {
				return
			}
			exit, err := p.Wait(t.Context())
			switch {
			case test.wait == nil && (err != nil || exit.Code != 3):
				t.Errorf("Wait: %v, %v", exit, err)
			case test.wait != nil && (!errors.Is(err, test.wait) || !strings.Contains(err.Error(), test.text)):
				t.Errorf("Wait: %v, %v", exit, err)
			}
		})
	}
}

// A server that keeps a session open when the command has ended delays no call.
func TestServerKeepsSessionOpen(t *testing.T) {
	d := startBadServer(t, func(s talk) {
		_, _ = io.WriteString(s, s.begin+"S77 /x"+s.end)
		status(s, 0) // and the channel stays open
	})
	x := box(t, d.open(t))
	p, err := x.Start(t.Context(), corral.Command{Shell: "true"})
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 0 || time.Since(from) > 5*time.Second {
		t.Errorf("Wait: %v, %v after %v", exit, err, time.Since(from))
	}
}

// However much the files of a login shell print on standard error, what the command
// prints there is not lost.
func TestNoiseOnStandardError(t *testing.T) {
	d := startBadServer(t, func(s talk) {
		_, _ = s.Stderr().Write(make([]byte, 3*maxPreamble))
		_, _ = io.WriteString(s.Stderr(), s.begin+s.end+"went wrong\n")
		_, _ = io.WriteString(s, s.begin+"S77 /x"+s.end)
		status(s, 3)
		s.Close()
	})
	p := start(t, box(t, d.open(t)), corral.Command{Shell: "true"})
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 3 {
		t.Errorf("Wait: %v, %v", exit, err)
	}
	c, err := p.Log().Read(t.Context(), 0, make([]byte, 100))
	if string(c.Data) != "went wrong\n" || c.Stream != corral.Stderr {
		t.Errorf("%q, %v", c.Data, err)
	}
}
