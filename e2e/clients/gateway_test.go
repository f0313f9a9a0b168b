//go:build e2e

package clients_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/state/selfcert"
	"github.com/corral-exec/corral/internal/test/testdir"
)

// A gateway is a process of its own, which can be killed and started again.
type gateway struct {
	t       *testing.T
	program string
	state   string
	work    string
	flags   []string
	cmd     *exec.Cmd
}

// startGateway starts a gateway, which the end of the test ends.
func startGateway(t *testing.T, program string, flags ...string) *gateway {
	t.Helper()
	dir := testdir.New(t)
	g := &gateway{t: t, program: program, state: filepath.Join(dir, "state"), work: filepath.Join(dir, "work"), flags: flags}
	if err := os.MkdirAll(g.work, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.end)
	g.start()
	return g
}

func (g *gateway) start() {
	g.t.Helper()
	args := []string{"gateway", "--state-dir", g.state, "--sandbox", "off", "--workspace", g.work, "--listen", "127.0.0.1:0"}
	g.cmd = exec.Command(g.program, append(args, g.flags...)...)
	g.cmd.Env = append(os.Environ(), "HOME="+filepath.Dir(g.state), "XDG_CONFIG_HOME="+filepath.Dir(g.state), "SHELL=/bin/sh") // not the profile of who tests, which may take its time, nor the configuration of this machine
	log, err := os.OpenFile(filepath.Join(filepath.Dir(g.state), "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		g.t.Fatal(err)
	}
	defer log.Close()
	g.cmd.Stdout, g.cmd.Stderr = log, log
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	c := g.client(client.Options{})
	for range 600 {
		if err = c.Ready(g.t.Context()); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	g.t.Fatalf("the gateway is not ready: %v\n%s", err, g.said())
}

// kill is kill -9.
func (g *gateway) kill() {
	g.t.Helper()
	if err := g.cmd.Process.Kill(); err != nil {
		g.t.Fatal(err)
	}
	_ = g.cmd.Wait() // which says that it was killed
}

// end removes all sessions, and ends the gateway.
func (g *gateway) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.New(client.Options{Socket: filepath.Join(g.state, "gateway.sock")})
	if err != nil {
		g.t.Error(err)
		return
	}
	defer c.Close()
	list, err := c.Sessions(ctx, true)
	if err != nil {
		g.t.Error(err)
	}
	for _, st := range list {
		of, err := client.New(client.Options{Socket: filepath.Join(g.state, "gateway.sock"), Agent: st.Agent})
		if err != nil {
			g.t.Error(err)
			continue
		}
		if p, err := of.Session(ctx, st.ID); err == nil {
			err = p.Discard(ctx)
			if err != nil {
				g.t.Error(err)
			}
		}
		of.Close()
	}
	if err := g.cmd.Process.Signal(os.Interrupt); err != nil {
		g.t.Error(err)
	}
	if err := g.cmd.Wait(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			g.t.Error(err)
		}
	}
	if g.t.Failed() {
		g.t.Log(g.said())
	}
}

func (g *gateway) said() string {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(g.state), "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// client is one by the socket, unless o names a URL.
func (g *gateway) client(o client.Options) *client.Client {
	g.t.Helper()
	if o.URL == "" {
		o.Socket = filepath.Join(g.state, "gateway.sock")
	}
	c, err := client.New(o)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	return c
}

// byTCP is a client with a key, or with the token.
func (g *gateway) byTCP(scheme string, o client.Options) *client.Client {
	g.t.Helper()
	o.URL = scheme + "://" + g.address()
	return g.client(o)
}

// address is where it listens on TCP.
func (g *gateway) address() string {
	g.t.Helper()
	data, err := os.ReadFile(filepath.Join(g.state, "gateway.json"))
	if err != nil {
		g.t.Fatal(err)
	}
	var record struct {
		Listen []string `json:"listen"`
	}
	if err := json.Unmarshal(data, &record); err != nil || len(record.Listen) == 0 {
		g.t.Fatalf("%s: %v", data, err)
	}
	return record.Listen[len(record.Listen)-1]
}

func (g *gateway) token() string {
	g.t.Helper()
	data, err := os.ReadFile(filepath.Join(g.state, "gateway.token"))
	if err != nil {
		g.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// fingerprint is that of the certificate in a file.
func fingerprint(t *testing.T, file []byte) string {
	t.Helper()
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return selfcert.Fingerprint(block.Bytes)
		}
	}
	t.Fatal("the file has no certificate")
	return ""
}
