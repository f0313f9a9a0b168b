//go:build e2e

package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/test/testnet"
	"github.com/corral-exec/corral/internal/test/traces"
)

// A fleet is a gateway and its nodes, each a host of a network.
type fleet struct {
	*site
	net     *testnet.Net
	gateway *testnet.Host
	nodes   []*member
	c       *client.Client
}

// A member is one of the nodes.
type member struct {
	*daemon
	name string
	host *testnet.Host
}

func newFleet(t *testing.T, names ...string) *fleet {
	f := &fleet{net: testnet.New(t)}
	f.gateway = f.net.Host("gateway", "10.77.0.1")
	f.site = newSite(t, "--nodes", "10.77.0.1:7422")
	f.site.host = f.gateway
	f.begin()
	f.c = f.client("main")
	f.await(f.c)
	var join struct{ Line string }
	var token struct{ Token string }
	for _, q := range []struct {
		args []string
		into any
	}{{[]string{"join"}, &join}, {[]string{"tokens", "new", "--uses", "100"}, &token}} {
		out := f.corral(append(append([]string{"nodes"}, q.args...), "--state-dir", f.state, "--json")...)
		if err := json.Unmarshal([]byte(out), q.into); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	secret := filepath.Join(f.dir, "token")
	if err := os.WriteFile(secret, []byte(token.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		m := &member{name: name, host: f.net.Host(name, "10.77.1."+string(rune('1'+i)))}
		m.daemon = newDaemon(t, func() *exec.Cmd {
			return f.on(m.host, "node", "--config", filepath.Join(f.dir, "corral.json5"), "--state-dir", filepath.Join(f.dir, "state-"+name),
				"--workspace", f.work, "--gateway", join.Line, "--token-file", secret, "--name", name, "--log-format", "json")
		})
		m.begin()
		f.nodes = append(f.nodes, m)
	}
	f.online()
	return f
}

// online waits until every node is.
func (f *fleet) online() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	f.await(f.c)
	for _, m := range f.nodes {
		for {
			p, err := f.c.Start(ctx, corral.Command{Args: []string{"true"}, Host: corral.HostNode, Node: m.name})
			if err == nil {
				if _, err = p.Wait(ctx); err == nil {
					err = p.Remove(ctx)
				}
			}
			if err == nil {
				break
			}
			if !errors.Is(err, corral.ErrUnavailable) && !errors.Is(err, corral.ErrLost) || ctx.Err() != nil {
				f.t.Fatalf("node %s cannot be used: %v", m.name, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// Whatever happens to the network between a gateway and its nodes, and to the
// programs at its ends, no byte of output is lost or repeated, and every end is
// known.
func TestNodes(t *testing.T) {
	f := newFleet(t, "node-1", "node-2")
	left := traces.New(t, f.dir)
	l, stop := f.load(t)
	l.patient = true
	l.place = func(slot int, cmd *corral.Command) {
		cmd.Host, cmd.Node = corral.HostNode, f.nodes[slot%2].name
	}
	n1, n2 := f.nodes[0], f.nodes[1]
	done := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() { l.keep(setting(t, "CORRAL_CHAOS_SESSIONS", 10), 1, done) })
	began := time.Now()
	for _, e := range []struct {
		name string
		do   func()
	}{
		{"nothing", func() {}},
		{"a slow and lossy wire", func() {
			f.net.Wire(f.gateway, n1.host, testnet.Wire{Delay: 40 * time.Millisecond, Jitter: 20 * time.Millisecond, Loss: 0.02})
			time.Sleep(5 * time.Second)
			f.net.Wire(f.gateway, n1.host, testnet.Wire{})
		}},
		{"a cut", func() {
			f.net.Cut(n1.host, true)
			time.Sleep(time.Duration(setting(t, "CORRAL_CHAOS_CUT", 12)) * time.Second)
			f.net.Cut(n1.host, false)
		}},
		{"three deaths of the gateway", func() {
			for range 3 {
				f.kill()
				f.begin()
				f.online()
			}
		}},
		{"half a connection", func() {
			f.net.Cut(n1.host, true)
			f.kill()
			f.begin()
			time.Sleep(time.Second)
			f.net.Cut(n1.host, false)
		}},
		{"another address", func() { n2.host.Move("10.77.1.9") }},
		{"the death of a node", func() {
			n1.kill()
			time.Sleep(500 * time.Millisecond)
			n1.begin()
		}},
	} {
		if t.Failed() {
			break
		}
		time.Sleep(2 * time.Second)
		l.gate.Lock() // what is not there cannot begin anything
		e.do()
		healed := time.Now()
		f.online()
		l.gate.Unlock()
		t.Logf("after %v: %s, made good in %v; %d sessions are over, %d live", time.Since(began).Round(time.Second), e.name,
			time.Since(healed).Round(time.Millisecond), l.sessions.Load(), l.live.Load())
	}
	time.Sleep(2 * time.Second)
	close(done)
	working.Wait()
	stop()
	t.Logf("%d sessions, %d bytes, %d exits, %d events; %d unknown",
		l.sessions.Load(), l.bytes.Load(), l.exits.Load(), l.announced.Load(), l.unknown.Load())
	f.end(left)
}

// end ends everything in good order.
func (f *fleet) end(left *traces.Traces) {
	f.t.Helper()
	for _, m := range f.nodes {
		m.stop()
	}
	f.clear(left)
}

// Sessions that print all the time go on through a cut and three deaths of the
// gateway, and their readers miss nothing.
func TestPartition(t *testing.T) {
	const sessions, rate = 10, 100_000 // bytes per second of each
	cut := time.Duration(setting(t, "CORRAL_CHAOS_CUT", 12)) * time.Second
	f := newFleet(t, "node-1")
	left := traces.New(t, f.dir)
	l, stop := f.load(t)
	l.patient = true
	var working sync.WaitGroup
	for n := range int64(sessions) {
		size := rate * int64((cut+15*time.Second)/time.Second)
		j := &job{cmd: shell("./testprog pattern %d %d %d 10ms; until test -e over; do sleep 0.1; done; exit 3", size, n+1, rate/100), code: 3, seed: uint64(n + 1), size: size, notify: true}
		j.cmd.ID, j.cmd.Host, j.cmd.Node = fmt.Sprintf("p%d", n), corral.HostNode, "node-1"
		j.cmd.Shell = "echo ran >>runs/" + j.cmd.ID + "; " + j.cmd.Shell
		working.Go(func() { l.one(j, l.agents[n%2]) })
	}
	for l.live.Load() < sessions && !t.Failed() {
		time.Sleep(10 * time.Millisecond)
	}
	f.net.Cut(f.nodes[0].host, true)
	before := l.bytes.Load()
	time.Sleep(cut)
	f.net.Cut(f.nodes[0].host, false)
	healed := time.Now()
	for l.bytes.Load() < before+sessions*rate && !t.Failed() {
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%v after a cut of %v its sessions are read on", time.Since(healed).Round(time.Millisecond), cut)
	for range 3 {
		f.kill()
		f.begin()
		f.online()
		time.Sleep(time.Second)
	}
	if live := l.live.Load(); live != sessions {
		t.Errorf("%d of %d sessions live: the others saw no death", live, sessions)
	}
	if err := os.WriteFile(filepath.Join(f.work, "over"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	working.Wait()
	stop()
	t.Logf("%d sessions, %d bytes, %d exits, %d events; %d unknown",
		l.sessions.Load(), l.bytes.Load(), l.exits.Load(), l.announced.Load(), l.unknown.Load())
	f.end(left)
}
